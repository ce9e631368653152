// expect first of 80 lines: ((= )?5 must be at most .*4|, 5L?, .*at_most, 4L?>)
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
#ifdef MUST_FAIL
using layer = Moa<8, 4, SoftmaxTopK<4, 5>>;
#else
using layer = Moa<8, 4, SoftmaxTopK<4, 4>>;
#endif
constexpr auto y = layer::y;

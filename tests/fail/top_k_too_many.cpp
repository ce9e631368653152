// expect: (Found = 5[^a-zA-Z]+[a-zA-Z: ]*Expected = 4|, 5L?, 4L?, false>)
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

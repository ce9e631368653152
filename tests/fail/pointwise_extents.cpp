// expect first of 40 lines: ((= )?3 must equal .*4|, 3L?, .*equal, 4L?>)
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
#ifdef MUST_FAIL
struct b : input<tokens, size<4>> {};
#else
struct b : input<tokens, size<3>> {};
#endif
constexpr auto y = a{} + b{};

// expect first of 40 lines: headmix: a number in an equation is a type: write 2_n for 2 and 2.5_n for 2.5
// SPDX-License-Identifier: MIT
#include "headmix/expr/pointwise.hpp"

using namespace headmix;

struct x : input<tokens, size<6>> {};
#ifdef MUST_FAIL
constexpr auto y = exp(x{}) / 2 - 1;
#else
constexpr auto y = exp(x{}) / 2_n - 1_n;
#endif

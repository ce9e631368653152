// expect first of 40 lines: headmix: a number in an equation is a type: number<2>{} instead of 2
// SPDX-License-Identifier: MIT
#include "headmix/expr/pointwise.hpp"

using namespace headmix;

struct x : input<tokens, size<6>> {};
#ifdef MUST_FAIL
constexpr auto y = exp(x{}) / 2 - 1;
#else
constexpr auto y = exp(x{}) / number<2>{} - number<1>{};
#endif

// expect first of 40 lines: ((= )?3 must equal .*1|, 3L?, .*equal, 1L?>)
// SPDX-License-Identifier: MIT
#include "headmix/expr/pointwise.hpp"

using namespace headmix;
struct W : param<size<3>, size<2>, size<5>> {};
#ifdef MUST_FAIL
struct M : param<size<2>, size<5>> {};  // would be repeated for every matrix of the stack
#else
struct M : param<size<3>, size<2>, size<5>> {};
#endif
constexpr auto y = W{} * M{};

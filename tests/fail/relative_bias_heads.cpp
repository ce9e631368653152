// expect first of 60 lines: ((= )?3 must equal .*2|, 3L?, .*equal, 2L?>)
// SPDX-License-Identifier: MIT
#include "headmix/expr/attention.hpp"

using namespace headmix;

struct q : input<tokens, size<8>> {};
struct b : param<size<9>, size<2>> {};
struct c : param<size<9>, size<3>> {};
#ifdef MUST_FAIL
using bias = c;
#else
using bias = b;
#endif
constexpr auto y = attention<full, size<2>>(q{}, q{}, q{}, bias_of_scores<size<3>>(bias{}));

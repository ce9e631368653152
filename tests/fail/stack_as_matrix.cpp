// expect: headmix: this operation takes matrices, and an operand is a stack of them
// SPDX-License-Identifier: MIT
#include "headmix/expr/softmax.hpp"

using namespace headmix;
#ifdef MUST_FAIL
struct W : param<size<3>, size<2>, size<5>> {};
#else
struct W : param<size<2>, size<5>> {};
#endif
constexpr auto y = softmax(W{});

// expect: headmix: a size is a number from 0 or
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
#ifdef MUST_FAIL
struct D : size<-2> {};
#else
struct D : size<2> {};
#endif
struct a : input<tokens, D> {};
constexpr auto y = exp(a{});

// expect: headmix: top_k chooses at least one column
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
#ifdef MUST_FAIL
constexpr auto y = arg_top_k<size<0>>(a{});
#else
constexpr auto y = arg_top_k<size<1>>(a{});
#endif

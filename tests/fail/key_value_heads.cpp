// expect first of 60 lines: headmix: an extent is not a multiple of the other one
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<6>> {};
#ifdef MUST_FAIL
constexpr auto y = attention<full, size<4>>(a{}, a{}, a{});
#else
constexpr auto y = attention<full, size<3>>(a{}, a{}, a{});
#endif

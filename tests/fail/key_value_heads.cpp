// expect: (Found = 6[^a-zA-Z]+[a-zA-Z: ]*Expected = 4|, 6L?, 4L?, false>)
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

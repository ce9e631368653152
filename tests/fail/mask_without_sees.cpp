// expect: AttentionMask
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
struct mask {
#ifndef MUST_FAIL
  static constexpr bool sees(Index, Index) { return true; }
#endif
};
constexpr auto y = attention<mask>(a{}, a{}, a{});

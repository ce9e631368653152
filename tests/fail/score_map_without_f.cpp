// expect: a ScoreMap is an empty struct with
// SPDX-License-Identifier: MIT
#include "headmix/expr/attention.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
struct doubled : score_map {
#ifndef MUST_FAIL
  static constexpr auto f(auto s) { return s + s; }
#endif
};
constexpr auto y = attention<causal>(a{}, a{}, a{}, doubled{});

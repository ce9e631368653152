// expect: rows_of_heads, bias_of_scores and score_maps at most once each
// SPDX-License-Identifier: MIT
#include "headmix/expr/attention.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
struct doubled : score_map {
  static constexpr auto f(auto s) { return s + s; }
};
#ifdef MUST_FAIL
constexpr auto y = attention<causal>(a{}, a{}, a{}, score_maps<size<1>, doubled>{}, doubled{});
#else
constexpr auto y = attention<causal>(a{}, a{}, a{}, score_maps<size<1>, doubled>{});
#endif

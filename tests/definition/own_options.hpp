#pragma once
// SPDX-License-Identifier: MIT
// Options of a user's own: masks and score maps of options.hpp, in the language of the library.

#include "headmix/layer/scores.hpp"

namespace headmix::definition {

/// The two latest keys and the first one; a mask without a range.
struct first_and_latest_keys {
  HEADMIX_HD static constexpr bool sees(Index t, Index s) { return s <= t && (t - s < 2 || s == 0); }
};
/// Keys at a distance of at most one, where queries and keys are numbered from 0 each.
struct neighbouring_keys {
  static constexpr bool separate_positions = true;
  HEADMIX_HD static constexpr bool sees(Index t, Index s) { return t - s < 2 && s - t < 2; }
};
struct learned_slope : score_map {
  template <Extent Heads>
  struct slope : bias_param<Heads> {};
  static constexpr auto f(auto s, auto heads) {
    return s - slope<decltype(heads)>{} * abs(query_position{} - key_position{});
  }
};
struct learned_gain : score_map {
  template <Extent Heads>
  struct gain : bias_param<Heads> {};
  static constexpr auto f(auto s, auto heads) { return s * gain<decltype(heads)>{}; }
};
struct place_and_head : score_map {
  static constexpr auto f(auto s) {
    return s + number<1, 8>{} * query_position{} * key_position{} - number<1, 4>{} * head_index{};
  }
};

}  // namespace headmix::definition

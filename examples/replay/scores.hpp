#pragma once
// SPDX-License-Identifier: MIT
// Score options of a case: ALiBi, with slopes 0 if it is off, then a soft cap, above any score if it is off.

#include <algorithm>
#include <cmath>
#include <limits>

#include "headmix/layer/scores.hpp"
#include "transfer.hpp"

namespace replay {

/// `soft_cap` of a case; 0 for none.
inline double soft_cap_of(Case& c) {
  double const cap = c.number("soft_cap", 0);
  if (cap < 0) c.reject("soft_cap", "a number from 0", headmix::message(cap));
  return cap;
}
inline bool alibi_of(Case& c) { return c.choice("alibi", {"off", "on"}) == "on"; }

/// Binds the cap of soft_cap<dynamic>. Above the limit used here, c tanh(s / c) is s to the last bit in any type.
template <class Layer>
void bind_soft_cap(Layer& layer, double cap) {
  using T = typename Layer::T;
  double const least = std::numeric_limits<T>::min(), most = 1e30;
  auto const used = static_cast<T>(cap == 0 ? most : std::clamp(cap, least, most));
  layer.module().program().bind(soft_cap<dynamic>::cap{}, layer.put(std::vector<T>{used}, 1));
}
/// Binds the slopes of alibi, 2^(-8 (i + 1) / heads) or 0.
template <Extent Heads, class Layer>
void bind_alibi(Layer& layer, bool on, Index heads) {
  using T = typename Layer::T;
  std::vector<T> slopes(static_cast<std::size_t>(heads));
  for (Index i = 0; on && i < heads; ++i) {
    slopes[static_cast<std::size_t>(i)] =
        static_cast<T>(std::exp2(-8 * static_cast<double>(i + 1) / static_cast<double>(heads)));
  }
  layer.module().program().bind(alibi::slopes<Heads>{}, layer.put(slopes, heads));
}

}  // namespace replay

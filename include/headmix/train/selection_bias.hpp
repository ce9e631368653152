#pragma once
// SPDX-License-Identifier: MIT
// Balancing without a loss (Wang et al. 2024): after a pass, the bias of experts with less than the mean load is
// raised.

#include <cmath>
#include <vector>

#include "headmix/contract/memory.hpp"
#include "headmix/core/error.hpp"
#include "headmix/expr/leaf.hpp"

namespace headmix {

/// b_i += rate sign(mean load - load_i) for the buffer `Bias` of a module, [1, experts], where load_i is the number of
/// times that the last forward pass chose expert i in the module's selection number `Which`. Choices of -1 are ignored;
/// an expert outside of the buffer is an error.
/// @param time  instance of a repeated layer
template <ModuleBuffer Bias, int Which = 0, class M>
void update_selection_bias(M& m, double rate, Index time = 0) {
  if (!std::isfinite(rate)) fail("update_selection_bias: expected a finite rate, found ", rate);
  auto const bias = m.template get<Bias>(time).value;
  auto const chosen = m.template observed<Which>(time);
  if (!chosen.contiguous()) fail("update_selection_bias: expected a contiguous selection");
  std::vector<Int> choices(static_cast<std::size_t>(chosen.size()));
  download(m.backend(), choices.data(), chosen.data, choices.size());
  std::vector<Index> load(static_cast<std::size_t>(bias.size()));
  Index all = 0;
  for (Int const expert : choices) {
    if (expert == -1) continue;
    if (0 > expert || expert >= bias.size()) {
      fail("update_selection_bias: expected an expert below ", bias.size(), ", found ", expert);
    }
    ++load[static_cast<std::size_t>(expert)];
    ++all;
  }
  std::vector<typename M::scalar> b(load.size());
  download(m.backend(), b.data(), bias.data, b.size());
  for (std::size_t i = 0; i < b.size(); ++i) {
    Index const above = load[i] * bias.size() - all;  // the mean, times as many
    double const sign = above < 0 ? 1 : above > 0 ? -1 : 0;
    b[i] = static_cast<typename M::scalar>(static_cast<double>(b[i]) + rate * sign);
  }
  upload(m.backend(), bias.data, b.data(), b.size());
}

}  // namespace headmix

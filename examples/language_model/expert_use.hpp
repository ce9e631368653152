#pragma once
// SPDX-License-Identifier: MIT
// What the experts and heads of a model do.

#include <vector>

#include "headmix/analysis/experts.hpp"
#include "options.hpp"
#include "sublayer.hpp"

namespace lm {

/// Of each layer and expert; the experts of moh are its heads.
using Loads = std::vector<std::vector<double>>;

/// What the experts of each layer did.
struct ExpertUse {
  Loads loads, ffn_loads;            ///< counts, of the attention and of the feed-forward networks
  std::vector<double> gate_entropy;  ///< of mae in nats, summed over positions; in Results the mean
  /// With which bytes experts occurred: of moa, the routed heads of moh, mae with a gate. Empty for others.
  std::vector<headmix::ExpertCounts> bytes;
  /// The same of feed-forward mixtures; layers without one have no counts.
  std::vector<headmix::ExpertCounts> ffn_bytes;
};

/// Adds what the sublayers of block `layer` did in a forward pass over `bytes`: Sublayer::chosen() and gate() of the
/// attention, and chosen() of the feed-forward network.
void observe(Options const& options, std::size_t layer, HostMatrix<Int> const& chosen, HostMatrix<float> const& gate,
             HostMatrix<Int> const& ffn_chosen, Int const* bytes, ExpertUse& use);

}  // namespace lm

#pragma once
// SPDX-License-Identifier: MIT
// Statistics of a model's experts and heads.

#include <vector>

#include "headmix/analysis/experts.hpp"
#include "options.hpp"
#include "sublayer.hpp"

namespace lm {

/// Loads by layer and expert; the experts of moh are its heads.
using Loads = std::vector<std::vector<double>>;

/// Statistics of the experts of each layer.
struct ExpertUse {
  Loads loads, ffn_loads;            ///< counts, of the attention and of the feed-forward networks
  std::vector<double> gate_entropy;  ///< of mae, in nats, summed over positions; the mean in Results
  /// Co-occurrence of bytes with experts: of moa, the routed heads of moh, mae with a gate. Empty for others.
  std::vector<headmix::ExpertCounts> bytes;
  /// Co-occurrence of bytes with feed-forward experts; layers without a mixture have no counts.
  std::vector<headmix::ExpertCounts> ffn_bytes;
};

/// Adds the choices of block `layer` in a forward pass over `bytes`: Sublayer::chosen() and gate() of the attention,
/// and chosen() of the feed-forward network.
void observe(Options const& options, std::size_t layer, HostMatrix<Int> const& chosen, HostMatrix<float> const& gate,
             HostMatrix<Int> const& ffn_chosen, Int const* bytes, ExpertUse& use);

}  // namespace lm

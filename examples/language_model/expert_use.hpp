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
  Loads loads, ffn_loads;                    ///< counts, of the attention and of the feed-forward networks
  std::vector<double> gate_entropy;          ///< of mae in nats, summed over positions; in Results the mean
  std::vector<headmix::ExpertCounts> bytes;  ///< of moa and mae with a gate, with which bytes experts occurred
};

/// Adds what the sublayers of block `layer` did in the last forward pass over `bytes`.
void observe(Options const& options, std::size_t layer, Sublayer& attention, Sublayer& network, Int const* bytes,
             ExpertUse& use);

}  // namespace lm

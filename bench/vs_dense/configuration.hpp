#pragma once
// SPDX-License-Identifier: MIT
// One layer of attention at sizes of the user's own, beside dense attention:
//
//   headmix-bench --layer moh --heads 16 --active 8 --svg moh.svg
//
// times both at several lengths, and with several shares of active heads.

#include <memory>
#include <string>
#include <vector>

#include "headmix/core/view.hpp"

namespace bench {

using headmix::Index;

/// What the options of the command line say.
struct Configuration {
  std::string layer;  ///< moh, moh_query_norm (with estimator::active), moa, mae
  Index heads = 16;   ///< of moa: experts
  Index active = 8;   ///< for every token; of mae: heads that an expert keeps
  Index shared = 2;   ///< of them, heads that every token uses; moh alone, 0 for others
  Index head_dim = 64;
  Index model_dim = 0;  ///< heads * head_dim unless given
  bool causal = true;
  Index threads = 1;
  std::vector<Index> lengths = {512, 1024, 2048, 4096};
  std::string svg;  ///< file; empty: none

  /// "MoH, 8 of 16 heads of width 64"
  [[nodiscard]] std::string title() const;
};

/// Reads the options of a configuration, of which one is --layer.
/// @throws command_line::UsageError
[[nodiscard]] Configuration parse_configuration(std::vector<std::string> const& arguments);
/// Numbers of active heads that the configuration's layer can have, in ascending order: eighths, and its own.
[[nodiscard]] std::vector<Index> active_heads(Configuration const& c);
/// The same layer with another number of them.
[[nodiscard]] Configuration with_active(Configuration c, Index active);

/// A module of one sequence, and numbers for its passes.
class TimedLayer {
 public:
  virtual ~TimedLayer() = default;
  TimedLayer(TimedLayer const&) = delete;
  TimedLayer& operator=(TimedLayer const&) = delete;

  virtual void pass(bool backward) = 0;
  /// What the module takes after its first pass: parameters, gradients and workspace.
  [[nodiscard]] virtual double bytes() = 0;

 protected:
  TimedLayer() = default;
};
/// The layer of the configuration, or with `dense` attention with as many heads, all of them active.
[[nodiscard]] std::unique_ptr<TimedLayer> make_full(Configuration const& c, Index length, bool dense);
[[nodiscard]] std::unique_ptr<TimedLayer> make_causal(Configuration const& c, Index length, bool dense);

/// One of the lines that are printed and drawn.
struct Comparison {
  Index length, active;
  double dense_ms[2], layer_ms[2], relative[2];  ///< forward; forward and backward
  double dense_mib, layer_mib;
  bool steady;  ///< whether the machine's speed was
};
/// The picture: time and memory by length, and by active heads.
[[nodiscard]] std::string draw(Configuration const& c, std::vector<Comparison> const& by_length,
                               std::vector<Comparison> const& by_active);

/// Times the layer, prints the tables and writes the picture.
void time_vs_dense(Configuration const& c);

}  // namespace bench

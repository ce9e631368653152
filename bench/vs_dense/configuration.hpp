#pragma once
// SPDX-License-Identifier: MIT
// One attention layer at sizes of the user, compared with dense attention:
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

/// The options of the command line.
struct Configuration {
  std::string layer;  ///< moh, moh_query_norm (with estimator::active), moa, mae
  Index heads = 16;   ///< for moa, the number of experts
  Index active = 8;   ///< heads of a token; for mae, heads of an expert
  Index shared = 2;   ///< active heads that every token uses, of moh; 0 for others
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
/// A line for every option of parse_configuration(), with its values, meaning and default.
[[nodiscard]] std::string configuration_help();
/// Numbers of active heads for the configuration's layer, ascending: eighths, and the configured one.
[[nodiscard]] std::vector<Index> active_heads(Configuration const& c);
/// The configuration with another number of active heads.
[[nodiscard]] Configuration with_active(Configuration c, Index active);

/// A module for one sequence, with inputs for its passes.
class TimedLayer {
 public:
  virtual ~TimedLayer() = default;
  TimedLayer(TimedLayer const&) = delete;
  TimedLayer& operator=(TimedLayer const&) = delete;

  virtual void pass(bool backward) = 0;
  /// Bytes of the module after its first pass: parameters, gradients and workspace.
  [[nodiscard]] virtual double bytes() = 0;

 protected:
  TimedLayer() = default;
};
/// The configured layer, or with `dense` attention with as many heads, all active.
[[nodiscard]] std::unique_ptr<TimedLayer> make_full(Configuration const& c, Index length, bool dense);
[[nodiscard]] std::unique_ptr<TimedLayer> make_causal(Configuration const& c, Index length, bool dense);

/// A line of the tables and a point of the picture.
struct Comparison {
  Index length, active;
  double dense_ms[2], layer_ms[2], relative[2];  ///< forward; forward and backward
  double dense_mib, layer_mib;
  bool steady;  ///< the speed of the machine was steady
};
/// The picture: time and memory by length, and by active heads.
[[nodiscard]] std::string draw(Configuration const& c, std::vector<Comparison> const& by_length,
                               std::vector<Comparison> const& by_active);

/// Times the layer, prints the tables and writes the picture.
void time_vs_dense(Configuration const& c);

}  // namespace bench

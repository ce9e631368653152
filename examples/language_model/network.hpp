#pragma once
// SPDX-License-Identifier: MIT
// The feed-forward network of a block, whatever it is: models of every kind of attention call it through this class, so
// that each kind is compiled once for a backend, and not once for each kind of attention.

#include <memory>
#include <vector>

#include "headmix/program/parameter.hpp"
#include "options.hpp"

namespace lm {

using headmix::Int;
using headmix::segments;
using headmix::view;

/// Views are of the backend's memory.
class Network {
 public:
  virtual ~Network() = default;
  /// h plus the network of n, which is h normalised.
  virtual view<float const> forward(view<float const> n, view<float const> h, segments s) = 0;
  /// Adds to the parameters' gradients, also those of the weighted load-balance loss. That by h is dy.
  virtual void backward(view<float const> dy) = 0;
  /// By n.
  [[nodiscard]] virtual view<float const> input_gradient() const = 0;
  virtual void zero_gradients() = 0;
  [[nodiscard]] virtual std::vector<headmix::parameter<float>> const& parameters() const = 0;
  /// The experts of every row of the last pass; of a mixture only.
  [[nodiscard]] virtual view<Int const> chosen() const = 0;
  /// Their number, 0 if this is no mixture.
  [[nodiscard]] virtual Index experts() const = 0;

 protected:
  Network() = default;
  Network(Network const&) = default;
  Network& operator=(Network const&) = default;
};

/// That of block `layer`. Each pair of weights and backend is compiled in a file of its own (networks.hpp).
template <Weights W, class Backend>
std::unique_ptr<Network> make_network(Options const& options, Index layer, Backend const& backend);

}  // namespace lm

#pragma once
// SPDX-License-Identifier: MIT
// Stochastic gradient descent without momentum or decay.

#include <vector>

#include "headmix/contract/lowered_tree.hpp"
#include "headmix/contract/optional_kernels.hpp"
#include "headmix/program/parameter.hpp"
#include "headmix/train/adamw.hpp"

namespace headmix {

namespace detail {
template <class T>
struct sgd_update {
  T* __restrict value;
  T const* __restrict gradient;
  T rate;

  HEADMIX_HD void operator()(Index i) const { value[i] -= rate * gradient[i]; }
};
}  // namespace detail

/// \f$ \theta \leftarrow \theta - \eta g \f$. The parameters' memory must stay where it is.
/// @tparam Backend whose memory the parameters lie in: see ForEach
template <std::floating_point T, ForEach Backend = host>
class Sgd {
 public:
  /// Moves these parameters.
  explicit Sgd(std::vector<parameter<T>> parameters, Backend backend = {})
      : backend_(std::move(backend)), parameters_(std::move(parameters)) {
    for (auto const& p : parameters_) {
      if (p.gradient.size() == p.value.size()) continue;
      fail("Sgd: ", p.name, " has ", p.value.size(), " elements, its gradient ", p.gradient.size());
    }
  }

  /// One update with the rate `lr`.
  void step(double lr) {
    ++steps_;
    for (auto const& p : parameters_) {
      backend_.for_each(p.value.size(), detail::sgd_update<T>{p.value.data, p.gradient.data, static_cast<T>(lr)});
    }
  }
  /// What it moves.
  [[nodiscard]] std::vector<parameter<T>> const& parameters() const { return parameters_; }
  /// The number of steps taken: all of its state (StatefulOptimiser).
  [[nodiscard]] Index steps() const { return steps_; }
  /// Sets it.
  void set_steps(Index steps) { steps_ = steps; }
  /// None.
  [[nodiscard]] std::vector<state_tensor<T>> state() const { return {}; }

 private:
  [[no_unique_address]] Backend backend_;
  std::vector<parameter<T>> parameters_;
  Index steps_ = 0;
};

}  // namespace headmix

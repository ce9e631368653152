#pragma once
// SPDX-License-Identifier: MIT
// Stochastic gradient descent without momentum or decay.

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/program/parameter.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/settings.hpp"

namespace headmix {

namespace detail {
template <class T>
struct sgd_update {
  using W = accumulator_t<T>;
  T const* __restrict gradient;
  W rate;

  HEADMIX_HD W operator()(Index i, W weight) const { return weight - rate * static_cast<W>(gradient[i]); }
};
}  // namespace detail

/// Settings of Sgd, for bfloat16 parameters only.
struct SgdOptions {
  narrow_parameters narrow = narrow_parameters::master_weights;  ///< treatment of small updates
  std::uint64_t seed = 0;                                        ///< of stochastic rounding
};

/// \f$ \theta \leftarrow \theta - \eta g \f$. The parameters' memory must stay where it is. Code that writes to
/// bfloat16 parameters otherwise must call parameters_changed(), as with AdamW.
/// @tparam T scalar type of the parameters: float, double or bfloat16
/// @tparam Backend of the parameters' memory: see ForEach
template <class T, ForEach Backend = host>
requires(std::floating_point<T> || std::is_same_v<T, bfloat16>) class Sgd {
 public:
  /// The type of master weights.
  using wide = accumulator_t<T>;

  /// An optimiser of these parameters with default settings.
  explicit Sgd(std::vector<parameter<T>> parameters, Backend backend = {})
      : Sgd(std::move(parameters), {}, std::move(backend)) {}
  /// An optimiser of these parameters with settings.
  Sgd(std::vector<parameter<T>> parameters, SgdOptions const& options, Backend backend = {})
      : moved_((detail::check_parameters("Sgd", parameters), std::move(parameters)), options.narrow, options.seed,
               std::move(backend)) {}

  /// One update with the rate `lr` >= 0.
  void step(double lr) {
    detail::check_rate("Sgd", "the rate", lr);
    steps_ = (checked(steps_) + 1).value;
    moved_.each([&](parameter<T> const& p, Index first) {
      moved_.move(p, first, steps_, detail::sgd_update<T>{p.gradient.data, static_cast<wide>(lr)});
    });
  }
  /// Takes the current values of the parameters as the weights, after another writer changed them.
  void parameters_changed() { moved_.changed(); }
  /// The parameters of this optimiser.
  [[nodiscard]] std::vector<parameter<T>> const& parameters() const { return moved_.all(); }
  /// The backend that owns the master weights.
  [[nodiscard]] Backend const& backend() const { return moved_.backend(); }
  /// The number of steps taken; with state() it is the whole state (StatefulOptimiser).
  [[nodiscard]] Index steps() const { return steps_; }
  /// Sets the number of steps taken.
  void set_steps(Index steps) {
    detail::check_steps("Sgd", steps);
    steps_ = steps;
  }
  /// Master weights of bfloat16 parameters, if any, named as AdamW's.
  [[nodiscard]] std::vector<state_tensor<wide>> state() const {
    std::vector<state_tensor<wide>> all;
    moved_.each([&](parameter<T> const& p, Index first) { moved_.add_state(all, p, first); });
    return all;
  }

 private:
  detail::moved_parameters<T, Backend> moved_;
  Index steps_ = 0;
};

}  // namespace headmix

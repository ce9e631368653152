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

/// Settings of Sgd, of parameters of bfloat16 only.
struct SgdOptions {
  narrow_parameters narrow = narrow_parameters::master_weights;  ///< what becomes of small updates
  std::uint64_t seed = 0;                                        ///< of stochastic rounding
};

/// \f$ \theta \leftarrow \theta - \eta g \f$. The parameters' memory must stay where it is. Whoever writes to
/// parameters of bfloat16 calls parameters_changed(), as with AdamW.
/// @tparam T of the parameters: float, double or bfloat16
/// @tparam Backend whose memory the parameters lie in: see ForEach
template <class T, ForEach Backend = host>
requires(std::floating_point<T> || std::is_same_v<T, bfloat16>) class Sgd {
 public:
  /// Of master weights.
  using wide = accumulator_t<T>;

  /// Moves these parameters.
  explicit Sgd(std::vector<parameter<T>> parameters, Backend backend = {})
      : Sgd(std::move(parameters), {}, std::move(backend)) {}
  /// The same with settings.
  Sgd(std::vector<parameter<T>> parameters, SgdOptions const& options, Backend backend = {})
      : moved_((detail::check_parameters("Sgd", parameters), std::move(parameters)), options.narrow, options.seed,
               std::move(backend)) {}

  /// One update with the rate `lr`, which is not negative.
  void step(double lr) {
    detail::check_rate("Sgd", "the rate", lr);
    steps_ = (checked(steps_) + 1).value;
    moved_.each([&](parameter<T> const& p, Index first) {
      moved_.move(p, first, steps_, detail::sgd_update<T>{p.gradient.data, static_cast<wide>(lr)});
    });
  }
  /// The parameters are what they are now, and not what the optimiser made of them.
  void parameters_changed() { moved_.changed(); }
  /// What it moves.
  [[nodiscard]] std::vector<parameter<T>> const& parameters() const { return moved_.all(); }
  /// In whose memory its state lies.
  [[nodiscard]] Backend const& backend() const { return moved_.backend(); }
  /// The number of steps taken, which with state() is all of its state (StatefulOptimiser).
  [[nodiscard]] Index steps() const { return steps_; }
  /// Sets it.
  void set_steps(Index steps) {
    detail::check_steps("Sgd", steps);
    steps_ = steps;
  }
  /// Master weights of bfloat16, where there are some, as AdamW has them.
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

#pragma once
// SPDX-License-Identifier: MIT
// Averages of parameters over a training: an exponential moving average (EMA), or the mean of checkpoints.

#include <cmath>
#include <concepts>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/contract/memory.hpp"
#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/program/parameter.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/narrow_parameters.hpp"
#include "headmix/train/settings.hpp"

namespace headmix {

namespace detail {
/// average[i] += share * (value[i] - average[i])
template <class T>
struct average_element {
  using W = accumulator_t<T>;
  W* __restrict average;
  T const* __restrict value;
  W share;
  HEADMIX_HD void operator()(Index i) const {
    average[i] =
        share == W(1) ? static_cast<W>(value[i]) : average[i] + share * (static_cast<W>(value[i]) - average[i]);
  }
};
}  // namespace detail

/// An average of the parameters of a module, taken at every update(), in accumulator_t<T>: float for bfloat16. The
/// parameters' memory must stay where it is. Of a bfloat16 module the rounded parameters are averaged, not an
/// optimiser's master weights; buffers are not. It is a StatefulOptimiser, so `save(path, m, optimiser, average)` and
/// load() include it; its tensors are named "average.W_q".
///
///   ParameterAverage<float> ema(m.parameters(), 0.9999);                          // DiT; after each step:
///   ema.update();
///   ema.copy_to(evaluated);                                                       // another module of the layer
///
///   ParameterAverage<float> mean(m.parameters());                                 // MoA: the last 10 checkpoints
///   for (auto const& path : last_ten) load(path, m), mean.update();
///   mean.copy_to(m);
///
/// @tparam T scalar type of the parameters: float, double or bfloat16
/// @tparam Backend of the parameters' memory: see ForEach
template <class T, ForEach Backend = host>
requires(std::floating_point<T> || std::is_same_v<T, bfloat16>) class ParameterAverage {
 public:
  /// The type of averages.
  using wide = accumulator_t<T>;

  /// The mean of the parameters at all calls of update(); their present values before the first one.
  explicit ParameterAverage(std::vector<parameter<T>> parameters, Backend backend = {})
      : ParameterAverage(std::move(parameters), -1, false, std::move(backend)) {}
  /// The EMA: \f$ \bar\theta \leftarrow \beta \bar\theta + (1 - \beta) \theta \f$ at every update(), with the decay
  /// \f$ \beta \f$, at least 0 and less than 1, from the present values on.
  ParameterAverage(std::vector<parameter<T>> parameters, double decay, Backend backend = {})
      : ParameterAverage(std::move(parameters), decay, true, std::move(backend)) {}

  /// Includes the present values of the parameters.
  void update() {
    steps_ = (checked(steps_) + 1).value;
    take(decay_ >= 0 ? 1 - decay_ : 1 / static_cast<double>(steps_));
  }
  /// Writes the average, rounded to the module's scalar, to the parameters of a module on the same backend: this one's,
  /// or another one's of the same names and extents in the same order. Optimisers of a bfloat16 module then need
  /// parameters_changed().
  template <class M>
  void copy_to(M& module) {
    auto const& to = module.parameters();
    if (to.size() != all_.size()) {
      fail("ParameterAverage: copy_to(): expected ", all_.size(), " parameters, found ", to.size());
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      auto const &from = all_[i].value, &value = to[i].value;
      bool const same = from.count == value.count && from.rows == value.rows && from.cols == value.cols;
      if (to[i].name != all_[i].name || !same) {
        fail("ParameterAverage: copy_to(): expected the parameter ", all_[i].name, " ", detail::extents(from),
             ", found ", to[i].name, " ", detail::extents(value));
      }
    }
    wide const* from = average_.template as<wide>();
    for (auto const& p : to) {
      using To = std::remove_cvref_t<decltype(*p.value.data)>;
      backend_.for_each(p.value.size(), detail::copy_element<To, wide>{p.value.data, from});
      from += p.value.size();
    }
    if constexpr (requires { module.parameters_changed(); }) module.parameters_changed();
  }

  /// The number of updates.
  [[nodiscard]] Index steps() const { return steps_; }
  /// Sets the number of updates, which are the terms of a mean.
  void set_steps(Index steps) {
    detail::check_steps("ParameterAverage", steps);
    steps_ = steps;
  }
  /// The averages: see StatefulOptimiser.
  [[nodiscard]] std::vector<state_tensor<wide>> state() const {
    std::vector<state_tensor<wide>> state;
    wide* at = average_.template as<wide>();
    for (auto const& p : all_) {
      state.push_back({"average." + std::string(p.name), {at, p.value.count, p.value.rows, p.value.cols}, p.part});
      at += p.value.size();
    }
    return state;
  }
  /// The backend that owns the averages.
  [[nodiscard]] Backend const& backend() const { return backend_; }

 private:
  ParameterAverage(std::vector<parameter<T>> parameters, double decay, bool has_decay, Backend backend)
      : backend_(std::move(backend)), all_(std::move(parameters)), decay_(decay) {
    if (has_decay) {
      detail::check_setting("ParameterAverage", "decay", decay, decay >= 0 && decay < 1, "at least 0 and less than 1");
    }
    detail::check_parameters("ParameterAverage", all_);
    checked size = 0;
    for (auto const& p : all_) size += detail::checked_size(p.value);
    average_ = backend_memory<Backend>(checked_bytes(size.value, sizeof(wide)));
    take(1);
  }
  void take(double share) {
    wide* at = average_.template as<wide>();
    for (auto const& p : all_) {
      backend_.for_each(p.value.size(), detail::average_element<T>{at, p.value.data, static_cast<wide>(share)});
      at += p.value.size();
    }
  }

  [[no_unique_address]] Backend backend_;
  std::vector<parameter<T>> all_;
  double decay_;  // below 0: of a mean
  Index steps_ = 0;
  backend_memory<Backend> average_;  // of all parameters, concatenated
};

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// AdamW (Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", Algorithm 2), and functions of gradients
// between two steps: the global norm, clipping by it, zeroing. The optimiser reads gradients and writes values; it
// never zeroes gradients. Results depend on the order of the parameters, on nothing else.

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/contract/lowered_tree.hpp"
#include "headmix/contract/memory.hpp"
#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"
#include "headmix/expr/pointwise.hpp"
#include "headmix/program/parameter.hpp"
#include "headmix/train/narrow_parameters.hpp"
#include "headmix/train/settings.hpp"

namespace headmix {

/// Settings of AdamW.
struct AdamWOptions {
  double beta1 = 0.9;                                            ///< decay of the mean of gradients
  double beta2 = 0.99;                                           ///< decay of the mean of squared gradients
  double eps = 1e-8;                                             ///< added to the bias-corrected root
  double weight_decay = 0.1;                                     ///< for matrices only, see decays()
  narrow_parameters narrow = narrow_parameters::master_weights;  ///< of bfloat16 only
  std::uint64_t seed = 0;                                        ///< of stochastic rounding
};

namespace detail {

/// Constants of one step, the same for all elements.
template <class T>
struct adamw_step {
  T scale;              ///< multiplies every gradient
  T beta1, one_minus1;  ///< \f$ \beta_1, 1 - \beta_1 \f$
  T beta2, one_minus2;  ///< \f$ \beta_2, 1 - \beta_2 \f$
  T rate;               ///< \f$ \eta / (1 - \beta_1^t) \f$
  T root;               ///< \f$ 1 / \sqrt{1 - \beta_2^t} \f$
  T eps;
  T keep;  ///< \f$ 1 - \eta\lambda \f$
};

/// The update of the elements of one parameter.
template <class T>
struct adamw_update {
  using W = accumulator_t<T>;
  T const* __restrict gradient;
  W* __restrict m, * __restrict v;
  adamw_step<W> c;

  HEADMIX_HD W operator()(Index i, W weight) const {
    using std::sqrt;
    W const g = c.scale * static_cast<W>(gradient[i]);
    m[i] = c.beta1 * m[i] + c.one_minus1 * g;
    v[i] = c.beta2 * v[i] + c.one_minus2 * (g * g);
    return c.keep * weight - c.rate * m[i] / (sqrt(v[i]) * c.root + c.eps);
  }
};

/// The sum of f(x_i) in double, in an order that depends on n alone.
template <class T, class F>
[[nodiscard]] double ordered_sum(T const* x, Index n, F f) {
  constexpr Index lanes = 16;
  std::array<double, lanes> sum{};
  Index i = 0;
  for (; i + lanes <= n; i += lanes)
    for (Index j = 0; j < lanes; ++j) sum[static_cast<std::size_t>(j)] += f(static_cast<double>(x[i + j]));
  for (; i < n; ++i) sum[static_cast<std::size_t>(i % lanes)] += f(static_cast<double>(x[i]));
  double total = 0;
  for (double const s : sum) total += s;
  return total;
}
template <class T>
[[nodiscard]] double sum_of_squares(T const* x, Index n) {
  return ordered_sum(x, n, [](double e) { return e * e; });
}
[[nodiscard]] inline double clip_scale_of(double norm, double max_norm) {
  if (!(max_norm >= 0)) fail("clip_scale: expected a norm of at least 0, found ", max_norm);
  return norm > max_norm ? max_norm / norm : 1.0;
}

}  // namespace detail

/// True for parameters with weight decay: matrices and stacks; not biases, gains and other single rows or columns.
template <class T>
[[nodiscard]] bool decays(parameter<T> const& p) {
  auto const extents = p.whole();
  return extents[1] > 1 && extents[2] > 1;
}

/// The global norm of all gradients, \f$ \lVert (g_1, g_2, \ldots) \rVert_2 \f$, summed in double. Not finite if a
/// gradient is not.
template <class T>
[[nodiscard]] double gradient_norm(std::vector<parameter<T>> const& parameters) {
  double sum = 0;
  for (auto const& p : parameters) sum += detail::sum_of_squares(p.gradient.data, p.gradient.size());
  return std::sqrt(sum);
}
/// The factor that clips the global norm of all gradients to `max_norm`: min(1, max_norm / gradient_norm()). 1 if a
/// gradient is NaN, so that it stays visible.
template <class T>
[[nodiscard]] double clip_scale(std::vector<parameter<T>> const& parameters, double max_norm) {
  return detail::clip_scale_of(gradient_norm(parameters), max_norm);
}

/// Sets all gradients to zero.
template <class T>
void zero_gradients(std::vector<parameter<T>> const& parameters) {
  for (auto const& p : parameters) std::fill_n(p.gradient.data, p.gradient.size(), T{0});
}

/// The backend of host memory, with work on the calling thread.
struct host {
  static constexpr bool host_memory = true;
  /// Calls f(i) for i < n. Compilers vectorise a square root only with -fno-math-errno (4 to 10 times faster), since
  /// std::sqrt sets errno otherwise.
  template <class F>
  void for_each(Index n, F const f) const {
    for (Index i = 0; i < n; ++i) f(i);
  }
};

/// Adam with decoupled weight decay. With the gradient g, at step t = 1, 2, ... with the rate \f$ \eta \f$:
/// \f[ m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \f]
/// \f[ \theta \leftarrow \theta - \eta \left( \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
///     + \lambda \theta \right). \f]
/// The paper's schedule multiplier times its \f$ \alpha \f$ is our \f$ \eta \f$, and multiplies the decay as well. The
/// parameters' memory must stay where it is while the optimiser lives. For bfloat16 parameters the moments are floats,
/// and narrow_parameters selects the treatment of small updates. Code that writes to such parameters otherwise, such as
/// load() without the optimiser's state, must call parameters_changed().
///
/// @tparam T scalar type of the parameters: float, double or bfloat16
/// @tparam Backend of the parameters' memory: see ForEach
template <class T, ForEach Backend = host>
requires(std::floating_point<T> || std::is_same_v<T, bfloat16>) class AdamW {
 public:
  /// The type of moments and master weights.
  using wide = accumulator_t<T>;

  /// Allocates the two moments; nothing allocates afterwards.
  explicit AdamW(std::vector<parameter<T>> parameters, AdamWOptions const& options = {}) requires(Backend::host_memory)
      : AdamW(std::move(parameters), options, Backend{}) {}
  /// An optimiser on the module's backend, whose work is ordered with the module's.
  AdamW(std::vector<parameter<T>> parameters, AdamWOptions const& options, Backend backend)
      : options_(checked_options(options)),
        moved_((detail::check_parameters("AdamW", parameters), std::move(parameters)), options.narrow, options.seed,
               std::move(backend)) {
    m_ = backend_memory<Backend>(checked_bytes(moved_.size(), sizeof(wide)));
    v_ = backend_memory<Backend>(checked_bytes(moved_.size(), sizeof(wide)));
    if constexpr (!Backend::host_memory) {
      checked rows = 0;
      for (auto const& p : moved_.all()) rows += checked(p.value.count) * p.value.rows;
      row_squares_ = backend_memory<Backend>(checked_bytes(rows, sizeof(wide)));
      squares_.resize(static_cast<std::size_t>(rows.value));
    }
  }

  /// Takes the current values of the parameters as the weights, after another writer changed them.
  void parameters_changed() { moved_.changed(); }

  /// gradient_norm() of this optimiser's parameters. Waits for their gradients.
  [[nodiscard]] double gradient_norm() {
    if constexpr (Backend::host_memory) {
      return headmix::gradient_norm(moved_.all());
    } else {
      using leaf = tree_leaf<T, false, false>;
      using tree = tree_node<wide, ops::multiply, leaf, leaf>;
      wide* next = row_squares_.template as<wide>();
      for (auto const& p : moved_.all()) {
        Index const rows = p.gradient.count * p.gradient.rows;
        leaf const g{view<T const>(p.gradient.data, rows, p.gradient.cols)};
        moved_.backend().row_sum(view<wide>(next, rows, 1), lazy<tree>{{g, g}, rows, p.gradient.cols}, false);
        next += rows;
      }
      download(moved_.backend(), squares_.data(), row_squares_.template as<wide>(), squares_.size());
      return std::sqrt(
          detail::ordered_sum(squares_.data(), static_cast<Index>(squares_.size()), [](double e) { return e; }));
    }
  }
  /// clip_scale() of the gradients of this optimiser's parameters. Waits for them.
  [[nodiscard]] double clip_scale(double max_norm) { return detail::clip_scale_of(gradient_norm(), max_norm); }

  /// One update with the rate `lr` >= 0; gradients are multiplied by `gradient_scale` (see clip_scale).
  void step(double lr, double gradient_scale = 1) {
    detail::check_rate("AdamW", "the rate", lr);
    detail::check_setting("AdamW", "gradient_scale", gradient_scale, std::isfinite(gradient_scale), "a finite number");
    steps_ = (checked(steps_) + 1).value;
    auto const t = static_cast<double>(steps_);
    auto const& o = options_;
    detail::adamw_step<wide> c{.scale = static_cast<wide>(gradient_scale),
                               .beta1 = static_cast<wide>(o.beta1),
                               .one_minus1 = static_cast<wide>(1 - o.beta1),
                               .beta2 = static_cast<wide>(o.beta2),
                               .one_minus2 = static_cast<wide>(1 - o.beta2),
                               .rate = static_cast<wide>(lr / (1 - std::pow(o.beta1, t))),
                               .root = static_cast<wide>(1 / std::sqrt(1 - std::pow(o.beta2, t))),
                               .eps = static_cast<wide>(o.eps),
                               .keep = wide{1}};
    moved_.each([&](parameter<T> const& p, Index first) {
      c.keep = decays(p) ? static_cast<wide>(1 - lr * o.weight_decay) : wide{1};
      wide *const m = m_.template as<wide>() + first, *const v = v_.template as<wide>() + first;
      moved_.move(p, first, steps_, detail::adamw_update<T>{p.gradient.data, m, v, c});
    });
  }

  /// The number of steps taken.
  [[nodiscard]] Index steps() const { return steps_; }
  /// Sets the number of steps taken; the next step is number `steps` + 1.
  void set_steps(Index steps) {
    detail::check_steps("AdamW", steps);
    steps_ = steps;
  }
  /// The moments of every parameter and its master weights, if any, to be saved or replaced: see StatefulOptimiser.
  /// Their names are the parameter's, prefixed by "m.", "v." and "weight.".
  [[nodiscard]] std::vector<state_tensor<wide>> state() const {
    std::vector<state_tensor<wide>> all;
    moved_.each([&](parameter<T> const& p, Index first) {
      auto const add = [&](char const* kind, auto const& memory) {
        wide* const data = memory.template as<wide>() + first;
        all.push_back({kind + std::string(p.name), {data, p.value.count, p.value.rows, p.value.cols}, p.part});
      };
      add("m.", m_);
      add("v.", v_);
      moved_.add_state(all, p, first);
    });
    return all;
  }
  /// The backend that owns the moments.
  [[nodiscard]] Backend const& backend() const { return moved_.backend(); }
  /// The parameters of this optimiser.
  [[nodiscard]] std::vector<parameter<T>> const& parameters() const { return moved_.all(); }
  /// The options of the constructor.
  [[nodiscard]] AdamWOptions const& options() const { return options_; }

 private:
  static AdamWOptions const& checked_options(AdamWOptions const& o) {
    constexpr char const* decay = "at least 0 and less than 1";
    detail::check_setting("AdamW", "beta1", o.beta1, o.beta1 >= 0 && o.beta1 < 1, decay);
    detail::check_setting("AdamW", "beta2", o.beta2, o.beta2 >= 0 && o.beta2 < 1, decay);
    detail::check_rate("AdamW", "eps", o.eps);
    detail::check_rate("AdamW", "weight_decay", o.weight_decay);
    return o;
  }

  AdamWOptions options_;
  detail::moved_parameters<T, Backend> moved_;
  backend_memory<Backend> m_, v_;  // the moments of all parameters, concatenated
  // If the host cannot read gradients: the sum of squares of every row of them.
  backend_memory<Backend> row_squares_;
  std::vector<wide> squares_;
  Index steps_ = 0;
};

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// AdamW (Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", Algorithm 2), and what a training loop does
// to gradients between two steps: clip them by their common norm, set them to zero. The optimiser reads gradients and
// writes values; it never zeroes gradients. Results depend on the order of the parameters, never on anything else.

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "headmix/contract/lowered_tree.hpp"
#include "headmix/contract/memory.hpp"
#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"
#include "headmix/expr/pointwise.hpp"
#include "headmix/program/parameter.hpp"

namespace headmix {

/// Settings of AdamW.
struct AdamWOptions {
  double beta1 = 0.9;         ///< decay of the mean of gradients
  double beta2 = 0.99;        ///< decay of the mean of squared gradients
  double eps = 1e-8;          ///< added to the root, which is corrected for bias first
  double weight_decay = 0.1;  ///< for matrices only, see decays()
};

namespace detail {

/// The numbers of one step that are the same for all elements.
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
  T* __restrict value;
  T const* __restrict gradient;
  T* __restrict m, * __restrict v;
  adamw_step<T> c;

  HEADMIX_HD void operator()(Index i) const {
    using std::sqrt;
    T const g = c.scale * gradient[i];
    m[i] = c.beta1 * m[i] + c.one_minus1 * g;
    v[i] = c.beta2 * v[i] + c.one_minus2 * (g * g);
    value[i] = c.keep * value[i] - c.rate * m[i] / (sqrt(v[i]) * c.root + c.eps);
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
[[nodiscard]] inline double clip_scale_of(double squares, double max_norm) {
  double const norm = std::sqrt(squares);
  return norm > max_norm ? max_norm / norm : 1.0;
}

template <class T>
[[nodiscard]] std::string extents(view<T> const& v) {
  std::string s = "[";
  s += std::to_string(v.count) + ", " + std::to_string(v.rows) + ", " + std::to_string(v.cols) + "]";
  return s;
}

}  // namespace detail

/// Weight decay is for matrices and stacks of them; biases, gains and other single rows or columns are left alone.
template <class T>
[[nodiscard]] bool decays(parameter<T> const& p) {
  return p.value.rows > 1 && p.value.cols > 1;
}

/// The factor that brings the norm of all gradients together down to `max_norm`:
/// \f$ \min(1, c / \lVert (g_1, g_2, \ldots) \rVert_2) \f$, summed in double. 1 if a gradient is NaN, so that it stays
/// visible.
template <class T>
[[nodiscard]] double clip_scale(std::vector<parameter<T>> const& parameters, double max_norm) {
  double sum = 0;
  for (auto const& p : parameters) sum += detail::sum_of_squares(p.gradient.data, p.gradient.size());
  return detail::clip_scale_of(sum, max_norm);
}

/// Sets all gradients to zero.
template <class T>
void zero_gradients(std::vector<parameter<T>> const& parameters) {
  for (auto const& p : parameters) std::fill_n(p.gradient.data, p.gradient.size(), T{0});
}

/// The backend of what lies in the host's memory and is worked on by the calling thread.
struct host {
  static constexpr bool host_memory = true;
  /// f(i) for i < n. Compilers use vector instructions for a root only with -fno-math-errno (then 4 to 10 times
  /// faster), since std::sqrt has to set errno otherwise.
  template <class F>
  void for_each(Index n, F const f) const {
    for (Index i = 0; i < n; ++i) f(i);
  }
};

/// Adam with decoupled weight decay. With the gradient g, at step t = 1, 2, ... with the rate \f$ \eta \f$:
/// \f[ m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \f]
/// \f[ \theta \leftarrow \theta - \eta \left( \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
///     + \lambda \theta \right). \f]
/// The paper's schedule multiplier times its \f$ \alpha \f$ is our \f$ \eta \f$, and multiplies the decay as well.
/// The parameters' memory must stay where it is while the optimiser lives.
///
/// @tparam Backend whose memory the parameters lie in: see ForEach
template <std::floating_point T, ForEach Backend = host>
class AdamW {
 public:
  /// Allocates the two moments; nothing allocates afterwards.
  explicit AdamW(std::vector<parameter<T>> parameters, AdamWOptions const& options = {}) requires(Backend::host_memory)
      : AdamW(std::move(parameters), options, Backend{}) {}
  /// The backend is that of the module: its work is ordered.
  AdamW(std::vector<parameter<T>> parameters, AdamWOptions const& options, Backend backend)
      : backend_(std::move(backend)), parameters_(std::move(parameters)), options_(options) {
    std::size_t n = 0, rows = 0;
    for (auto const& p : parameters_) {
      check(p);
      n += static_cast<std::size_t>(p.value.size());
      rows += static_cast<std::size_t>(p.value.count * p.value.rows);
    }
    m_ = backend_memory<Backend>(n * sizeof(T));
    v_ = backend_memory<Backend>(n * sizeof(T));
    if constexpr (!Backend::host_memory) {
      row_squares_ = backend_memory<Backend>(rows * sizeof(T));
      squares_.resize(rows);
    }
  }

  /// clip_scale() of its parameters' gradients. Waits for them.
  [[nodiscard]] double clip_scale(double max_norm) {
    if constexpr (Backend::host_memory) {
      return headmix::clip_scale(parameters_, max_norm);
    } else {
      using leaf = tree_leaf<T, false, false>;
      using tree = tree_node<T, ops::multiply, leaf, leaf>;
      T* next = row_squares_.template as<T>();
      for (auto const& p : parameters_) {
        Index const rows = p.gradient.count * p.gradient.rows;
        leaf const g{view<T const>(p.gradient.data, rows, p.gradient.cols)};
        backend_.row_sum(view<T>(next, rows, 1), lazy<tree>{{g, g}, rows, p.gradient.cols}, false);
        next += rows;
      }
      download(backend_, squares_.data(), row_squares_.template as<T>(), squares_.size());
      return detail::clip_scale_of(
          detail::ordered_sum(squares_.data(), static_cast<Index>(squares_.size()), [](double e) { return e; }),
          max_norm);
    }
  }

  /// One update with the rate `lr`; gradients count `gradient_scale` times (see clip_scale).
  void step(double lr, double gradient_scale = 1) {
    ++steps_;
    auto const t = static_cast<double>(steps_);
    auto const& o = options_;
    detail::adamw_step<T> c{.scale = static_cast<T>(gradient_scale),
                            .beta1 = static_cast<T>(o.beta1),
                            .one_minus1 = static_cast<T>(1 - o.beta1),
                            .beta2 = static_cast<T>(o.beta2),
                            .one_minus2 = static_cast<T>(1 - o.beta2),
                            .rate = static_cast<T>(lr / (1 - std::pow(o.beta1, t))),
                            .root = static_cast<T>(1 / std::sqrt(1 - std::pow(o.beta2, t))),
                            .eps = static_cast<T>(o.eps),
                            .keep = T{1}};
    Index begin = 0;
    for (auto const& p : parameters_) {
      c.keep = decays(p) ? static_cast<T>(1 - lr * o.weight_decay) : T{1};
      T *const m = m_.template as<T>() + begin, *const v = v_.template as<T>() + begin;
      backend_.for_each(p.value.size(), detail::adamw_update<T>{p.value.data, p.gradient.data, m, v, c});
      begin += p.value.size();
    }
  }

  /// The number of steps taken.
  [[nodiscard]] Index steps() const { return steps_; }
  /// The next step is number `steps` + 1.
  void set_steps(Index steps) { steps_ = steps; }
  /// The moments of every parameter, `m.` and `v.` before its name, to be saved or replaced: see StatefulOptimiser.
  [[nodiscard]] std::vector<state_tensor<T>> state() const {
    std::vector<state_tensor<T>> all;
    Index begin = 0;
    for (auto const& p : parameters_) {
      auto const moment = [&](char const* kind, auto const& memory) {
        T* const first = memory.template as<T>() + begin;
        all.push_back({kind + std::string(p.name), {first, p.value.count, p.value.rows, p.value.cols}});
      };
      moment("m.", m_);
      moment("v.", v_);
      begin += p.value.size();
    }
    return all;
  }
  /// In whose memory the moments lie.
  [[nodiscard]] Backend const& backend() const { return backend_; }
  /// What it moves.
  [[nodiscard]] std::vector<parameter<T>> const& parameters() const { return parameters_; }
  /// What it was made with.
  [[nodiscard]] AdamWOptions const& options() const { return options_; }

 private:
  static void check(parameter<T> const& p) {
    view<T> const &a = p.value, &b = p.gradient;
    std::string const name(p.name);
    if (a.count != b.count || a.rows != b.rows || a.cols != b.cols)
      fail("AdamW: the gradient of " + name + ": expected the extents of its value, " + detail::extents(a) +
           ", found " + detail::extents(b));
    if (!a.contiguous() || !b.contiguous())
      fail("AdamW: " + name + ": expected a contiguous value and gradient, found gaps or a transpose");
    if (a.size() != 0 && (a.data == nullptr || b.data == nullptr))
      fail("AdamW: " + name + ": expected memory for value and gradient, found a null pointer");
  }

  [[no_unique_address]] Backend backend_;
  std::vector<parameter<T>> parameters_;
  AdamWOptions options_;
  backend_memory<Backend> m_, v_;  // the moments of all parameters, one after another
  // Where the host cannot read gradients: the sum of squares of every row of them.
  backend_memory<Backend> row_squares_;
  std::vector<T> squares_;
  Index steps_ = 0;
};

}  // namespace headmix

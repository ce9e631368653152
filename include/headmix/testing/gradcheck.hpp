#pragma once
// SPDX-License-Identifier: MIT
// gradcheck compares the derived gradients of an expression with central differences, for the library's tests and for
// authors of routers, experts and scalar functions.
//
//   auto r = gradcheck(softmax(x{} % W{}), at<tokens>(7));
//   if (!r.ok()) std::puts(r.text.c_str());
//
// A detached value fails a check that does not name it: gradcheck(y, {.detached = {"detach(b_k)"}}, at<tokens>(7)).

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/program/module.hpp"

namespace headmix {

/// Inputs of a check.
struct gradcheck_options {
  double low = -1, high = 1;  ///< inputs are uniform in [low, high): keep them away from kinks and ties
  double step = 1e-6;         ///< of the differences
  /// Seed of the inputs.
  std::uint64_t seed = 1;
  segments token_sequences = {};  ///< the sequences of tokens; one sequence by default
  /// The sequences of a context.
  segments context_sequences = {};
  /// The values that are detached on purpose, as gradcheck_result::detached names them; any other one fails the check.
  std::vector<std::string> detached = {};
};

/// The result of a check.
struct gradcheck_result {
  double error = 0;          ///< largest |difference quotient - gradient| / max(1, |gradient|) over all elements
  double repeated = 0;       ///< largest deviation of a second backward pass from doubling the gradients, relative
  bool reproducible = true;  ///< a repeated forward and backward pass, from zeroed gradients, gave the same bits
  std::string text;          ///< the worst element, in words, and the detached values
  /// The values that pass no gradient, or another one than the derivative: detach() and the like. Finite differences
  /// include their dependence, so gradients through them may differ.
  std::vector<std::string> detached = {};
  /// Those of them that gradcheck_options::detached does not name.
  std::vector<std::string> not_named = {};

  /// True if the error is within the tolerance and every detached value was named.
  [[nodiscard]] bool ok(double tolerance = 1e-6) const {
    return error <= tolerance && repeated <= 1e-14 && reproducible && not_named.empty();
  }
};

namespace detail {

template <class E>
inline constexpr bool is_detached = false;
template <class Op, class... A>
inline constexpr bool is_detached<node<Op, A...>> = node<Op, A...>::kind_of != kind::integer &&
                                                    (!Op::differentiable || Op::estimates_gradient) && (A::grad || ...);
struct detached_nodes {
  template <class E>
  static constexpr bool value = is_detached<E>;
};
template <class... E>
std::vector<std::string> described(type_list<E...>) {
  return {describe(description_of<E>, [](char const* source) { return unqualified(source); })...};
}

/// The memory of all leaves of a program over T: random numbers, and zero gradients.
template <class T>
class LeafMemory {
 public:
  struct leaf {
    std::vector<T> value, gradient;
    std::vector<Int> chosen;  // of a selection; or the words of a random key
  };

  /// The dynamic sizes of leaves are set.
  LeafMemory(Binding& program, gradcheck_options const& options) : leaves_(program.leaf_count()) {
    for (std::size_t l = 0; l < leaves_.size(); ++l) {
      if (auto const size = program.unknown_size_of(l); !size.empty()) {
        fail("gradcheck: an extent of ", program.leaf_text(l), " is dynamic; give its value: at<", size, ">(n)");
      }
      fill(program, l, Random(options.seed, l), options);
    }
  }
  leaf& operator[](std::size_t l) { return leaves_[l]; }
  leaf const& operator[](std::size_t l) const { return leaves_[l]; }
  [[nodiscard]] std::size_t size() const { return leaves_.size(); }

 private:
  void fill(Binding& program, std::size_t l, Random const& random, gradcheck_options const& options) {
    leaf& m = leaves_[l];
    untyped_view const shape = program.leaf_shape(l);
    auto const n = static_cast<std::size_t>(shape.size());
    if (program.element_kind(l) == kind::integer) {
      m.chosen.resize(n);
      auto const domain = static_cast<std::uint64_t>(program.leaf_domain(l));
      for (std::size_t i = 0; i < n; ++i) {
        m.chosen[i] = domain == 0 ? randomness(options.seed).word[i] : static_cast<Int>(random.below(i, domain));
      }
      program.bind_leaf(l, untyped(view<Int>(m.chosen.data(), shape.count, shape.rows, shape.cols)), {});
      return;
    }
    m.value.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      m.value[i] = static_cast<T>(options.low + (options.high - options.low) * random.uniform(i));
    }
    if (program.leaf_is_positive(l)) {
      for (T& v : m.value) v = std::abs(v) + T{1} / 2;
    }
    if (program.leaf_has_gradient(l)) m.gradient.resize(n);
    auto const matrix = [&](std::vector<T>& v) {
      return untyped(view<T>(v.data(), shape.count, shape.rows, shape.cols));
    };
    program.bind_leaf(l, matrix(m.value), program.leaf_has_gradient(l) ? matrix(m.gradient) : untyped_view{});
  }

  std::vector<leaf> leaves_;
};

/// The check, independent of the program type: a program is its bindings and two functions.
class GradientCheck {
 public:
  using forward_pass = view<double const> (*)(void* program);
  using backward_pass = void (*)(void* program, view<double const> dy);

  GradientCheck(void* program, forward_pass f, backward_pass b) : program_(program), forward_(f), backward_(b) {}

  /// @param detached  the program's detached values
  gradcheck_result run(Binding& program, LeafMemory<double>& memory, gradcheck_options const& options,
                       std::vector<std::string> detached) {
    auto const first = forward_(program_);
    Random const random(options.seed, memory.size());
    weights_.resize(static_cast<std::size_t>(first.size()));
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] = 2 * random.uniform(i) - 1;
    view<double const> const dy{weights_.data(), first.count, first.rows, first.cols};

    gradcheck_result result;
    backward_(program_, dy);
    LeafMemory<double> const once = memory;
    backward_(program_, dy);
    for (std::size_t l = 0; l < memory.size(); ++l) {
      for (std::size_t i = 0; i < memory[l].gradient.size(); ++i) {
        double const gradient = once[l].gradient[i];
        double const deviation = std::abs(memory[l].gradient[i] - 2 * gradient);
        result.repeated = (std::max)(result.repeated, deviation / (std::max)(1.0, std::abs(gradient)));
        memory[l].gradient[i] = 0;
      }
    }
    forward_(program_);
    backward_(program_, dy);
    for (std::size_t l = 0; l < memory.size(); ++l) {
      result.reproducible = result.reproducible && memory[l].gradient == once[l].gradient;
    }
    for (std::size_t l = 0; l < memory.size(); ++l) {
      for (std::size_t i = 0; i < memory[l].gradient.size(); ++i) {
        double const gradient = once[l].gradient[i], quotient = difference(memory[l].value[i], options.step);
        double const error = std::abs(quotient - gradient) / (std::max)(1.0, std::abs(gradient));
        if (!(error <= result.error)) {  // also for NaN
          result.error = error;
          result.text = message("element ", i, " of ", program.leaf_text(l), ": gradient ", gradient,
                                ", difference quotient ", quotient);
        }
      }
    }
    char const* before = "; detached: ";
    for (std::string const& value : detached) {
      bool const is_named =
          std::find(options.detached.begin(), options.detached.end(), value) != options.detached.end();
      if (!is_named) result.not_named.push_back(value);
      result.text += message(before, value, is_named ? "" : " (not in gradcheck_options::detached)");
      before = ", ";
    }
    result.detached = std::move(detached);
    return result;
  }

 private:
  double objective() {
    auto const y = forward_(program_);
    double sum = 0;
    std::size_t next = 0;
    for (Index i = 0; i < y.count * y.rows; ++i) {
      for (Index j = 0; j < y.cols; ++j) sum += y.row(i)[j * y.col_stride] * weights_[next++];
    }
    return sum;
  }
  double difference(double& value, double step) {
    double const kept = value;
    value = kept + step;
    double const above = objective();
    value = kept - step;
    double const below = objective();
    value = kept;
    return (above - below) / (2 * step);
  }

  void* program_;
  forward_pass forward_;
  backward_pass backward_;
  std::vector<double> weights_;
};

}  // namespace detail

/// The values of a layer's result and losses, or of `roots<...>`, that pass no gradient, or another one than the
/// derivative, each once: detach(), straight_through(), roundings. Choices and other integers pass none either and are
/// not listed.
template <class Of>
std::vector<std::string> detached_values() {
  if constexpr (requires { Of::y; }) {
    return []<class... Loss>(type_list<Loss...>) {
      return detached_values<roots<std::remove_cv_t<decltype(Of::y)>, Loss...>>();
    }(typename Of::losses{});
  } else {
    auto values = detail::described(detail::filter<detail::nodes_of<Of>, detail::detached_nodes>{});
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }
}

/// Checks the gradients of <dy, y>, with random dy, by every parameter and input of y, as computed by the backend (over
/// double). Dynamic sizes are given by `at<X>(n)`.
template <class Backend, Expr Y, Extent... X>
gradcheck_result gradcheck_on(Backend backend, Y, gradcheck_options const& options, size_value<X>... sizes) {
  using program_type = Program<roots<Y>, Backend>;
  program_type program(backend);
  (program.set(X{}, sizes.n), ...);
  if (options.token_sequences.rows > 0) program.bind_tokens(options.token_sequences);
  if (options.context_sequences.rows > 0) program.bind_context(options.context_sequences);
  detail::LeafMemory<double> memory(detail::binding_of(program), options);
  AlignedBuffer workspace(program.workspace_bytes());
  program.bind_workspace(workspace.bytes());
  return detail::GradientCheck(
             &program, [](void* t) { return static_cast<program_type*>(t)->forward(); },
             [](void* t, view<double const> dy) { static_cast<program_type*>(t)->backward(dy); })
      .run(detail::binding_of(program), memory, options, detached_values<roots<Y>>());
}

/// Checks the gradients of <dy, y> as computed by the reference backend.
template <Expr Y, Extent... X>
gradcheck_result gradcheck(Y y, gradcheck_options const& options, size_value<X>... sizes) {
  return gradcheck_on(Reference<double>{}, y, options, sizes...);
}
/// Compares the derived gradients of y by all leaves with central differences, in double.
template <Expr Y, Extent... X>
gradcheck_result gradcheck(Y y, size_value<X>... sizes) {
  return gradcheck_on(Reference<double>{}, y, gradcheck_options{}, sizes...);
}

}  // namespace headmix

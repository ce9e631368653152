#pragma once
// SPDX-License-Identifier: MIT
// A program with memory for a test: every leaf has random numbers, every gradient starts at zero.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "headmix/testing/gradcheck.hpp"

namespace headmix::test {

/// The type of an expression, given as a constant.
template <class E>
using type_of = std::remove_cv_t<E>;

inline bool close(double a, double b, double tolerance = 1e-12) {
  return std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

template <class Roots, class Mode = training, class Scalar = double, class Backend = Reference<Scalar>>
class TestProgram {
 public:
  using program_type = Program<Roots, Backend, Mode>;

  template <Extent... X>
  explicit TestProgram(gradcheck_options const& options, size_value<X>... sizes) {
    (program.set(X{}, sizes.n), ...);
    if (options.token_sequences.rows > 0) {
      program.bind_tokens(options.token_sequences);
      program.set(tokens{}, options.token_sequences.rows);
    }
    if (options.context_sequences.rows > 0) {
      program.bind_context(options.context_sequences);
      program.set(context_tokens{}, options.context_sequences.rows);
    }
    memory_.emplace(headmix::detail::binding_of(program), options);
    for_each(typename program_type::leaves{}, [&]<class L>() { fill_known(L{}); });
  }
  template <Extent... X>
  explicit TestProgram(size_value<X>... sizes) : TestProgram(gradcheck_options{}, sizes...) {}

  /// The memory of a leaf; another program's leaf of equal elements is filled by `p.values(a{}) = q.values(b{})`.
  template <Leaf L>
  auto& values(L) {
    if constexpr (L::kind_of == kind::integer) {
      return memory<L>().chosen;
    } else {
      return memory<L>().value;
    }
  }
  template <Leaf L>
  auto& gradients(L) {
    return memory<L>().gradient;
  }
  template <Leaf L>
  auto in(L) {
    return shaped<L>(values(L{}));
  }
  template <Leaf L>
  auto gradient(L) {
    return shaped<L>(memory<L>().gradient);
  }

  auto forward() {
    std::size_t const bytes = program.workspace_bytes();
    if (bytes > workspace.bytes().size()) workspace = AlignedBuffer(bytes);
    program.bind_workspace(workspace.bytes());
    auto const y = program.forward();
    if (dy_values.size() != static_cast<std::size_t>(y.size())) {
      dy_values.resize(static_cast<std::size_t>(y.size()));
      for (std::size_t i = 0; i < dy_values.size(); ++i)
        dy_values[i] = static_cast<Scalar>(2 * Random(99).uniform(i) - 1);
    }
    dy = {dy_values.data(), y.rows, y.cols};
    return y;
  }
  void backward(std::initializer_list<double> weights = {}) { program.backward(dy, weights); }
  void zero_gradients() {
    for (std::size_t l = 0; l < memory_->size(); ++l) {
      std::fill((*memory_)[l].gradient.begin(), (*memory_)[l].gradient.end(), Scalar(0));
    }
  }

  /// gradcheck of y with the current values of the leaves.
  gradcheck_result check_gradients(gradcheck_options const& options = {}) {
    forward();
    zero_gradients();
    return headmix::detail::GradientCheck(
               &program, [](void* t) { return static_cast<program_type*>(t)->forward(); },
               [](void* t, view<double const> by_y) { static_cast<program_type*>(t)->backward(by_y); })
        .run(headmix::detail::binding_of(program), *memory_, options, detached_values<Roots>());
  }

  Backend backend;
  program_type program{backend};
  AlignedBuffer workspace;
  std::vector<Scalar> dy_values;
  view<Scalar const> dy;

 private:
  /// Fills constants like a Module.
  template <Leaf L>
  void fill_known(L) {
    if constexpr (requires { L::element(Index{}, Index{}); }) {
      auto const v = in(L{});
      for (Index i = 0; i < v.size(); ++i)
        v.data[i] = static_cast<std::remove_reference_t<decltype(v.data[i])>>(L::element(i / v.cols, i % v.cols));
    }
  }
  template <class L>
  auto& memory() {
    return (*memory_)[static_cast<std::size_t>(detail::position_in<typename program_type::leaves, L>::value)];
  }
  template <class L, class T>
  view<T> shaped(std::vector<T>& v) {
    return {v.data(), program.template extent<count<L>>(), program.template extent<rows<L>>(),
            program.template extent<cols<L>>()};
  }
  std::optional<detail::LeafMemory<Scalar>> memory_;
};

/// Checks the gradients of y with 0, 1 and 7 tokens.
template <Expr Y, Extent... X>
void check_gradient(Y y, gradcheck_options const& options = {}, size_value<X>... sizes) {
  for (Index const rows : {0, 1, 7}) {
    auto const r = gradcheck(y, options, at<tokens>(rows), sizes...);
    CAPTURE(rows);
    CAPTURE(r.text);
    CAPTURE(r.repeated);
    CHECK(r.ok());
  }
}

/// Checks y and its gradients with 0, 1 and 7 tokens; `formula(program, i, j)` is element (i, j) of y.
template <Expr Y, class F, Extent... X>
void check(Y y, F formula, gradcheck_options const& options = {}, size_value<X>... sizes) {
  for (Index const rows : {0, 1, 7}) {
    TestProgram<roots<Y>> p(options, at<tokens>(rows), sizes...);
    auto const found = p.forward();
    for (Index i = 0; i < found.rows; ++i) {
      for (Index j = 0; j < found.cols; ++j) {
        CAPTURE(rows);
        CAPTURE(i);
        CAPTURE(j);
        double const expected = formula(p, i, j);
        CAPTURE(found(i, j));
        CAPTURE(expected);
        CHECK(close(found(i, j), expected));
      }
    }
  }
  check_gradient(y, options, sizes...);
}

}  // namespace headmix::test

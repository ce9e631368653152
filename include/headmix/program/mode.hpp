#pragma once
// SPDX-License-Identifier: MIT
// Which gradients a program computes: a policy of the program.

#include "headmix/program/steps.hpp"

namespace headmix {

/// Gradients of all parameters and inputs.
struct training {};
/// Forward only; nothing is kept for a backward pass.
struct inference {};
/// Gradients of these leaves and of nothing else: what only other gradients need is not computed.
template <Leaf... L>
struct gradients_by {};

namespace detail {

struct has_gradient {
  template <class E>
  static constexpr bool value = E::grad;
};
template <class Mode, class Leaves>
struct wanted_leaves;
template <class Leaves>
struct wanted_leaves<training, Leaves> {
  using type = filter<Leaves, has_gradient>;
};
template <class Leaves>
struct wanted_leaves<inference, Leaves> {
  using type = type_list<>;
};
template <class... L, class Leaves>
struct wanted_leaves<gradients_by<L...>, Leaves> {
  static_assert((contains<Leaves, L> && ...), "headmix: a gradient is wanted by a leaf that is not in the program");
  using type = type_list<L...>;
};

}  // namespace detail

}  // namespace headmix

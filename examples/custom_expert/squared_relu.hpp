#pragma once
// SPDX-License-Identifier: MIT
// An custom expert: its parameters and one equation. The library derives the gradient.

#include <headmix/headmix.hpp>

namespace custom {

/// max(x W_1 + b, 0)^2 W_2
template <headmix::Index Hidden>
struct SquaredRelu {
  template <headmix::Extent E, headmix::Extent D, class Tag = void>
  struct experts {
    struct F : headmix::size<Hidden> {};
    struct W_1 : headmix::param<E, D, F> {};
    struct b : headmix::bias_param<E, F> {};
    struct W_2 : headmix::param<E, F, D> {};

    template <headmix::Expr X, headmix::Expr G, headmix::Selection Chosen>
    static constexpr auto mixture(X x, G gate, Chosen index) {
      auto const h = square(relu(expert_linear(x, W_1{}, index) + expert_bias(b{}, index)));
      return combine(gate, expert_linear(h, W_2{}, index));
    }
  };
};
static_assert(headmix::ExpertPolicy<SquaredRelu<8>>);

}  // namespace custom

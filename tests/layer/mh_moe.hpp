#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the tests of MH-MoE.

#include "../test_program.hpp"
#include "headmix/layer/smoe.hpp"

namespace headmix::test {

/// The roots of a mixture: its result, its losses, its choices.
template <class L>
using mh_moe_roots =
    typename headmix::detail::module_roots<type_of<decltype(L::y)>, typename L::losses, typename L::observed>::type;

/// The router of the published code.
template <Index Experts, Index TopK>
using raw_router = SoftmaxTopK<Experts, TopK, gating::raw, loss::first_choice_balance>;

/// Copies the parameters of q to those of p with the same names.
template <class P, class Q>
void copy_weights(P& p, Q& q) {
  using To = typename P::program_type::leaves;
  using From = typename Q::program_type::leaves;
  for_each(To{}, [&]<class A>() {
    for_each(From{}, [&]<class B>() {
      if constexpr (Parameter<A> && Parameter<B>) {
        if (type_name<A>() == type_name<B>()) p.values(A{}) = q.values(B{});
      }
    });
  });
}

}  // namespace headmix::test

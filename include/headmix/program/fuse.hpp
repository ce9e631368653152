#pragma once
// SPDX-License-Identifier: MIT
// Replaces steps by kernels that do several of them (expr/fusion.hpp): these write the values of the steps they
// replace.

#include "headmix/expr/fusions.hpp"
#include "headmix/program/call.hpp"

namespace headmix {
namespace detail {

template <class Op, class... Node, class... F, class... A, class Scalar>
struct calls_of<fused<Op, type_list<Node...>, type_list<F...>, type_list<A...>>, Scalar> {
  using buffers = type_list<Node..., F...>;
  using type = type_list<
      call<kernel<Op, type_list<view<storage_t<Node::kind_of, Scalar>>..., view<storage_t<F::kind_of, Scalar>>...>,
                  type_list<typename operand<false, A, Scalar>::type...>>,
           buffers, concat<typename operand<false, A, Scalar>::values...>, false, false>>;
};

template <class Backend, class Done, class Further, class Steps>
struct fused_steps;
template <class Backend, class Done, class Further>
struct fused_steps<Backend, Done, Further, type_list<>> {
  using type = Done;
  using further = Further;
};
template <class Backend, class... D, class Further, class H, class... T>
struct fused_steps<Backend, type_list<D...>, Further, type_list<H, T...>>
    : fused_steps<Backend, type_list<D..., typename fusion<Backend, type_list<H, T...>>::type>,
                  concat<Further, typename fusion<Backend, type_list<H, T...>>::further>,
                  typename fusion<Backend, type_list<H, T...>>::rest> {};

/// `type`: the steps with those that Backend does in one kernel replaced; `further`: what these write only if it is
/// read.
template <class Backend, class Steps, bool Fuses = fuses_steps<Backend>>
struct fused_for {
  using type = Steps;  // lists of steps are long: nothing is made of them for a backend that fuses nothing
  using further = type_list<>;
};
template <class Backend, class Steps>
struct fused_for<Backend, Steps, true> : fused_steps<Backend, type_list<>, type_list<>, Steps> {};

}  // namespace detail

/// Steps with those that Backend does in one kernel replaced.
template <class Backend, class Steps>
using fuse = typename detail::fused_for<Backend, Steps>::type;

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// Replaces several steps by one fused kernel (expr/fusion.hpp), which writes the values of all of them.

#include "headmix/expr/fusions.hpp"
#include "headmix/program/lower/call.hpp"

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

/// Fused steps, the values Further that a fused kernel writes only if they are read, and the rest of the steps. Without
/// a definition.
template <class Done, class Further, class Rest>
struct fused_program;

template <class Backend, int Most>
struct fuse_steps;
template <class Backend, int Most, class Done, class Further, class Rest>
using steps_fused =
    typename fuse_steps<Backend, (count_of_types<Rest>::value > 0 ? Most : 0)>::template type<Done, Further, Rest>;
/// Done followed by the fused rest of the steps, of which `Most` are fused.
template <class Backend, int Most, class Done, class Further, class H, class... T>
auto fuse_head(std::nullptr_t, type_list<H, T...>*)
    -> steps_fused<Backend, Most, list_of<decltype(detail::append<H>(detail::pack<Done>()))>, Further,
                   type_list<T...>>*;
template <class Backend, int Most, class Done, class Further, class Step, class More, class Rest, class Steps>
auto fuse_head(fused_head<Step, More, Rest> const*, Steps*)
    -> steps_fused<Backend, Most, list_of<decltype(detail::append<Step>(detail::pack<Done>()))>, concat<Further, More>,
                   Rest>*;
template <class Backend, int Most>
struct fuse_steps {
  template <class Done, class Further, class Steps>
  using type = list_of<decltype(detail::fuse_head<Backend, Most - 1, Done, Further>(fusion<Backend, Steps>,
                                                                                    static_cast<Steps*>(nullptr)))>;
};
template <class Backend>
struct fuse_steps<Backend, 0> {
  template <class Done, class Further, class Rest>
  using type = fused_program<Done, Further, Rest>;
};

/// The program with its rest fused, 64 steps at a time: longer recursions exceed the depth of templates of compilers.
template <class Backend, class Program>
struct fuse_rest {
  using type = Program;
};
template <class Backend, class Done, class Further, class H, class... T>
struct fuse_rest<Backend, fused_program<Done, Further, type_list<H, T...>>>
    : fuse_rest<Backend, steps_fused<Backend, 64, Done, Further, type_list<H, T...>>> {};

template <bool Fuses>
struct fuse_for {
  template <class, class Steps>
  using type = fused_program<Steps, type_list<>, type_list<>>;
};
template <>
struct fuse_for<true> {
  template <class Backend, class Steps>
  using type = typename fuse_rest<Backend, fused_program<type_list<>, type_list<>, Steps>>::type;
};
template <class Backend, class Steps>
using fused_for = typename fuse_for<fuses_steps<Backend>>::template type<Backend, Steps>;
template <class Steps, class Further>
Steps steps_of(fused_program<Steps, Further, type_list<>>*);
template <class Steps, class Further>
Further further_of(fused_program<Steps, Further, type_list<>>*);

/// Steps, fused as far as Backend has the kernels.
template <class Backend, class Steps>
using fuse = decltype(detail::steps_of(detail::pack<detail::fused_for<Backend, Steps>>()));
}  // namespace detail
/// The values that fused kernels write only if they are read.
template <class Backend, class Steps>
using written_if_read = decltype(detail::further_of(detail::pack<detail::fused_for<Backend, Steps>>()));

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// Steps that a backend does in one kernel. A fused kernel never defines a meaning: it writes the values of the steps it
// replaces, and a backend without it runs those. A new pattern is one more specialization of `fusion`.

#include "headmix/expr/linear.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/expr/softmax.hpp"
#include "headmix/tape/call.hpp"

namespace headmix {

namespace ops {
/// z = x w, p = softmax(z), index = the best columns of p.
struct route : operation {
  static void eval(auto const& run, auto z, auto p, auto index, auto x, auto w) {
    run.backend.route(z, p, index, x, w);
  }
};
}  // namespace ops

/// Step: Op writes the values of all Nodes; what it reads are the Operands.
template <class Op, class Nodes, class Operands>
struct fused {};

namespace detail {

template <class Op, class... Node, class... A, class Scalar>
struct calls_of<fused<Op, type_list<Node...>, type_list<A...>>, Scalar> {
  using buffers = type_list<Node...>;
  using type = type_list<call<kernel<Op, type_list<view<storage_t<Node::kind_of, Scalar>>...>,
                                     type_list<view<storage_t<A::kind_of, Scalar> const>...>>,
                              buffers, type_list<memory_of<A>...>, false, false>>;
};

template <class Backend, class S = typename Backend::scalar>
inline constexpr bool routes = requires(Backend& b, view<wide_t<S>> y, view<Int> index, view<S const> a) {
  b.route(y, y, index, a, a);
};

/// How the first steps of a list are done together: `type` is the step, `rest` what is left.
template <class Backend, class Steps>
struct fusion;
template <class Backend, class H, class... T>
struct fusion<Backend, type_list<H, T...>> {
  using type = H;
  using rest = type_list<T...>;
};
template <class X, class W>
using logits_of = node<ops::matmul<kind::wide>, X, W>;
template <class X, class W>
using probabilities_of = node<ops::softmax, logits_of<X, W>>;
template <class Backend, class X, class W, class K, class... T>
requires(routes<Backend>&& X::kind_of == kind::real && W::kind_of == kind::real)  //
    struct fusion<Backend, type_list<compute<logits_of<X, W>>, compute<probabilities_of<X, W>>,
                                     compute<node<ops::top_k<K>, probabilities_of<X, W>>>, T...>> {
  using type =
      fused<ops::route, type_list<logits_of<X, W>, probabilities_of<X, W>, node<ops::top_k<K>, probabilities_of<X, W>>>,
            type_list<X, W>>;
  using rest = type_list<T...>;
};

template <class Backend, class Done, class Steps>
struct fused_steps;
template <class Backend, class Done>
struct fused_steps<Backend, Done, type_list<>> {
  using type = Done;
};
template <class Backend, class... D, class H, class... T>
struct fused_steps<Backend, type_list<D...>, type_list<H, T...>>
    : fused_steps<Backend, type_list<D..., typename fusion<Backend, type_list<H, T...>>::type>,
                  typename fusion<Backend, type_list<H, T...>>::rest> {};

template <class Backend, class Steps, bool Fuses = routes<Backend>>
struct fused_for {
  using type = Steps;  // lists of steps are long: nothing is made of them for a backend that fuses nothing
};
template <class Backend, class Steps>
struct fused_for<Backend, Steps, true> : fused_steps<Backend, type_list<>, Steps> {};

}  // namespace detail

/// Steps with those that Backend does in one kernel replaced.
template <class Backend, class Steps>
using fuse = typename detail::fused_for<Backend, Steps>::type;

}  // namespace headmix

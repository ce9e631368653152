#pragma once
// SPDX-License-Identifier: MIT
// Steps that a backend does in one kernel. A fused kernel never defines a meaning: it writes the values of the steps it
// replaces, and a backend without it runs those. A new pattern is one more specialization of `fusion`: steps that
// follow each other, and later ones that read nothing else.

#include "headmix/expr/attention_problem.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/mask.hpp"
#include "headmix/expr/route_problem.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/expr/softmax.hpp"
#include "headmix/program/call.hpp"

namespace headmix {

namespace ops {
/// A router: see route_problem, whose members are the values in their order.
struct route : operation {
  static constexpr bool needs_scratch = true;
  static std::size_t scratch(auto const& run, auto... values) {
    return run.backend.route_scratch(problem(run, values...));
  }
  static void eval(auto const& run, auto... values) { run.backend.route(problem(run, values...), run.scratch); }

 private:
  template <class Run>
  static auto problem(Run const&, auto... values) {
    return route_problem<typename Run::backend_type::scalar>{values...};
  }
};

template <class Spec>
struct attention;
/// o and its log-sum-exp, each of which is not wanted when its data is null, and gated = gate o.
template <class Spec>
struct gated_attention : operation {
  static constexpr bool needs_scratch = true;
  static std::size_t scratch(auto const& run, auto o, auto lse, auto p, auto, auto, auto... operands) {
    return attention<Spec>::scratch(run, o, lse, p, operands...);
  }
  static void eval(auto const& run, auto o, auto lse, auto p, auto gated, auto gate, auto... operands) {
    run.backend.template gated_attention<typename Spec::mask>(attention<Spec>::problem(run, o, lse, p, operands...),
                                                              gated, gate, run.scratch);
  }
};
template <class Spec>
struct attention_gradient;
/// The gradients of attention whose rows were gated, where d is the gradient by the gated rows: d_o = gate d and,
/// unless its data is null, d_gate = row_sum(d o), too.
template <class Spec>
struct gated_attention_gradient : operation {
  static constexpr bool needs_scratch = true;
  static std::size_t scratch(auto const& run, auto d_o, auto d_q, auto d_k, auto d_v, auto const&, auto const&,
                             auto const&, auto... operands) {
    return run.backend.attention_gradient_scratch(problem(run, d_o, d_q, d_k, d_v, operands...));
  }
  static void eval(auto const& run, auto d_o, auto d_q, auto d_k, auto d_v, auto d_gate, auto d, auto gate,
                   auto... operands) {
    run.backend.template gated_attention_gradient<typename Spec::mask>(problem(run, d_o, d_q, d_k, d_v, operands...),
                                                                       gate, d, d_o, d_gate, run.scratch);
  }

 private:
  template <class T, class W>
  static auto problem(auto const& run, view<T> d_o, view<T> d_q, view<T> d_k, view<T> d_v, view<T const> q,
                      view<T const> k, view<T const> v, view<T const> o, view<W const> lse, view<T const> p,
                      auto... further) {
    return attention_gradient<Spec>::problem(run, d_q, d_k, d_v, q, k, v, o, lse, p, view<T const>(d_o), further...);
  }
};
}  // namespace ops

/// Step: Op writes the values of all Nodes, and those of Further that are read; what it reads are the Operands.
template <class Op, class Nodes, class Further, class Operands>
struct fused {};

namespace detail {

template <class Op, class... Node, class... F, class... A, class Scalar>
struct calls_of<fused<Op, type_list<Node...>, type_list<F...>, type_list<A...>>, Scalar> {
  using buffers = type_list<Node..., F...>;
  using type = type_list<
      call<kernel<Op, type_list<view<storage_t<Node::kind_of, Scalar>>..., view<storage_t<F::kind_of, Scalar>>...>,
                  type_list<view<storage_t<A::kind_of, Scalar> const>...>>,
           buffers, type_list<memory_of<A>...>, false, false>>;
};

template <class Backend, class S = typename Backend::scalar>
inline constexpr bool routes = requires(Backend& b, route_problem<S> r) {
  b.route(r, std::span<std::byte>());
};

template <class Backend, class S = typename Backend::scalar>
inline constexpr bool gates_attention = requires(Backend& b, attention_forward<S> p, attention_backward<S> q, view<S> y,
                                                 view<S const> d, view<accumulator_t<S> const> gate,
                                                 view<accumulator_t<S>> d_gate, std::span<std::byte> scratch) {
  b.template gated_attention<full>(p, y, gate, scratch);
  b.template gated_attention_gradient<full>(q, gate, d, y, d_gate, scratch);
};

/// How the first steps of a list are done together: `type` is the step, `rest` what is left, and `further` is what the
/// step writes only if it is read.
template <class Backend, class Steps>
struct fusion;
template <class Backend, class H, class... T>
struct fusion<Backend, type_list<H, T...>> {
  using type = H;
  using further = type_list<>;
  using rest = type_list<T...>;
};

/// The values of a router: z = x w, p = softmax(z) and the best K columns of p. What else follows from them alone is
/// done with them wherever it stands in the list, since its operands are there.
template <class X, class W, class K>
struct routed_values {
  using z = node<ops::matmul<kind::accumulator>, X, W>;
  using p = node<ops::softmax, z>;
  using index = node<ops::top_k<K>, p>;
  using log_sum = decltype(log_sum_exp(z{}));
  using p_sum = decltype(col_sum(p{}));
  using chosen = decltype(one_hot(index{}));
  using chosen_sum = decltype(col_sum(chosen{}));
  using order = decltype(sort_by_expert(index{}));
  using further = type_list<log_sum, p_sum, chosen, chosen_sum, order, output<1, order>>;

  struct is_left {
    template <class Step>
    static constexpr bool value =
        !contains<type_list<compute<log_sum>, compute<p_sum>, compute<chosen>, compute<chosen_sum>, compute<order>>,
                  Step>;
  };
};
template <class Backend, class X, class W, class K, class... T>
requires(routes<Backend>&& X::kind_of == kind::real && W::kind_of == kind::real)  //
    struct fusion<
        Backend,
        type_list<compute<node<ops::matmul<kind::accumulator>, X, W>>,
                  compute<node<ops::softmax, node<ops::matmul<kind::accumulator>, X, W>>>,
                  compute<node<ops::top_k<K>, node<ops::softmax, node<ops::matmul<kind::accumulator>, X, W>>>>, T...>> {
  using values = routed_values<X, W, K>;
  using further = typename values::further;
  using type = fused<ops::route, type_list<typename values::z, typename values::p, typename values::index>, further,
                     type_list<X, W>>;
  using rest = filter<type_list<T...>, typename values::is_left>;
};

/// A number in memory for each row of O.
template <class G, class O>
inline constexpr bool is_gate =
    G::kind_of == kind::accumulator && !Pointwise<G> && cols<G>::value == 1 && rows<G>::value == rows<O>::value;
template <class G, class O>
using gated_by = node<ops::round_to_storage, node<ops::multiply, G, O>>;
template <class Backend, class Spec, class... A, class G, class... T>
requires(gates_attention<Backend>&& is_gate<G, node<ops::attention<Spec>, A...>>)  //
    struct fusion<Backend, type_list<compute<node<ops::attention<Spec>, A...>>,
                                     store<gated_by<G, node<ops::attention<Spec>, A...>>>, T...>> {
  using o = node<ops::attention<Spec>, A...>;
  using further = type_list<>;
  using type = fused<ops::gated_attention<Spec>, type_list<o, output<1, o>, output<2, o>, gated_by<G, o>>, further,
                     type_list<G, A...>>;
  using rest = type_list<T...>;
};

/// What is known of the gradient that arrives at O, if it is that by the gated rows times the gate.
template <class O, class Terms>
struct gated_gradient {
  static constexpr bool is_one = false;
};
template <class O, class D, class G>
struct gated_gradient<O, type_list<node<ops::multiply, D, G>>> {
  static constexpr bool is_one = is_gate<G, O> && D::kind_of == kind::real && !Pointwise<D> &&
                                 rows<D>::value == rows<O>::value && cols<D>::value == cols<O>::value;
  using d = D;
  using gate = G;
};
template <class Step>
struct is_not {
  template <class Other>
  static constexpr bool value = !std::is_same_v<Other, Step>;
};
template <class Backend, class DO, class Spec, class Q, class K, class V, class O, class... A, class... T>
requires(gates_attention<Backend>&& gated_gradient<O, terms<DO>>::is_one)  //
    struct fusion<
        Backend,
        type_list<store<DO>,
                  compute<node<ops::attention_gradient<Spec>, Q, K, V, O, output<1, O>, output<2, O>, DO, A...>>,
                  T...>> {
  using d = typename gated_gradient<O, terms<DO>>::d;
  using gate = typename gated_gradient<O, terms<DO>>::gate;
  using d_gate = node<ops::row_sum, node<ops::multiply, d, O>>;
  using d_q = node<ops::attention_gradient<Spec>, Q, K, V, O, output<1, O>, output<2, O>, DO, A...>;
  using further = type_list<d_gate>;
  using type = fused<ops::gated_attention_gradient<Spec>, type_list<DO, d_q, output<1, d_q>, output<2, d_q>>, further,
                     type_list<d, gate, Q, K, V, O, output<1, O>, output<2, O>, A...>>;
  using rest = filter<type_list<T...>, is_not<compute<d_gate>>>;
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
template <class Backend, class Steps, bool Fuses = routes<Backend> || gates_attention<Backend>>
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

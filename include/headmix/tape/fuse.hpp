#pragma once
// SPDX-License-Identifier: MIT
// Steps that a backend does in one kernel. A fused kernel never defines a meaning: it writes the values of the steps it
// replaces, and a backend without it runs those. A new pattern is one more specialization of `fusion`.

#include "headmix/expr/expert.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/route_problem.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/expr/softmax.hpp"
#include "headmix/tape/call.hpp"

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
  using z = node<ops::matmul<kind::wide>, X, W>;
  using p = node<ops::softmax, z>;
  using index = node<ops::top_k<K>, p>;
  using log_sum = decltype(log_sum_exp(z{}));
  using p_sum = decltype(col_sum(p{}));
  using chosen = decltype(one_hot(index{}));
  using chosen_sum = decltype(col_sum(chosen{}));
  using order = decltype(expert_order(index{}));
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
        type_list<compute<node<ops::matmul<kind::wide>, X, W>>,
                  compute<node<ops::softmax, node<ops::matmul<kind::wide>, X, W>>>,
                  compute<node<ops::top_k<K>, node<ops::softmax, node<ops::matmul<kind::wide>, X, W>>>>, T...>> {
  using values = routed_values<X, W, K>;
  using further = typename values::further;
  using type = fused<ops::route, type_list<typename values::z, typename values::p, typename values::index>, further,
                     type_list<X, W>>;
  using rest = filter<type_list<T...>, typename values::is_left>;
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
template <class Backend, class Steps, bool Fuses = routes<Backend>>
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

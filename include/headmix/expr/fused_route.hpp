#pragma once
// SPDX-License-Identifier: MIT
// A router's product, softmax and choice in one kernel, for backends that are FusedRoute.

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/fusion.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/expr/softmax.hpp"

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

namespace detail {

/// The values of a router: z = x w, p = softmax(z) and the best K columns of p. What else follows from them alone is
/// done with them wherever it stands in the list, since its operands are there.
template <class X, class W, class K>
struct routed_values {
  using z = node<ops::matmul<kind::accumulator>, X, W>;
  using p = node<ops::softmax, z>;
  using index = node<ops::top_k<K>, p>;
  using log_sum = decltype(log_sum_exp(z{}));
  using squares = decltype(col_sum(square(log_sum{})));
  using p_sum = decltype(col_sum(p{}));
  using chosen = decltype(one_hot(index{}));
  using chosen_sum = decltype(col_sum(chosen{}));
  using order = decltype(sort_by_expert(index{}));
  using further = type_list<log_sum, squares, p_sum, chosen, chosen_sum, order, output<1, order>>;

  struct is_left {
    template <class Step>
    static constexpr bool value =
        !contains<type_list<compute<log_sum>, compute<squares>, compute<p_sum>, compute<chosen>, compute<chosen_sum>,
                            compute<order>>,
                  Step>;
  };
};

}  // namespace detail

template <class Backend, class X, class W, class K, class... T>
requires(FusedRoute<Backend>&& X::kind_of == kind::real && W::kind_of == kind::real)  //
    struct fusion<
        Backend,
        type_list<compute<node<ops::matmul<kind::accumulator>, X, W>>,
                  compute<node<ops::softmax, node<ops::matmul<kind::accumulator>, X, W>>>,
                  compute<node<ops::top_k<K>, node<ops::softmax, node<ops::matmul<kind::accumulator>, X, W>>>>, T...>> {
  using values = detail::routed_values<X, W, K>;
  using further = typename values::further;
  using type = fused<ops::route, type_list<typename values::z, typename values::p, typename values::index>, further,
                     type_list<X, W>>;
  using rest = filter<type_list<T...>, typename values::is_left>;
};

}  // namespace headmix

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

/// A router: the values are p, index and the other members of route_problem in their order. First: number of columns of
/// z before those of the router, which belong to another value; void if there are none.
template <class First>
struct route : operation {
  static constexpr bool needs_scratch = true;
  static std::size_t scratch(auto const& run, auto... values) {
    return run.backend.route_scratch(problem(run, values...));
  }
  static void eval(auto const& run, auto... values) { run.backend.route(problem(run, values...), run.scratch); }

 private:
  template <class Run, class W>
  static auto problem(Run const& run, W p, view<Int> index, W z, W log_sum, W squares, W p_sum, W chosen, W chosen_sum,
                      W first, W first_sum, view<Int> order, view<Int> begins, auto... rest) {
    route_problem<typename Run::backend_type::scalar> r{z,          p,     index,     log_sum, squares, p_sum, chosen,
                                                        chosen_sum, first, first_sum, order,   begins,  {},    {}};
    put(run, r, rest...);
    return r;
  }
  static void put(auto const& run, auto& r, auto s, auto x, auto w) {
    put(run, r, x, w);
    r.s = s;
    r.before = run.template extent<First>();
  }
  static void put(auto const&, auto& r, auto x, auto w) {
    r.x = x;
    r.w = w;
  }
};

}  // namespace ops

namespace detail {

/// The columns of Z that S selects: `first` columns come before them; void for all.
template <class Z, class S>
struct columns_of {
  static constexpr bool found = false;
};
template <class Z>
struct columns_of<Z, Z> {
  static constexpr bool found = true;
  using first = void;
};
template <class Z, class First, class Count, class Of, class Like>
struct columns_of<Z, node<ops::gather_cols, Z, node<ops::iota_cols<First, Count, Of>, Like>>> {
  static constexpr bool found = true;
  using first = First;
};
/// The best K of the columns S of a product.
template <class S, class K>
struct choice {
  using columns = S;
  using count = K;
};
/// The choice among columns of Z in the first step, as a pointer to `choice`; nothing if there is none.
template <class Z, class Step>
inline constexpr std::nullptr_t choice_in{};
template <class Z, class K, class S>
requires(columns_of<Z, S>::found)  //
    inline constexpr choice<S, K>* choice_in<Z, run_kernel<node<ops::top_k<K>, node<ops::softmax, S>>>>{};
template <class Z, class Step, class... More>
constexpr auto first_choice() {
  if constexpr (std::is_pointer_v<std::remove_cv_t<decltype(choice_in<Z, Step>)>>) {
    return choice_in<Z, Step>;
  } else if constexpr (sizeof...(More) > 0) {
    return detail::first_choice<Z, More...>();
  } else {
    return nullptr;
  }
}
template <class Z, class... Steps>
constexpr auto choice_from(type_list<Steps...>*) {
  if constexpr (sizeof...(Steps) == 0) {
    return nullptr;
  } else {
    return detail::first_choice<Z, Steps...>();
  }
}
template <class Z, class Steps>
concept IsRouted = std::is_pointer_v<decltype(detail::choice_from<Z>(detail::pack<Steps>()))>;

/// The values of a router: z = x w, p = softmax(s) of columns s of z and the best K columns of p. Other steps that
/// depend on these values alone are fused too, wherever they are in the list, since their operands exist.
template <class Z, class S, class K>
struct routed_values {
  using p = node<ops::softmax, S>;
  using index = node<ops::top_k<K>, p>;
  using log_sum = decltype(log_sum_exp(S{}));
  using squares = decltype(col_sum(square(log_sum{})));
  using p_sum = decltype(col_sum(p{}));
  using chosen = decltype(one_hot(index{}));
  using chosen_sum = decltype(col_sum(chosen{}));
  using first = decltype(one_hot(headmix::first_choice(index{})));
  using first_sum = decltype(col_sum(first{}));
  using order = decltype(sort_by_expert(index{}));
  using own = std::conditional_t<std::is_same_v<Z, S>, type_list<>, type_list<S>>;
  using further =
      concat<type_list<Z, log_sum, squares, p_sum, chosen, chosen_sum, first, first_sum, order, output<1, order>>, own>;

  struct is_left {
    template <class Step>
    static constexpr bool value =
        !contains<type_list<run_kernel<S>, run_kernel<p>, run_kernel<index>, run_kernel<log_sum>, run_kernel<squares>,
                            run_kernel<p_sum>, run_kernel<chosen>, run_kernel<chosen_sum>, run_kernel<first>,
                            run_kernel<first_sum>, run_kernel<order>>,
                  Step>;
  };
};

/// The pattern of a router with the product Z = x w: its `fusion`, where Steps are the steps behind the product.
template <class Z, class X, class W, class Steps, class S, class K>
constexpr auto fused_route(choice<S, K>*) {
  using values = routed_values<Z, S, K>;
  using route = fused<ops::route<typename columns_of<Z, S>::first>,
                      type_list<typename values::p, typename values::index>, typename values::further, type_list<X, W>>;
  return static_cast<fused_as<route, typename values::further, filter<Steps, typename values::is_left>>>(nullptr);
}

/// A router's product, its scores and the choice among them: one kernel.
template <class Backend, class X, class W, class... T>
requires(FusedRoute<Backend>&& X::kind_of == kind::real && W::kind_of == kind::real &&
         IsRouted<node<ops::matmul<kind::accumulator>, X, W>, type_list<T...>>)  //
    inline constexpr auto fusion<Backend, type_list<run_kernel<node<ops::matmul<kind::accumulator>, X, W>>, T...>> =
        fused_route<node<ops::matmul<kind::accumulator>, X, W>, X, W, type_list<T...>>(
            choice_from<node<ops::matmul<kind::accumulator>, X, W>>(static_cast<type_list<T...>*>(nullptr)));

}  // namespace detail
}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// Attention with gated rows, and its gradient, as one step each: one kernel if the backend is FusedGatedAttention, else
// its plain kernels with less memory.

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/expr/fusion.hpp"
#include "headmix/expr/pointwise.hpp"
#include "headmix/expr/reduce.hpp"

namespace headmix {

/// True if the backend fuses the steps of this file.
template <class B>
concept GatesAttention = FusedGatedAttention<B> || AttentionGradientInPlace<B>;

namespace detail {
/// a b, element by element; an `a` of one column broadcasts.
template <bool OneCol, class A, class B>
auto product_of(view<A const> a, view<B const> b) {
  return tree_node<accumulator_t<B>, ops::multiply, tree_leaf<A, false, OneCol>, tree_leaf<B, false, false>>{{a}, {b}};
}
}  // namespace detail

namespace ops {

template <class Spec>
struct attention;
/// o and its log-sum-exp, each only if its data is not null, and gated = gate o.
template <class Spec>
struct gated_attention : operation {
  static constexpr bool needs_scratch = true;
  static constexpr int sized_output = attention<Spec>::sized_output;
  static Index columns(auto const& run, auto o, auto lse, auto p, auto, auto, auto... operands) {
    return attention<Spec>::columns(run, o, lse, p, operands...);
  }
  static std::size_t scratch(auto const& run, auto o, auto lse, auto p, auto, auto, auto... operands) {
    return attention<Spec>::scratch(run, o, lse, p, operands...);
  }
  template <class T>
  static void eval(auto const& run, view<T> o, auto lse, auto p, view<T> gated, auto gate, auto... operands) {
    auto problem = attention<Spec>::problem(run, o, lse, p, operands...);
    if constexpr (FusedGatedAttention<std::remove_cvref_t<decltype(run.backend)>>) {
      run.backend.template gated_attention<typename Spec::mask>(problem, gated, gate, run.scratch);
    } else {
      if (!o.data) problem.o = gated;
      run.backend.template attention<typename Spec::mask>(problem, run.scratch);
      run.backend.map(gated, detail::product_of<true>(gate, view<T const>(problem.o)), false);
    }
  }
};
template <class Spec>
struct attention_gradient;
/// Gradients of attention with gated rows. d is the gradient of the gated rows: d_o = gate d and, if its data is not
/// null, d_gate = row_sum(d o).
template <class Spec>
struct gated_attention_gradient : operation {
  static constexpr bool needs_scratch = true;
  static constexpr int in_place = 2;
  static std::size_t scratch(auto const& run, auto d_o, auto d_q, auto d_k, auto d_v, auto const&, auto const&,
                             auto const&, auto... operands) {
    return run.backend.template attention_gradient_scratch<typename Spec::mask>(
        problem(run, d_o, d_q, d_k, d_v, operands...));
  }
  static void eval(auto const& run, auto d_o, auto d_q, auto d_k, auto d_v, auto d_gate, auto d, auto gate,
                   auto... operands) {
    auto const gradient = problem(run, d_o, d_q, d_k, d_v, operands...);
    if constexpr (FusedGatedAttention<std::remove_cvref_t<decltype(run.backend)>>) {
      run.backend.template gated_attention_gradient<typename Spec::mask>(gradient, gate, d, d_o, d_gate, run.scratch);
    } else {
      auto const products = detail::product_of<false>(d, gradient.o);
      if (d_gate.data)
        run.backend.row_sum(d_gate, lazy<std::remove_cv_t<decltype(products)>>{products, d.rows, d.cols}, false);
      run.backend.map(d_o, detail::product_of<true>(gate, d), false);
      run.backend.template attention_gradient<typename Spec::mask>(gradient, run.scratch);
    }
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

namespace detail {

/// True if G has one number in memory for each row of O.
template <class G, class O>
inline constexpr bool is_gate =
    G::kind_of == kind::accumulator && !Pointwise<G> && cols<G>::value == 1 && rows<G>::value == rows<O>::value;
template <class G, class O>
using gated_by = node<ops::round_to_storage, node<ops::multiply, G, O>>;
/// The gate and the gradient of the gated rows, if the gradient of O is their product.
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

/// The step that computes the gradients of q, k and v from DO, the gradient of the result O of attention.
template <class DO, class O = typename DO::of>
struct gradient_step_of {
  template <class...>
  static constexpr bool is_later = false;
};
template <class DO, class Spec, class Q, class K, class V, class... A>
struct gradient_step_of<DO, node<ops::attention<Spec>, Q, K, V, A...>> {
  using O = node<ops::attention<Spec>, Q, K, V, A...>;
  using step = run_kernel<node<ops::attention_gradient<Spec>, Q, K, V, O, output<1, O>, output<2, O>, DO, A...>>;
  template <class Next, class... T>
  static constexpr bool is_later =
      gated_gradient<O, terms<DO>>::is_one && !std::is_same_v<Next, step> && contains<type_list<T...>, step>;
};

template <class Spec, class O, class G, class... A>
using gated_attention_step = fused<ops::gated_attention<Spec>, type_list<O, output<1, O>, output<2, O>, gated_by<G, O>>,
                                   type_list<>, type_list<G, A...>>;

/// The step of DQ, the gradients of attention with result O and incoming gradient DO, fused with the gradient G of the
/// gates of O's rows.
template <class Spec, class DO, class DQ, class O, class Operands, class G = gated_gradient<O, terms<DO>>>
struct gated_attention_gradient_step;
template <class Spec, class DO, class DQ, class O, class... A, class G>
struct gated_attention_gradient_step<Spec, DO, DQ, O, type_list<A...>, G> {
  using d_gate = node<ops::row_sum, node<ops::multiply, typename G::d, O>>;
  using type = fused<ops::gated_attention_gradient<Spec>, type_list<DO, DQ, output<1, DQ>, output<2, DQ>>,
                     type_list<d_gate>, type_list<typename G::d, typename G::gate, A...>>;
  template <class... T>
  using head = fused_as<type, type_list<d_gate>, filter<type_list<T...>, is_not<run_kernel<d_gate>>>>;
};

template <class Spec, class DO, class DQ, class O, class Operands, class... T>
using gated_attention_gradient_head =
    typename gated_attention_gradient_step<Spec, DO, DQ, O, Operands>::template head<T...>;

template <class Backend, class Spec, class... A, class G, class... T>
requires(GatesAttention<Backend>&& is_gate<G, node<ops::attention<Spec>, A...>>)  //
    inline constexpr fused_as<
        gated_attention_step<Spec, node<ops::attention<Spec>, A...>, G, A...>, type_list<>,
        type_list<T...>> fusion<Backend, type_list<run_kernel<node<ops::attention<Spec>, A...>>,
                                                   materialize<gated_by<G, node<ops::attention<Spec>, A...>>>, T...>>{};

template <class Backend, class DO, class Spec, class Q, class K, class V, class O, class... A, class... T>
requires(GatesAttention<Backend>&& gated_gradient<O, terms<DO>>::is_one)  //
    inline constexpr gated_attention_gradient_head<
        Spec, DO, node<ops::attention_gradient<Spec>, Q, K, V, O, output<1, O>, output<2, O>, DO, A...>, O,
        type_list<Q, K, V, O, output<1, O>, output<2, O>, A...>,
        T...> fusion<Backend, type_list<materialize<DO>,
                                        run_kernel<node<ops::attention_gradient<Spec>, Q, K, V, O, output<1, O>,
                                                        output<2, O>, DO, A...>>,
                                        T...>>{};

/// Other steps that read d_o, as gradients of operands of score maps do, are moved behind the fused step.
template <class Backend, class DO, class Next, class... T>
requires(GatesAttention<Backend>&& requires { typename DO::of; } &&
         gradient_step_of<DO>::template is_later<Next, T...>)  //
    inline constexpr auto fusion<Backend, type_list<materialize<DO>, Next, T...>> =
        fusion<Backend, concat<type_list<materialize<DO>, typename gradient_step_of<DO>::step, Next>,
                               filter<type_list<T...>, is_not<typename gradient_step_of<DO>::step>>>>;

}  // namespace detail
}  // namespace headmix

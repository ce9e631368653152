#pragma once
// SPDX-License-Identifier: MIT
// Attention and its gradients as operations.

#include <tuple>
#include <utility>

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/expr/attention_spec.hpp"

namespace headmix {

namespace ops {

template <class Spec>
struct attention_gradient;

/// Buffer 0: o, of the shape of q. With a gradient, also buffer 1: the log-sum-exp of the scores, and buffer 2: the
/// probabilities, if the backend stores them (see attention_forward).
template <class Spec>
struct attention : operation {
  static constexpr bool needs_scratch = true;
  static constexpr int outputs = 3;
  static constexpr bool optional_outputs = true;
  static constexpr int sized_output = 2;
  static constexpr bool validates = true;
  template <class...>
  static void validate(auto const& run) {
    if (run.template segments_of<typename Spec::k_rows>().past != nullptr) {
      fail("attention: the sequences say what came before their keys (segments::past), which a Decoder alone keeps");
    }
    Spec::validate(run);
  }
  template <class Q, class...>
  using shape_of = shape<rows<Q>, cols<Q>>;
  template <class...>
  static constexpr kind kind_of = kind::real;
  template <int Which>
  static constexpr kind output_kind = Which == 1 ? kind::accumulator : kind::real;
  template <class... A>
  using checks = decltype(Spec::template checks<A...>());
  template <int Which, class Args>
  struct output_of;
  template <class Q, class K, class... A>
  struct output_of<1, type_list<Q, K, A...>> {
    using type = shape<rows<Q>, decltype(Spec::template lse_columns<Q, K>())>;
  };
  template <class Q, class K, class... A>
  struct output_of<2, type_list<Q, K, A...>> {
    using type = shape<times<rows<Q>, decltype(Spec::template lse_columns<Q, K>())>, size<0>>;
  };
  template <int Which, class Args>
  using output_shape = typename output_of<Which, Args>::type;

  template <class T, class W>
  static auto problem(auto const& run, view<T> o, view<W> lse, view<T> probabilities, view<T const> q, view<T const> k,
                      view<T const> v, auto... further) {
    attention_forward<T, typename Spec::map> p;
    Spec::describe(p, run, q.cols, k.cols, further...);
    p.q = q;
    p.k = k;
    p.v = v;
    p.o = o;
    p.lse = lse;
    p.probabilities = probabilities;
    return p;
  }
  static Index columns(auto const& run, auto... operands) {
    if constexpr (StoresProbabilities<std::remove_cvref_t<decltype(run.backend)>>) {
      return run.backend.attention_columns(problem(run, operands...));
    } else {
      return 0;
    }
  }
  static std::size_t scratch(auto const& run, auto... operands) {
    static_assert(Spec::map::identity || MapsScores<std::remove_cvref_t<decltype(run.backend)>>,
                  "headmix: attention of this backend takes no score maps (contract/optional_kernels.hpp: MapsScores)");
    return run.backend.attention_scratch(problem(run, operands...));
  }
  static void eval(auto const& run, auto... operands) {
    run.backend.template attention<typename Spec::mask>(problem(run, operands...), run.scratch);
  }
  /// The last element of `further` is the value o.
  static constexpr auto vjp(auto dy, auto q, auto k, auto v, auto... further) {
    return pull(std::make_integer_sequence<int, sizeof...(further) - 1>{}, type_list<decltype(further)...>{}, dy, q, k,
                v);
  }

 private:
  template <int... Which, class... A>
  static constexpr auto pull(std::integer_sequence<int, Which...>, type_list<A...>, auto dy, auto q, auto k, auto v) {
    using list = type_list<A...>;
    using Y = nth<sizeof...(Which), list>;
    constexpr auto g =
        make<attention_gradient<Spec>>(q, k, v, Y{}, get_output<1>(Y{}), get_output<2>(Y{}), dy, nth<Which, list>{}...);
    return grads(g, get_output<1>(g), get_output<2>(g),
                 Spec::template gradient<Which>(q, k, v, Y{}, get_output<1>(Y{}), get_output<2>(Y{}), dy,
                                                nth<Which, list>{}...)...);
  }
};

/// Operands of gradients: q, k, v, o, the log-sum-exp, the probabilities, the gradient of o, and further operands.
template <class Spec>
struct attention_pullback : operation {
  static constexpr bool needs_scratch = true;
  static constexpr bool differentiable = false;
  template <class...>
  static constexpr kind kind_of = kind::real;
  template <class T, class W>
  static auto problem(auto const& run, view<T> d_q, view<T> d_k, view<T> d_v, view<T const> q, view<T const> k,
                      view<T const> v, view<T const> o, view<W> lse, view<T const> probabilities, view<T const> d_o,
                      auto... further) {
    attention_backward<T, typename Spec::map> p;
    Spec::describe(p, run, q.cols, k.cols, further...);
    p.q = q;
    p.k = k;
    p.v = v;
    p.o = o;
    p.d_o = d_o;
    p.lse = lse;
    p.d_q = d_q;
    p.d_k = d_k;
    p.d_v = d_v;
    p.probabilities = probabilities;
    return p;
  }
  template <class T>
  static auto problem_without_outputs(auto const& run, view<T const> q, auto... operands) {
    view<T> const unwanted(nullptr, 0, 0);
    return problem(run, unwanted, unwanted, unwanted, q, operands...);
  }
};

/// Buffers 0, 1, 2: the gradients of q, k and v.
template <class Spec>
struct attention_gradient : attention_pullback<Spec> {
  static constexpr int outputs = 3;
  static constexpr bool optional_outputs = true;
  template <class Q, class...>
  using shape_of = shape<rows<Q>, cols<Q>>;
  template <int>
  static constexpr kind output_kind = kind::real;
  template <class Args>
  struct key_shape;
  template <class Q, class K, class... A>
  struct key_shape<type_list<Q, K, A...>> {
    using type = shape<rows<K>, cols<K>>;
  };
  template <int, class Args>
  using output_shape = typename key_shape<Args>::type;

  static std::size_t scratch(auto const& run, auto... operands) {
    return run.backend.template attention_gradient_scratch<typename Spec::mask>(
        attention_gradient::problem(run, operands...));
  }
  static void eval(auto const& run, auto... operands) {
    run.backend.template attention_gradient<typename Spec::mask>(attention_gradient::problem(run, operands...),
                                                                 run.scratch);
  }
};

/// The gradient of the bias, summed over the sequences.
template <class Spec>
struct attention_bias_gradient : attention_pullback<Spec> {
  template <class... A>
  using shape_of = typename nth<7 + Spec::template operands_before<scores_with_bias>(), type_list<A...>>::extents;

  static std::size_t scratch(auto const& run, auto, auto... operands) {
    return run.backend.attention_bias_gradient_scratch(
        attention_bias_gradient::problem_without_outputs(run, operands...));
  }
  static void eval(auto const& run, auto d_bias, auto... operands) {
    run.backend.template attention_bias_gradient<typename Spec::mask>(
        d_bias, attention_bias_gradient::problem_without_outputs(run, operands...), run.scratch);
  }
};

/// Buffer i: the gradient of operand i of the score maps, summed over the sequences.
template <class Spec>
struct attention_operand_gradient : attention_pullback<Spec> {
  static constexpr int outputs = Spec::map::operands;
  static constexpr bool optional_outputs = true;
  template <class...>
  static constexpr kind kind_of = kind::accumulator;
  template <int>
  static constexpr kind output_kind = kind::accumulator;
  template <int Which, class Args>
  using output_shape = typename nth<7 + Spec::template operands_before<mapped_scores>() + Which, Args>::extents;
  template <class... A>
  using shape_of = output_shape<0, type_list<A...>>;

  template <class W>
  static std::size_t scratch(auto const& run, view<W> first, auto... all) {
    return split(std::make_integer_sequence<int, outputs>{},
                 std::make_integer_sequence<int, sizeof...(all) + 1 - outputs>{}, std::make_tuple(first, all...),
                 [&](auto const&, auto const&... operands) {
                   return run.backend.attention_operand_gradient_scratch(
                       attention_operand_gradient::problem_without_outputs(run, operands...));
                 });
  }
  template <class W>
  static void eval(auto const& run, view<W> first, auto... all) {
    split(std::make_integer_sequence<int, outputs>{}, std::make_integer_sequence<int, sizeof...(all) + 1 - outputs>{},
          std::make_tuple(first, all...), [&](auto const& gradients, auto const&... operands) {
            run.backend.template attention_operand_gradient<typename Spec::mask>(
                gradients, attention_operand_gradient::problem_without_outputs(run, operands...), run.scratch);
          });
  }

 private:
  /// Calls f(outputs, operands...).
  template <int... Out, int... In, class First, class... More>
  static auto split(std::integer_sequence<int, Out...>, std::integer_sequence<int, In...>,
                    std::tuple<view<First>, More...> const& all, auto const& f) {
    return f(operand_gradients<First, outputs>{{std::get<Out>(all)...}}, std::get<outputs + In>(all)...);
  }
};

}  // namespace ops

}  // namespace headmix

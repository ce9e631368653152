#pragma once
// SPDX-License-Identifier: MIT
// Attention as one node: o = softmax(scores) v over the keys that the mask allows, sequence by sequence. The scores are
// never stored. Its meaning is the composed expression softmax(q % t(k) / sqrt(d_h)) % v of each sequence and head.

#include <cmath>
#include <utility>

#include "headmix/contract/attention_problem.hpp"
#include "headmix/contract/mask.hpp"
#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/error.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {

/// How scores come of queries and keys: a mask alone stands for scores of q k^T / sqrt(d_h); a custom variant
/// names its `mask` and what products are multiplied by, `scale(d_h)`. What else there is to scores is written as
/// expressions: of q and k before the attention, and as a `score_bias`.
template <class V>
concept AttentionVariant = AttentionMask<V> || requires(Index head_dim) {
  requires AttentionMask<typename V::mask>;
  { V::scale(head_dim) } -> std::convertible_to<double>;
};

/// Scores of q k^T: queries and keys come with their lengths as they shall be (cosine attention).
template <AttentionMask Mask>
struct unscaled {
  using mask = Mask;
  static constexpr double scale(Index) { return 1; }
};

namespace archetype {
/// The least that a variant is.
struct variant {
  using mask = full;
  static double scale(Index) { return 0.5; }
};
}  // namespace archetype
static_assert(AttentionVariant<archetype::variant> && AttentionVariant<causal> && AttentionVariant<unscaled<causal>>);

namespace detail {
template <class V>
struct mask_in {
  using type = V;
};
template <class V>
requires requires { typename V::mask; }
struct mask_in<V> {
  using type = typename V::mask;
};
}  // namespace detail
/// The mask of a variant.
template <AttentionVariant V>
using mask_of = typename detail::mask_in<V>::type;

/// The heads of attention where tokens choose them: index Int [T, K] chooses among E heads. Buffer 0 of the order lists
/// the slots of every sequence and head, buffer 1 says where each list begins.
template <Expr Order, Extent Heads>
struct head_rows {};
/// A number that is added to the score of every query and key: B is [positions * Keys, heads], row position * Keys + s
/// for key s of the query at this position. It is the same for all sequences.
template <Expr B, Extent Keys>
struct score_bias {};

namespace ops {

/// What an attention is besides its operands q, k and v. Further operands are, in this order and each where it is
/// there: the random key of dropout (ProbabilityDropout), the slots and offsets of chosen heads (Heads), a bias
/// (BiasKeys).
template <class Variant, class KvHeads, class QRows, class KRows, class ProbabilityDropout = void, class Heads = void,
          class BiasKeys = void>
struct attention_spec {
  using variant = Variant;
  using mask = mask_of<Variant>;
  using kv_heads = KvHeads;
  using q_rows = QRows;
  static constexpr bool drops = !std::is_void_v<ProbabilityDropout>, chooses = !std::is_void_v<Heads>,
                        biased = !std::is_void_v<BiasKeys>;
  static constexpr int lists_at = drops ? 1 : 0, bias_at = lists_at + (chooses ? 2 : 0);

  template <int Which>
  static constexpr auto nth_of(auto first, auto... rest) {
    if constexpr (Which == 0) {
      return first;
    } else {
      return nth_of<Which - 1>(rest...);
    }
  }
  static attention_extents extents(auto const& run, Index q_cols, Index k_cols, auto... further) {
    attention_extents e;
    e.queries = run.template segments_of<QRows>();
    e.keys = run.template segments_of<KRows>();
    e.kv_heads = run.template extent<KvHeads>();
    e.head_dim = k_cols / e.kv_heads;
    e.rows_per_token = e.queries.rows == 0 ? 1 : run.template extent<QRows>() / e.queries.rows;
    if constexpr (chooses) {
      e.heads = run.template extent<Heads>();
      e.chosen = {nth_of<lists_at>(further...).data, nth_of<lists_at + 1>(further...).data};
    } else {
      e.heads = q_cols / e.head_dim;
    }
    return e;
  }
  static attention_dropout dropout(auto... further) {
    if constexpr (drops) {
      return {nth_of<0>(further...).data, static_cast<std::uint32_t>(random_stream::attention_dropout),
              ProbabilityDropout::rate};
    } else {
      return {};
    }
  }
  template <class T>
  static attention_scores<T> scores(auto const& run, Index head_dim, auto... further) {
    attention_scores<T> s;
    if constexpr (AttentionMask<Variant>) {
      s.scale = 1 / std::sqrt(static_cast<double>(head_dim));
    } else {
      s.scale = Variant::scale(head_dim);
    }
    if constexpr (biased) {
      s.bias = nth_of<bias_at>(further...);
      s.bias_keys = run.template extent<BiasKeys>();
    }
    return s;
  }
  /// What the extents alone do not say.
  static void validate(auto const& run) {
    segments const q = run.template segments_of<QRows>(), k = run.template segments_of<KRows>();
    Index const q_rows = run.template extent<QRows>(), k_rows = run.template extent<KRows>();
    if (q.count != k.count) {
      fail("attention: there are ", q.count, " sequences of queries and ", k.count, " of keys");
    }
    if (k_rows != k.rows) fail("attention: keys and values have ", k_rows, " rows for ", k.rows, " key tokens");
    if (q.rows != 0 && q_rows % q.rows != 0) {
      fail("attention: queries have ", q_rows, " rows, no multiple of the ", q.rows, " query tokens");
    }
    if constexpr (biased) {
      Index const keys = run.template extent<BiasKeys>();
      // Of ragged sequences on a device, the lengths are not known here.
      bool const known = k.offsets == nullptr || std::remove_cvref_t<decltype(run.backend)>::host_memory;
      for (Index b = 0; known && b < k.count; ++b) {
        if (k.length(b) > keys) {
          fail("attention: the score_bias is for ", keys, " keys, sequence ", b, " has ", k.length(b));
        }
      }
    }
  }
  template <class Q, class K, class V, class... Further>
  static constexpr auto checks() {
    using products =
        type_list<equal<rows_of<V>, rows_of<K>>, equal<cols_of<V>, cols_of<K>>, multiple_of<cols_of<K>, the<KvHeads>>>;
    if constexpr (chooses) {
      using own = type_list<equal<cols_of<Q>, the<over<cols<K>, KvHeads>>>, multiple_of<the<Heads>, the<KvHeads>>>;
      return concat<products, own, bias_checks<Heads, Further...>>{};
    } else {
      using heads = over<cols<Q>, over<cols<K>, KvHeads>>;
      return concat<products, type_list<multiple_of<cols_of<Q>, cols_of<K>>>, bias_checks<heads, Further...>>{};
    }
  }
  /// Columns of the log-sum-exp.
  template <class Q, class K>
  static constexpr auto lse_columns() {
    if constexpr (chooses) {
      return size<1>{};
    } else {
      return over<cols<Q>, over<cols<K>, KvHeads>>{};
    }
  }

 private:
  template <class H, class... Further>
  static constexpr auto checks_of_bias() {
    if constexpr (biased) {
      using B = nth<bias_at, type_list<Further...>>;
      return type_list<equal<cols_of<B>, the<H>>, equal<rows_of<B>, the<times<BiasKeys, BiasKeys>>>>{};
    } else {
      return type_list<>{};
    }
  }
  template <class H, class... Further>
  using bias_checks = decltype(checks_of_bias<H, Further...>());
};

template <class Spec>
struct attention_gradient;
template <class Spec>
struct attention_bias_gradient;

/// Buffer 0: o, the shape of q. For the gradient, buffer 1: the log-sum-exp of the scores, and buffer 2: probabilities,
/// if the backend stores them (see attention_forward).
template <class Spec>
struct attention : operation {
  static constexpr bool needs_scratch = true;
  static constexpr int outputs = 3;
  static constexpr bool optional_outputs = true;
  static constexpr int sized_output = 2;
  static constexpr bool validates = true;
  template <class...>
  static void validate(auto const& run) {
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
  static attention_forward<T> problem(auto const& run, view<T> o, view<W> lse, view<T> probabilities, view<T const> q,
                                      view<T const> k, view<T const> v, auto... further) {
    auto const extents = Spec::extents(run, q.cols, k.cols, further...);
    return {extents,
            q,
            k,
            v,
            o,
            lse,
            Spec::dropout(further...),
            Spec::template scores<T>(run, extents.head_dim, further...),
            probabilities};
  }
  static Index columns(auto const& run, auto... operands) {
    if constexpr (StoresProbabilities<std::remove_cvref_t<decltype(run.backend)>>) {
      return run.backend.attention_columns(problem(run, operands...));
    } else {
      return 0;
    }
  }
  static std::size_t scratch(auto const& run, auto... operands) {
    return run.backend.attention_scratch(problem(run, operands...));
  }
  static void eval(auto const& run, auto... operands) {
    run.backend.template attention<typename Spec::mask>(problem(run, operands...), run.scratch);
  }
  /// `further` ends with the value.
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
    return grads(g, get_output<1>(g), get_output<2>(g), by_further<Which, nth<Which, list>...>(q, k, v, Y{}, dy)...);
  }
  /// The gradient by further operand `Which`.
  template <int Which, class... Further>
  static constexpr auto by_further(auto q, auto k, auto v, auto y, auto dy) {
    if constexpr (Spec::biased && Which == Spec::bias_at) {
      return make<attention_bias_gradient<Spec>>(q, k, v, y, get_output<1>(y), get_output<2>(y), dy, Further{}...);
    } else {
      return none{};
    }
  }
};

/// The operands of gradients: q, k, v, o, the log-sum-exp, the probabilities, the gradient of o, and the further ones.
template <class Spec>
struct attention_pullback : operation {
  static constexpr bool needs_scratch = true;
  static constexpr bool differentiable = false;
  template <class...>
  static constexpr kind kind_of = kind::real;
  template <class T, class W>
  static attention_backward<T> problem(auto const& run, view<T> d_q, view<T> d_k, view<T> d_v, view<T const> q,
                                       view<T const> k, view<T const> v, view<T const> o, view<W> lse,
                                       view<T const> probabilities, view<T const> d_o, auto... further) {
    attention_backward<T> p;
    p.extents = Spec::extents(run, q.cols, k.cols, further...);
    p.q = q;
    p.k = k;
    p.v = v;
    p.o = o;
    p.d_o = d_o;
    p.lse = lse;
    p.d_q = d_q;
    p.d_k = d_k;
    p.d_v = d_v;
    p.dropout = Spec::dropout(further...);
    p.scores = Spec::template scores<T>(run, p.extents.head_dim, further...);
    p.probabilities = probabilities;
    return p;
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
    return run.backend.attention_gradient_scratch(attention_gradient::problem(run, operands...));
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
  using shape_of = typename nth<7 + Spec::bias_at, type_list<A...>>::extents;

  template <class T>
  static auto problem_without_outputs(auto const& run, view<T>, auto... operands) {
    view<T> const unwanted(nullptr, 0, 0);
    return attention_bias_gradient::problem(run, unwanted, unwanted, unwanted, operands...);
  }
  static std::size_t scratch(auto const& run, auto... operands) {
    return run.backend.attention_bias_gradient_scratch(problem_without_outputs(run, operands...));
  }
  static void eval(auto const& run, auto d_bias, auto... operands) {
    run.backend.template attention_bias_gradient<typename Spec::mask>(
        d_bias, problem_without_outputs(run, d_bias, operands...), run.scratch);
  }
};

}  // namespace ops

/// Heads that tokens choose, for `attention`: index Int [T, K], every head at most once in a row.
template <Selection Chosen>
constexpr auto rows_of_heads(Chosen index) {
  constexpr auto order = sort_by_expert<rows<Chosen>>(index);
  return head_rows<std::remove_const_t<decltype(order)>, domain<Chosen>>{};
}
/// A bias for `attention`: b [Keys * Keys, heads], Keys the length of the longest sequence.
template <Extent Keys, Expr B>
constexpr score_bias<B, Keys> bias_of_scores(B) {
  return {};
}

namespace detail {
template <class Variant, class KvHeads, class ProbabilityDropout, Expr Q, Expr K, Expr V, class Heads, class BiasKeys,
          Expr... A>
constexpr auto make_attention(Q q, K k, V v, A... further) {
  using spec = ops::attention_spec<Variant, unnamed<KvHeads>, rows<Q>, rows<K>, ProbabilityDropout, Heads, BiasKeys>;
  if constexpr (std::is_void_v<ProbabilityDropout>) {
    return make<ops::attention<spec>>(q, k, v, further...);
  } else {
    return make<ops::attention<spec>>(q, k, v, random_key{}, further...);
  }
}
}  // namespace detail

/// o = softmax(scores) v with scores q k^T / sqrt(d_h), or as the variant says; d_h = cols(k) / KvHeads.
///
/// q [n T, heads d_h] (MoA: n rows per token, one for each chosen expert), k and v [S, KvHeads d_h]; the result has the
/// shape of q. Head i of a row reads key/value head i KvHeads / heads. A query that sees no key gives 0.
///
/// @tparam ProbabilityDropout  dropout of the probabilities, `draws::keep<n, d>`; void for none
template <AttentionVariant Variant, Extent KvHeads = size<1>, class ProbabilityDropout = void, Expr Q, Expr K, Expr V>
constexpr auto attention(Q q, K k, V v) {
  return detail::make_attention<Variant, KvHeads, ProbabilityDropout, Q, K, V, void, void>(q, k, v);
}
/// The same with a bias of the scores.
template <AttentionVariant Variant, Extent KvHeads = size<1>, class ProbabilityDropout = void, Expr Q, Expr K, Expr V,
          Expr B, Extent Keys>
constexpr auto attention(Q q, K k, V v, score_bias<B, Keys>) {
  return detail::make_attention<Variant, KvHeads, ProbabilityDropout, Q, K, V, void, Keys>(q, k, v, B{});
}
/// The same where tokens choose heads: q [K T, d_h] has one row for each slot (token, choice), and only those rows are
/// attended. See rows_of_heads.
template <AttentionVariant Variant, Extent KvHeads = size<1>, class ProbabilityDropout = void, Expr Q, Expr K, Expr V,
          Expr Order, Extent Heads>
constexpr auto attention(Q q, K k, V v, head_rows<Order, Heads>) {
  return detail::make_attention<Variant, KvHeads, ProbabilityDropout, Q, K, V, unnamed<Heads>, void>(
      q, k, v, Order{}, get_output<1>(Order{}));
}
template <AttentionVariant Variant, Extent KvHeads = size<1>, class ProbabilityDropout = void, Expr Q, Expr K, Expr V,
          Expr Order, Extent Heads, Expr B, Extent Keys>
constexpr auto attention(Q q, K k, V v, head_rows<Order, Heads>, score_bias<B, Keys>) {
  return detail::make_attention<Variant, KvHeads, ProbabilityDropout, Q, K, V, unnamed<Heads>, Keys>(
      q, k, v, Order{}, get_output<1>(Order{}), B{});
}

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// Attention as one node: softmax(q k^T / sqrt(d_h)) v over the keys that the mask allows, sequence by sequence. The
// scores are never stored. Its meaning is the composed expression softmax(q % t(k) / sqrt(d_h)) % v of each sequence
// and head.

#include "headmix/core/error.hpp"
#include "headmix/expr/attention_problem.hpp"
#include "headmix/expr/mask.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {
namespace ops {

template <class KvHeads, class QRows, class KRows>
attention_extents attention_extents_of(auto const& run, Index q_cols, Index k_cols) {
  attention_extents e;
  e.queries = run.template segments_of<QRows>();
  e.keys = run.template segments_of<KRows>();
  e.kv_heads = run.template extent<KvHeads>();
  e.head_dim = k_cols / e.kv_heads;
  e.heads = q_cols / e.head_dim;
  e.rows_per_token = e.queries.rows == 0 ? 1 : run.template extent<QRows>() / e.queries.rows;
  return e;
}

/// What dropout needs of the run: nothing without it.
template <class Keep>
attention_dropout dropout_of(auto... key) {
  if constexpr (sizeof...(key) == 0) {
    return {};
  } else {
    return {key.data..., static_cast<std::uint32_t>(random_stream::attention_dropout), Keep::rate};
  }
}

template <class Mask, class KvHeads, class QRows, class KRows, class Keep>
struct attention_gradient;

/// Buffer 0: o, the shape of q. Buffer 1: the log-sum-exp of the scores, kept for the gradient. Operands are q, k, v
/// and, with dropout (`Keep` is not void), the random key.
template <class Mask, class KvHeads, class QRows, class KRows, class Keep>
struct attention : operation {
  static constexpr bool needs_scratch = true;
  static constexpr int outputs = 2;
  static constexpr bool optional_outputs = true;
  static constexpr bool validates = true;
  template <class...>
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
  }
  template <class Q, class K, class V, class...>
  using shape_of = shape<rows<Q>, cols<Q>>;
  template <class...>
  static constexpr kind kind_of = kind::real;
  template <int>
  static constexpr kind output_kind = kind::wide;
  template <class Q, class K, class V, class...>
  using checks = type_list<equal<rows_of<V>, rows_of<K>>, equal<cols_of<V>, cols_of<K>>,
                           multiple_of<cols_of<K>, the<KvHeads>>, multiple_of<cols_of<Q>, cols_of<K>>>;
  template <int, class Args>
  struct output_of;
  template <int Which, class Q, class K, class V, class... Key>
  struct output_of<Which, type_list<Q, K, V, Key...>> {
    using type = shape<rows<Q>, over<cols<Q>, over<cols<K>, KvHeads>>>;
  };
  template <int Which, class Args>
  using output_shape = typename output_of<Which, Args>::type;

  template <class T, class W>
  static attention_forward<T> problem(auto const& run, view<T> o, view<W> lse, view<T const> q, view<T const> k,
                                      view<T const> v, auto... key) {
    return {
        attention_extents_of<KvHeads, QRows, KRows>(run, q.cols, k.cols), q, k, v, o, lse, dropout_of<Keep>(key...)};
  }
  static std::size_t scratch(auto const& run, auto... operands) {
    return run.backend.attention_scratch(problem(run, operands...));
  }
  static void eval(auto const& run, auto... operands) {
    run.backend.template attention<Mask>(problem(run, operands...), run.scratch);
  }
  static constexpr auto vjp(auto dy, auto q, auto k, auto v, auto y) {
    constexpr auto g = make<attention_gradient<Mask, KvHeads, QRows, KRows, Keep>>(q, k, v, decltype(y){},
                                                                                   get_output<1>(decltype(y){}), dy);
    return grads(g, get_output<1>(g), get_output<2>(g));
  }
  static constexpr auto vjp(auto dy, auto q, auto k, auto v, auto key, auto y) {
    constexpr auto g = make<attention_gradient<Mask, KvHeads, QRows, KRows, Keep>>(
        q, k, v, decltype(y){}, get_output<1>(decltype(y){}), dy, key);
    return grads(g, get_output<1>(g), get_output<2>(g), none{});
  }
};

/// Buffers 0, 1, 2: the gradients of q, k and v.
template <class Mask, class KvHeads, class QRows, class KRows, class Keep>
struct attention_gradient : operation {
  static constexpr bool needs_scratch = true;
  static constexpr bool differentiable = false;
  static constexpr int outputs = 3;
  static constexpr bool optional_outputs = true;
  template <class Q, class...>
  using shape_of = shape<rows<Q>, cols<Q>>;
  template <class...>
  static constexpr kind kind_of = kind::real;
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

  template <class T, class W>
  static attention_backward<T> problem(auto const& run, view<T> d_q, view<T> d_k, view<T> d_v, view<T const> q,
                                       view<T const> k, view<T const> v, view<T const> o, view<W> lse,
                                       view<T const> d_o, auto... key) {
    return {attention_extents_of<KvHeads, QRows, KRows>(run, q.cols, k.cols),
            q,
            k,
            v,
            o,
            d_o,
            lse,
            d_q,
            d_k,
            d_v,
            dropout_of<Keep>(key...)};
  }
  static std::size_t scratch(auto const& run, auto... operands) {
    return run.backend.attention_gradient_scratch(problem(run, operands...));
  }
  static void eval(auto const& run, auto... operands) {
    run.backend.template attention_gradient<Mask>(problem(run, operands...), run.scratch);
  }
};

}  // namespace ops

/// o = softmax(q k^T / sqrt(d_h)) v with d_h = cols(k) / KvHeads.
///
/// q [n T, heads d_h] (MoA: n rows per token, one for each chosen expert), k and v [S, KvHeads d_h]; the result has the
/// shape of q. Head i of a row reads key/value head i KvHeads / heads. A query that sees no key gives 0.
///
/// @tparam Keep  dropout of the probabilities, `draws::keep<n, d>`; void for none
template <AttentionMask Mask, Extent KvHeads = size<1>, class Keep = void, Expr Q, Expr K, Expr V>
constexpr auto attention(Q q, K k, V v) {
  using op = ops::attention<Mask, unnamed<KvHeads>, rows<Q>, rows<K>, Keep>;
  if constexpr (std::is_void_v<Keep>) {
    return make<op>(q, k, v);
  } else {
    return make<op>(q, k, v, random_key{});
  }
}

}  // namespace headmix

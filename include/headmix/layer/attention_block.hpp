#pragma once
// SPDX-License-Identifier: MIT
// Common parts of attention layers: inputs, padding, key and value projections, and the output. A layer derives from
// the largest block that fits and adds its equations. Leaves belong to the layer in the first template argument: two
// layers of one program share none.

#include "headmix/expr/distributed/collective.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/padding.hpp"
#include "headmix/layer/options.hpp"
#include "headmix/layer/scores.hpp"

namespace headmix {

/// A layer of tokens: x [tokens, model_dim] -> y [tokens, model_dim], or [padded_tokens, model_dim] with the option
/// `padded`.
/// @tparam Layer the layer that derives from the block
/// @tparam Options the layer's option_set
template <class Layer, class Options, Index Width>
struct token_block {
  template <class Option>
  static constexpr bool has = Options::template has<Option>;
  template <class Kind>
  using option_of = typename Options::template get<Kind>;

  struct model_dim : size<Width> {};
  struct x : input<std::conditional_t<has<padded>, padded_tokens, tokens>, model_dim> {};
  struct valid_rows : row_numbers<tokens, padded_tokens> {};

  /// The valid rows of x: the tokens, [tokens, model_dim].
  static constexpr auto x_t = either<has<padded>>(gather_rows(x{}, valid_rows{}), x{});

  /// y from its per-token value: dropout, and zeros for rows of padding.
  template <Expr A>
  static constexpr auto result(A) {
    constexpr auto dropped = option_of<option::output_dropout>::drop(A{});
    return either<has<padded>>(scatter_rows(dropped, valid_rows{}), dropped);
  }
};

namespace detail {
/// The heads of a rank, where groups of heads share keys and values.
template <bool Divided, class Heads, class KvHeads>
struct division_of_heads {
  using kv_heads = KvHeads;
  using heads = Heads;
  /// Choices among all heads as choices among this rank's heads, -1 for others; and this rank's columns of a value with
  /// one column per head.
  template <Selection Chosen>
  static constexpr auto choices(Chosen index) {
    return index;
  }
  template <Expr A>
  static constexpr auto cols(A a) {
    return a;
  }
};
template <class Heads, class KvHeads>
struct division_of_heads<true, Heads, KvHeads> {
  using group = over<Heads, KvHeads>;
  using kv_heads = rank_share<KvHeads>;
  using heads = times<rank_share<KvHeads>, group>;
  template <Selection Chosen>
  static constexpr auto choices(Chosen index) {
    return share_of_choices<KvHeads, group>(index);
  }
  template <Expr A>
  static constexpr auto cols(A a) {
    return share_of_cols<KvHeads, group>(a);
  }
};
}  // namespace detail

/// An attention layer: keys and values, [key tokens, kv_heads head_dim], of x or of the input `context`; with
/// value_dim, values are of the input `values`, which has the rows of the keys' input.
/// @tparam KvHeads number of key/value heads without the option kv_heads<n>
/// @tparam Heads heads of a query row; void if they are the key/value heads
/// @tparam Initializer initial values of W_k and W_v
template <class Layer, class Options, Index Width, Index HeadDim, Extent KvHeads, class Heads = KvHeads,
          class Initializer = xavier_uniform<>>
struct attention_block : token_block<Layer, Options, Width> {
  using base = token_block<Layer, Options, Width>;
  template <class Option>
  static constexpr bool has = base::template has<Option>;
  template <class Kind>
  using option_of = typename base::template option_of<Kind>;
  static constexpr bool cross = has<option::context_dim>;

  struct head_dim : size<HeadDim> {};
  struct context_dim : size<Options::template value<option::context_dim, Width>> {};
  struct value_dim : size<Options::template value<option::value_dim, Width>> {};
  struct given {
    struct kv_heads : size<Options::template value<option::kv_heads, 1>> {};
  };
  using all_kv_heads = std::conditional_t<has<option::kv_heads>, typename given::kv_heads, KvHeads>;
  using division =
      detail::division_of_heads<has<tensor_parallel>, std::conditional_t<std::is_void_v<Heads>, all_kv_heads, Heads>,
                                all_kv_heads>;
  using kv_heads = typename division::kv_heads;
  /// The heads of this rank: all heads, or its share.
  using own_heads = typename division::heads;
  using key_dim = std::conditional_t<cross, context_dim, typename base::model_dim>;
  using key_rows = std::conditional_t<has<padded>, std::conditional_t<cross, padded_context_tokens, padded_tokens>,
                                      std::conditional_t<cross, context_tokens, tokens>>;
  /// The score options, with score maps that number E heads.
  template <Extent E>
  using scores_of = score_options<E, head_dim, Options>;
  using scores = scores_of<own_heads>;

  struct context : input<std::conditional_t<has<padded>, padded_context_tokens, context_tokens>, context_dim> {};
  struct context_valid_rows : row_numbers<context_tokens, padded_context_tokens> {};
  struct values : input<key_rows, value_dim> {};
  struct W_k : param<key_dim, times<kv_heads, head_dim>> {
    using initializer = Initializer;
  };
  struct W_v : param<std::conditional_t<has<option::value_dim>, value_dim, key_dim>, times<kv_heads, head_dim>> {
    using initializer = Initializer;
  };
  struct b_k : bias_param<times<kv_heads, head_dim>> {};
  struct b_v : bias_param<times<kv_heads, head_dim>> {};

  /// The inputs of the layer, as a base for another program with the layer's parameters.
  struct inputs {
    using x = typename base::x;
    using valid_rows = typename base::valid_rows;
    using context = typename attention_block::context;
    using context_valid_rows = typename attention_block::context_valid_rows;
    using values = typename attention_block::values;
    static constexpr bool cross = attention_block::cross;
  };

  /// The rows of keys whose last rows are the queries; void if queries and keys are the same rows, or numbered
  /// independently.
  using rows_of_keys = std::conditional_t<cross && !separate_positions<option_of<option::mask>>, context_tokens, void>;
  /// Rotary embedding of Parts heads side by side, for keys and for queries.
  template <Extent Parts, Expr A>
  static constexpr auto rotate_keys(A a) {
    return option_of<option::position>::template rotate<Parts>(a);
  }
  template <Extent Parts, Expr A>
  static constexpr auto rotate_queries(A a) {
    if constexpr (std::is_void_v<rows_of_keys>) {
      return rotate_keys<Parts>(a);
    } else {
      return option_of<option::position>::template rotate<Parts, rows_of_keys>(a);
    }
  }

  /// True if heads or experts are divided among ranks, which all have the same x.
  static constexpr bool divided = has<tensor_parallel> || has<expert_parallel>;
  /// A replicated value at the entry of a rank's own heads or experts; and the sum over ranks at their exit.
  template <bool Divided = divided, Expr A>
  static constexpr auto on_each_rank(A a) {
    return either<Divided>(replicated(a), a);
  }
  template <Expr A>
  static constexpr auto over_all_ranks(A a) {
    return either<divided>(all_sum(a), a);
  }

  /// True if b_k shifts all scores of a query alike, which changes no probability: its gradient is then 0.
  static constexpr bool softmax_hides_key_bias =
      scores::shifted_by_keys && std::is_same_v<option_of<option::position>, option::no_position>;

  // clang-format off
  static constexpr auto x_q = on_each_rank(base::x_t);                               // input of W_q
  static constexpr auto x_c = either<has<padded>>(gather_rows(context{}, context_valid_rows{}), context{});
  static constexpr auto valid_keys = either<cross>(context_valid_rows{}, typename base::valid_rows{});
  static constexpr auto x_k = on_each_rank<has<tensor_parallel>>(either<cross>(x_c, base::x_t));  // input of W_k
  static constexpr auto x_v = either<has<option::value_dim>>(on_each_rank<has<tensor_parallel>>(  // input of W_v
      either<has<padded>>(gather_rows(values{}, valid_keys), values{})), x_k);
  static constexpr auto all_k = x_k % W_k{} + when<has<key_bias>>(either<softmax_hides_key_bias>(detach(b_k{}), b_k{}));
  static constexpr auto k = rotate_keys<kv_heads>(scores::template keys<kv_heads>(all_k));                // K = X W_k
  static constexpr auto v = x_v % W_v{} + when<has<value_bias>>(b_v{});                              // V = X W_v
  // clang-format on

  /// Chosen heads as an option of attend(). Rows of heads with the same keys and scores are one list; draws of dropout
  /// are numbered by the heads of lists, so with dropout each head has its own.
  template <Selection Chosen>
  static constexpr auto rows_of(Chosen index) {
    if constexpr (scores::differ_by_head || has<option::probability_dropout>) {
      return rows_of_heads(index);
    } else {
      return rows_of_kv_heads<kv_heads>(index);
    }
  }
  /// softmax(scores) v, with mask, scores and dropout of the options; `where` is empty, or rows_of(index).
  template <class Scores = scores, Expr Q, class... Where>
  static constexpr auto attend(Q q, Where... where) {
    using dropout = typename option_of<option::probability_dropout>::keep;
    constexpr bool all_keys = has<expert_parallel>;
    return Scores::template attend<kv_heads, dropout>(q, on_each_rank<all_keys>(k), on_each_rank<all_keys>(v),
                                                      where...);
  }
};

/// A layer with heads side by side in W_q [model_dim, heads head_dim] and stacked in W_o [heads head_dim, model_dim],
/// as in multi-head attention.
template <class Layer, class Options, Index Width, Index HeadDim, Extent Heads>
struct multi_head_block : attention_block<Layer, Options, Width, HeadDim, Heads> {
  using base = attention_block<Layer, Options, Width, HeadDim, Heads>;
  template <class Option>
  static constexpr bool has = base::template has<Option>;
  using width_of_heads = times<typename base::own_heads, typename base::head_dim>;

  struct W_q : param<typename base::model_dim, width_of_heads> {};
  struct W_o : param<width_of_heads, typename base::model_dim>, attention_output {};
  struct b_q : bias_param<width_of_heads> {};
  struct b_o : bias_param<typename base::model_dim>, attention_output {};

  static constexpr auto all_q = base::x_q % W_q{} + when<has<query_bias>>(b_q{});

  /// y from the sum of the heads' results.
  template <Expr A>
  static constexpr auto result(A sum) {
    return base::result(base::over_all_ranks(sum) + when<has<output_bias>>(b_o{}));
  }
};

}  // namespace headmix

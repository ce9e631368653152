#pragma once
// SPDX-License-Identifier: MIT
// Attention as one node: o = softmax(scores) v over the keys that the mask allows, for each sequence and head. It
// equals the composed expression softmax(q % t(k) / sqrt(d_h)) % v, but scores are never stored.

#include "headmix/expr/attention_ops.hpp"
#include "headmix/expr/expert.hpp"

namespace headmix {

/// Attention heads chosen by tokens: index Int [T, K] chooses among E heads, a head at most PerToken times in a row.
/// Buffer 0 of Order lists the slots of every sequence and head, buffer 1 the offsets of these lists.
template <Expr Order, Extent Heads, Extent PerToken = size<1>>
struct head_rows {};
/// A bias that is added to the scores: B is [positions * Keys, heads], row position * Keys + s for key s of the query
/// at this position. All sequences have the same bias.
template <Expr B, Extent Keys>
struct score_bias {};

/// Option of `attention`: the heads chosen by each token, index Int [T, K], every head at most once per row.
template <Selection Chosen>
constexpr auto rows_of_heads(Chosen index) {
  constexpr auto order = sort_by_expert<rows<Chosen>>(index);
  return head_rows<std::remove_const_t<decltype(order)>, domain<Chosen>>{};
}
/// Option of `attention` whose scores do not depend on the head: as rows_of_heads, with a list for each key/value head,
/// which has the rows of all its heads in the order of tokens. Tiles of rows then have fewer tokens, which see fewer
/// keys, and read them once for all heads.
template <Extent KvHeads, Selection Chosen>
constexpr auto rows_of_kv_heads(Chosen index) {
  if constexpr (std::is_same_v<unnamed<domain<Chosen>>, unnamed<KvHeads>>) {
    return rows_of_heads(index);
  } else {
    constexpr auto order = sort_by_expert<rows<Chosen>>(group_of_choice<KvHeads>(index));
    return head_rows<std::remove_const_t<decltype(order)>, KvHeads, over<domain<Chosen>, KvHeads>>{};
  }
}
/// Option of `attention`: a bias b [Keys * Keys, heads], Keys the length of the longest sequence.
template <Extent Keys, Expr B>
constexpr score_bias<B, Keys> bias_of_scores(B) {
  return {};
}

namespace detail {

template <class What>
inline constexpr bool is_head_rows = false;
template <Expr Order, Extent Heads, Extent PerToken>
inline constexpr bool is_head_rows<head_rows<Order, Heads, PerToken>> = true;
template <class What>
inline constexpr bool lists_several_heads = false;
template <Expr Order, Extent Heads, Extent PerToken>
inline constexpr bool lists_several_heads<head_rows<Order, Heads, PerToken>> = !std::is_same_v<PerToken, size<1>>;
template <class What>
inline constexpr bool is_score_bias = false;
template <Expr B, Extent Keys>
inline constexpr bool is_score_bias<score_bias<B, Keys>> = true;
template <class What>
inline constexpr bool is_score_maps = false;
template <Extent Heads, class... M>
inline constexpr bool is_score_maps<score_maps<Heads, M...>> = true;

struct are_head_rows {
  template <class What>
  static constexpr bool value = is_head_rows<What>;
};
struct are_score_biases {
  template <class What>
  static constexpr bool value = is_score_bias<What>;
};
struct are_lists_of_maps {
  template <class What>
  static constexpr bool value = is_score_maps<What>;
};
struct are_maps {
  template <class What>
  static constexpr bool value = std::is_base_of_v<score_map, What>;
};

/// The parts of an attention and their operands, from one option of `attention`.
template <class Heads, class What>
struct part_for;
template <class Heads, Expr Order, Extent Chosen, Extent PerToken>
struct part_for<Heads, head_rows<Order, Chosen, PerToken>> {
  using parts = type_list<ops::chosen_heads<unnamed<Chosen>, unnamed<PerToken>>>;
  using operands = type_list<Order, output<1, Order>>;
};
template <class Heads, Expr B, Extent Keys>
struct part_for<Heads, score_bias<B, Keys>> {
  using parts = type_list<ops::scores_with_bias<Keys>>;
  using operands = type_list<B>;
};
template <class Heads, Extent Own, class... M>
struct part_for<Heads, score_maps<Own, M...>> {
  static_assert((ScoreMap<M> && ...),
                "headmix: a ScoreMap is an empty struct with `static constexpr auto f(auto s)`, or `f(auto s, auto "
                "heads)`, which returns an expression");
  using lowered = lowered_scores<decltype(map_score<Own, M...>(score_before{}))>;
  using parts = type_list<ops::mapped_scores<typename lowered::map>>;
  using operands = typename lowered::operands;
};
template <class Heads, Extent Own>
struct part_for<Heads, score_maps<Own>> {
  using parts = type_list<>;
  using operands = type_list<>;
};
/// Score maps that are given one by one.
template <class Heads, class... M>
struct part_for<Heads, type_list<M...>> : part_for<Heads, score_maps<Heads, M...>> {};
template <class Keep>
struct dropout_part {
  using parts = type_list<ops::probability_dropout<Keep>>;
  using operands = type_list<random_key>;
};
template <>
struct dropout_part<void> {
  using parts = type_list<>;
  using operands = type_list<>;
};

/// The number of heads.
template <Expr Q, Expr K, Extent KvHeads, class Where>
struct heads_for {
  using type = over<cols<Q>, over<cols<K>, KvHeads>>;
};
template <Expr Q, Expr K, Extent KvHeads, Expr Order, Extent Chosen, Extent PerToken, class... More>
struct heads_for<Q, K, KvHeads, type_list<head_rows<Order, Chosen, PerToken>, More...>> {
  using type = Chosen;
};

template <class What>
inline constexpr bool depends_on_heads = is_score_bias<What>;
template <Extent Own, class M, class... More>
inline constexpr bool depends_on_heads<score_maps<Own, M, More...>> =
    depends_on_head<decltype(map_score<Own, M, More...>(score_before{}))>::value;
template <class Heads, class M, class... More>
constexpr bool maps_depend_on_heads(type_list<M, More...>) {
  return depends_on_heads<score_maps<Heads, M, More...>>;
}
template <class>
constexpr bool maps_depend_on_heads(type_list<>) {
  return false;
}
/// False if lists have rows of several heads, and scores depend on the head.
template <class Where, class Heads, class Maps, class... What>
constexpr bool has_scores_of_rows() {
  if constexpr (lists_several_heads<Where>) {
    return !(depends_on_heads<What> || ...) && !detail::maps_depend_on_heads<Heads>(Maps{});
  } else {
    return true;
  }
}

/// The parts in the order of their operands, whatever the order of the options.
template <class Heads, class Keep, class Where, class Biases, class Lists, class Maps>
struct attention_parts;
template <class Heads, class Keep, class... Where, class... Bias, class... List, class Maps>
struct attention_parts<Heads, Keep, type_list<Where...>, type_list<Bias...>, type_list<List...>, Maps> {
  static_assert(sizeof...(Where) <= 1 && sizeof...(Bias) <= 1 && sizeof...(List) <= (Maps::size == 0 ? 1 : 0),
                "headmix: attention takes rows_of_heads, bias_of_scores and score_maps at most once each");
  using maps = part_for<Heads, Maps>;
  static_assert((has_scores_of_rows<Where, Heads, Maps, List..., Bias...>() && ...),
                "headmix: rows_of_kv_heads is for scores that do not depend on the head: with a bias, or score maps by "
                "head, write rows_of_heads");
  using parts =
      concat<typename dropout_part<Keep>::parts, typename part_for<Heads, Where>::parts...,
             typename part_for<Heads, Bias>::parts..., typename part_for<Heads, List>::parts..., typename maps::parts>;
  using operands = concat<typename dropout_part<Keep>::operands, typename part_for<Heads, Where>::operands...,
                          typename part_for<Heads, Bias>::operands..., typename part_for<Heads, List>::operands...,
                          typename maps::operands>;
};

template <class Variant, class KvHeads, Expr Q, Expr K, Expr V, class... Part, Expr... A>
constexpr auto make_attention(Q q, K k, V v, type_list<Part...>, type_list<A...>) {
  return make<ops::attention<ops::attention_spec<Variant, unnamed<KvHeads>, rows<Q>, rows<K>, Part...>>>(q, k, v,
                                                                                                         A{}...);
}

}  // namespace detail

/// An option of `attention`, behind q, k and v.
template <class What>
concept AttentionPart = std::is_base_of_v<score_map, What> || detail::is_head_rows<What> ||
    detail::is_score_bias<What> || detail::is_score_maps<What>;

/// o = softmax(scores) v with scores q k^T / sqrt(d_h), or those of the variant; d_h = cols(k) / KvHeads.
///
/// q [n T, heads d_h] (MoA: n rows per token, one for each chosen expert), k and v [S, KvHeads d_h]; the result has the
/// shape of q. Head i of a row reads key/value head i KvHeads / heads. A query that sees no key gives 0.
///
/// Options, in any order:
/// - `rows_of_heads(index)`, or rows_of_kv_heads: tokens choose heads. q [K T, d_h] has one row per slot (token,
///   choice); only these rows are attended;
/// - `bias_of_scores<Keys>(b)`;
/// - score maps, applied in their order and after the bias; or one `score_maps` of them.
///
/// @tparam ProbabilityDropout  dropout of the probabilities, `draws::keep<n, d>`; void for none
template <AttentionVariant Variant, Extent KvHeads = size<1>, class ProbabilityDropout = void, Expr Q, Expr K, Expr V,
          AttentionPart... What>
constexpr auto attention(Q q, K k, V v, What...) {
  using given = type_list<What...>;
  using where = detail::filter<given, detail::are_head_rows>;
  using all = detail::attention_parts<typename detail::heads_for<Q, K, KvHeads, where>::type, ProbabilityDropout, where,
                                      detail::filter<given, detail::are_score_biases>,
                                      detail::filter<given, detail::are_lists_of_maps>,
                                      detail::filter<given, detail::are_maps>>;
  return detail::make_attention<Variant, KvHeads>(q, k, v, typename all::parts{}, typename all::operands{});
}

}  // namespace headmix

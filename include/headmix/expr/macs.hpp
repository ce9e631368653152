#pragma once
// SPDX-License-Identifier: MIT
// The multiply-accumulates (MACs) of each operation, for counts of layers (count/count.hpp) and listings of programs
// (program/listing.hpp). Matrix products, products with experts and attention count; sums, softmax, norms and other
// work element by element do not.

#include <algorithm>
#include <type_traits>

#include "headmix/core/checked.hpp"
#include "headmix/expr/attention_ops.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/quantize.hpp"

namespace headmix {

namespace detail {

/// Number of pairs of a query and a key that it sees, in a sequence; if there are fewer queries than keys, the queries
/// are the last ones. Masks of the library have a closed form; of other masks the keys of every query or, unless the
/// mask is dense, all pairs are counted.
template <AttentionMask Mask>
constexpr checked visible_pairs(std::type_identity<Mask>, Index queries, Index keys) {
  checked pairs = 0;
  Index const first = first_query_position(segments{}, 0, queries, keys, separate_positions<Mask>);
  for (Index t = first; t < first + queries; ++t) {
    key_range const range = visible_keys<Mask>(t, keys);
    if constexpr (dense_mask<Mask>) {
      pairs += (std::max)(range.end - range.begin, Index{0});
    } else {
      for (Index s = range.begin; s < range.end; ++s) pairs += Mask::sees(t, s) ? 1 : 0;
    }
  }
  return pairs;
}

constexpr checked visible_pairs(std::type_identity<full>, Index queries, Index keys) { return checked(queries) * keys; }
/// 1 + ... + n: the number of keys that the queries 0 .. n - 1 of a causal mask see.
constexpr checked triangle(Index n) { return n % 2 == 0 ? checked(n / 2) * (n + 1) : checked(n) * (n / 2 + 1); }
constexpr checked visible_pairs(std::type_identity<causal>, Index queries, Index keys) {
  return triangle(keys) - triangle((std::max)(keys - queries, Index{0}));
}
template <Index Window>
constexpr checked visible_pairs(std::type_identity<sliding_window<Window>>, Index queries, Index keys) {
  auto const seen_before = [](Index t) { return triangle(t) - triangle((std::max)(t - Window, Index{0})); };
  return seen_before(keys) - seen_before((std::max)(keys - queries, Index{0}));
}

}  // namespace detail

// The cost of a node: `macs`, and `attention_macs` for the products of queries, keys and values, which a flag of counts
// leaves out. A node without either costs nothing. Declare such a function beside an operation of your own to count it;
// `sizes` answers as `run` does.

/// [R, K] % [K, C]: R K C.
template <kind K, Expr A, Expr B>
constexpr Index macs(detail::node<ops::matmul<K>, A, B>, auto const& sizes) {
  return (checked(sizes.template extent<rows<A>>()) * sizes.template extent<cols<A>>() *
          sizes.template extent<cols<B>>())
      .value;
}
/// One row times one matrix for every slot, even if it chose nothing.
template <class SlotsPerRow, class E, Expr X, Expr W, Expr... Order>
constexpr Index macs(detail::node<ops::expert_linear<SlotsPerRow, E>, X, W, Order...>, auto const& sizes) {
  return (checked(sizes.template extent<times<SlotsPerRow, rows<X>>>()) * sizes.template extent<cols<X>>() *
          sizes.template extent<cols<W>>())
      .value;
}
/// A sum over the slots of a row: one product for every slot.
template <class SlotsPerRow, class E, Expr X, Expr W, Expr... Order>
constexpr Index macs(detail::node<ops::expert_linear_combine<SlotsPerRow, E>, X, W, Order...>, auto const& sizes) {
  return (checked(sizes.template extent<rows<X>>()) * sizes.template extent<cols<X>>() *
          sizes.template extent<cols<W>>())
      .value;
}
/// Two such products.
template <class SlotsPerRow, class E, Expr X, Expr W, Expr... More>
constexpr Index macs(detail::node<ops::expert_linear_combine_pair<SlotsPerRow, E>, X, W, More...>, auto const& sizes) {
  return (checked(2) * sizes.template extent<rows<X>>() * sizes.template extent<cols<X>>() *
          sizes.template extent<cols<W>>())
      .value;
}
/// One product of a row and a column for every slot.
template <class XSlots, class GSlots, Expr X, Expr G, Expr... More>
constexpr Index macs(detail::node<ops::expert_outer<XSlots, GSlots>, X, G, More...>, auto const& sizes) {
  return (checked(sizes.template extent<times<XSlots, rows<X>>>()) * sizes.template extent<cols<X>>() *
          sizes.template extent<cols<G>>())
      .value;
}
/// One product for every slot, written to the blocks of one matrix.
template <class Blocks, class XSlots, class GSlots, Expr X, Expr G, Expr... More>
constexpr Index macs(detail::node<ops::expert_outer_blocks<Blocks, XSlots, GSlots>, X, G, More...>, auto const& sizes) {
  return macs(detail::node<ops::expert_outer<XSlots, GSlots>, X, G, More...>{}, sizes);
}
/// Packed weights: one product for every slot, of integers.
template <class SlotsPerRow, class E, class Out, Expr X, Expr W, Expr... Order>
constexpr Index macs(detail::node<ops::packed_expert_linear<SlotsPerRow, E, Out>, X, W, Order...>, auto const& sizes) {
  return (checked(sizes.template extent<times<SlotsPerRow, rows<X>>>()) * sizes.template extent<cols<X>>() *
          sizes.template extent<Out>())
      .value;
}
/// Packed weights without experts.
template <class Out, Expr X, Expr W>
constexpr Index macs(detail::node<ops::packed_linear<Out>, X, W>, auto const& sizes) {
  return (checked(sizes.template extent<rows<X>>()) * sizes.template extent<cols<X>>() * sizes.template extent<Out>())
      .value;
}
namespace detail {
/// The number of rows of q that are attended: all, or one per choice if choices are in_place.
template <class Q, class... Further>
struct attended_rows {
  using type = rows<Q>;
};
template <class Q, class... A>
struct chosen_rows : attended_rows<Q> {};
template <class Q, class Ones, class Chosen>
struct chosen_rows<Q, node<ops::from_zero, node<ops::scatter_cols<domain<Chosen>>, Ones, Chosen>>> {
  using type = times<cols<Chosen>, rows<Chosen>>;
};
template <class Q, class Group, class Groups, class Chosen>
struct chosen_rows<Q, node<ops::group_of_choice<Group, Groups>, Chosen>> : chosen_rows<Q, Chosen> {};
template <class Q, class V, class E, class Rows, class Chosen, class... More>
struct attended_rows<Q, V, node<ops::sort_by_expert<E, Rows>, Chosen>, More...> : chosen_rows<Q, Chosen> {};
}  // namespace detail
/// 2 d_h, for q k^T and p v, per score that the mask allows. A row of q holds the d_h columns of every head or, if
/// tokens choose heads, of the head of its slot.
template <class Spec, Expr Q, Expr K, Expr... Further>
constexpr Index attention_macs(detail::node<ops::attention<Spec>, Q, K, Further...>, auto const& sizes) {
  using attended = typename detail::attended_rows<Q, Further...>::type;
  segments const queries = sizes.template segments_of<rows<Q>>(), keys = sizes.template segments_of<rows<K>>();
  Index const rows_per_token = queries.rows == 0 ? 0 : sizes.template extent<attended>() / queries.rows;
  return (checked(2) * queries.count *
          detail::visible_pairs(std::type_identity<typename Spec::mask>{}, queries.length(0), keys.length(0)) *
          rows_per_token * sizes.template extent<cols<Q>>())
      .value;
}
/// 5 d_h per score: q k^T is computed again, and d_q, d_k, d_v and the gradient of p are one product each.
template <class Spec, Expr Q, Expr K, Expr V, Expr O, Expr Lse, Expr P, Expr DO, Expr... Further>
constexpr Index attention_macs(detail::node<ops::attention_gradient<Spec>, Q, K, V, O, Lse, P, DO, Further...>,
                               auto const& sizes) {
  return (checked(5) * attention_macs(detail::node<ops::attention<Spec>, Q, K, V, Further...>{}, sizes)).value / 2;
}

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// The form of a layer that a decoder runs: the same equations over the new tokens alone, with a cache for earlier ones.

#include "headmix/decode/cached.hpp"
#include "headmix/expr/capacity.hpp"
#include "headmix/expr/layer_policy.hpp"
#include "headmix/expr/repeat.hpp"
#include "headmix/program/module/leaves.hpp"

namespace headmix {

namespace detail {

/// The repetition of a value, or void: that of the nearest leaf or edge below it.
template <class E>
struct repetition_around {
  using type = void;
};
template <class E>
using repetition_of_value = typename repetition_around<E>::type;
template <class Args>
struct first_repetition {
  using type = void;
};
template <class H, class... T>
struct first_repetition<type_list<H, T...>> {
  using type = typename std::conditional_t<std::is_void_v<repetition_of_value<H>>, first_repetition<type_list<T...>>,
                                           repetition_around<H>>::type;
};
template <RepeatedLeaf L>
struct repetition_around<L> {
  using type = typename L::repeated_by;
};
template <Expr E>
requires(!Leaf<E> && E::form_of != form::scalar_constant) struct repetition_around<E>
    : first_repetition<typename E::args> {
};
template <class R, repeat_edge Edge, class A>
struct repetition_around<node<ops::at_edge<R, Edge>, A>> {
  using type = std::conditional_t<Edge == repeat_edge::begin, R, void>;
};

template <class Leaf, class R>
struct leaf_of_repetition {
  using type = repeated_leaf<Leaf, R>;
};
template <class Leaf>
struct leaf_of_repetition<Leaf, void> {
  using type = Leaf;
};

/// Values that depend on earlier tokens.
template <class E>
inline constexpr bool looks_back = false;
template <class Spec, class... A>
inline constexpr bool looks_back<node<ops::attention<Spec>, A...>> =
    !is_multiple_of<typename Spec::q_rows, context_tokens>;
template <class Window, class Rows, class A>
inline constexpr bool looks_back<node<ops::window_mean<Window, Rows, false, false>, A>> = true;
struct that_look_back {
  template <class E>
  static constexpr bool value = looks_back<E>;
};
/// Values of a token that depend on more than itself and earlier tokens.
template <class E>
inline constexpr bool looks_at_others = false;
template <class Rows, class... A>
inline constexpr bool looks_at_others<node<ops::sequence_numbers<Rows>, A...>> = true;
template <class Limit, class C, class... A>
inline constexpr bool looks_at_others<node<ops::within_capacity<Limit, C>, A...>> = true;
struct that_look_at_others {
  template <class E>
  static constexpr bool value = looks_at_others<E>;
};

/// Replaces values that depend on earlier tokens. `Cached` is the list of these values, which numbers them.
template <class Cached>
struct incremental_leaves {
  template <class P>
  using of = P;
  template <class Op>
  using operation = Op;
  /// The cache memory of value E.
  template <class E, int Which, Extent Cols, Extent Parts, class Positions = token_positions>
  using cache =
      typename leaf_of_repetition<cache_of_positions<2 * position_in<Cached, E>::value + Which, Cols, Parts, Positions>,
                                  repetition_of_value<E>>::type;
};

/// The spec without dropout of probabilities, since inference has none.
template <class Spec, class Further>
struct without_dropout {
  using spec = Spec;
  using further = Further;
};
template <class V, class KvHeads, class Q, class K, class Keep, class... Part, class Key, class... A>
struct without_dropout<ops::attention_spec<V, KvHeads, Q, K, ops::probability_dropout<Keep>, Part...>,
                       type_list<Key, A...>> {
  using spec = ops::attention_spec<V, KvHeads, Q, K, Part...>;
  using further = type_list<A...>;
};

/// Attention over cached tokens or over a cached context: the operation, and its operands behind the caches.
template <class KRows, class Spec>
struct cached_form {
  static_assert(std::is_same_v<KRows, tokens>,
                "headmix: a decoder takes attention over the tokens themselves, or over a context");
  using positions = token_positions;
  using operation = ops::cached_attention<Spec>;
  using tables = type_list<cache_page_table>;
};
template <class Spec>
struct cached_form<context_tokens, Spec> {
  static_assert(separate_positions<typename Spec::mask>,
                "headmix: a decoder's context takes a mask with separate_positions, as full: the positions of other "
                "masks depend on tokens to come");
  using positions = context_positions;
  using operation = ops::cached_context_attention<Spec>;
  using tables = type_list<context_page_table, context_lengths>;
};
template <class Cached, class Spec, class Q, class K, class V, class... A>
requires(looks_back<node<ops::attention<Spec>, Q, K, V, A...>>)  //
    struct rewritten<incremental_leaves<Cached>, node<ops::attention<Spec>, Q, K, V, A...>> {
  using leaves = incremental_leaves<Cached>;
  using kept = without_dropout<Spec, type_list<A...>>;
  using form = cached_form<rows<K>, typename kept::spec>;
  template <int Which>
  using cache = typename leaves::template cache<node<ops::attention<Spec>, Q, K, V, A...>, Which, cols<K>,
                                                typename Spec::kv_heads, typename form::positions>;
  template <class... Table, class... F>
  static auto with(type_list<Table...>, type_list<F...>)
      -> node<typename form::operation, rewritten_as<leaves, Q>, rewritten_as<leaves, K>, rewritten_as<leaves, V>,
              cache<0>, cache<1>, Table..., rewritten_as<leaves, F>...>;
  using type = decltype(with(typename form::tables{}, typename kept::further{}));
};
template <class Cached, class Window, class A>
struct rewritten<incremental_leaves<Cached>, node<ops::window_mean<Window, tokens, false, false>, A>> {
  using leaves = incremental_leaves<Cached>;
  using E = node<ops::window_mean<Window, tokens, false, false>, A>;
  static constexpr bool all = Window::value == all_before::value;
  using type =
      node<ops::cached_window_mean<Window>, rewritten_as<leaves, A>,
           typename leaves::template cache<E, 0, times<size<all ? 2 : 1>, cols<A>>, size<1>>, cache_page_table>;
};

}  // namespace detail

namespace detail {
template <class L>
struct context_in {};
template <class L>
requires requires { typename L::context; }
struct context_in<L> {
  using context = typename L::context;  ///< the second input of the layer
};
}  // namespace detail

/// Layer L for a decoder: y of the new tokens of each sequence, [tokens, d], equals their rows of the layer's y over
/// the whole sequences, to rounding. For layers and networks whose tokens see only themselves, earlier ones and a
/// context: attention with a mask that hides later positions, and means over the positions so far. Parameters are those
/// of L.
template <LayerPolicy L>
struct incremental : detail::context_in<L> {
  using layer = L;          ///< the original layer
  using x = typename L::x;  ///< the input of the layer
  /// The layer's result without gradients.
  using result = std::remove_cvref_t<decltype(detail::result_of<L, inference>())>;
  /// All values below the result.
  using values = detail::nodes_of<roots<result>>;
  static_assert(std::is_same_v<rows<x>, tokens>,
                "headmix: a decoder takes rows of tokens; the layer must not be `padded`");
  static_assert(
      detail::filter<values, detail::that_look_at_others>::size == 0,
      "headmix: a decoder's tokens see themselves and earlier ones. This layer has a mean over whole sequences "
      "(of Mae: give it pool::prefix or pool::window<n>), a choice for each sequence, or a capacity of experts, "
      "which depends on all tokens of the batch (decode the layer without it: its parameters are the same)");
  /// The values that depend on earlier tokens.
  using cached = detail::filter<values, detail::that_look_back>;
  /// The replacements of these values.
  using leaves = detail::incremental_leaves<cached>;

  /// The layer's result for the new tokens.
  static constexpr auto y = detail::rewritten_as<leaves, result>{};
  using losses = type_list<>;
  using observed = typename detail::all_rewritten<leaves, typename L::observed>::type;
};

}  // namespace headmix

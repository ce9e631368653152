#pragma once
// SPDX-License-Identifier: MIT
// A layer or network with tokens divided among ranks: each rank has its own sequences and all parameters. Sums of the
// layer over tokens, such as router losses, run over the tokens of all ranks; everything else is unchanged. Gradients
// of parameters are those of a rank's own tokens: the training adds them over ranks (distributed/gradients.hpp).

#include <algorithm>
#include <vector>

#include "headmix/expr/capacity.hpp"
#include "headmix/expr/distributed/collective.hpp"
#include "headmix/expr/layer_policy.hpp"
#include "headmix/expr/reduce.hpp"
#include "headmix/expr/rewrite.hpp"

namespace headmix {

namespace ops {

/// within_capacity for the rows of all ranks together, in the order of the ranks.
template <class Limit, class C, class Rows>
struct within_capacity_of_ranks : within_capacity<Limit, C> {
  static constexpr bool needs_scratch = true;
  template <class Chosen, class Perm, class Offsets>
  using checks = type_list<at_most<extent_value<size<0>>, extent_value<C>>,
                           at_most<rows_of<Chosen>, extent_value<over_ranks<Rows>>>>;
  static std::size_t scratch(auto const& run, view<Int>, view<Int const> index, auto, view<Int const> offsets) {
    auto const each = checked(index.cols) * (offsets.cols - 1);
    return checked_bytes((checked(run.template extent<rank_count>()) + 1) * each, sizeof(Int));
  }
  static void eval(auto const& run, view<Int> y, view<Int const> index, auto, view<Int const> offsets) {
    static_assert(std::remove_cvref_t<decltype(run.backend)>::host_memory,
                  "headmix: capacities over ranks need a backend whose memory the host can read");
    Index const here = run.template extent<rank_count>(), experts = offsets.cols - 1, each = index.cols * experts;
    Int* const own = reinterpret_cast<Int*>(run.scratch.data());
    Int* const all = own + each;
    std::fill_n(own, each, Int{0});
    for (Index i = 0; i < index.rows; ++i) {
      for (Index j = 0; j < index.cols; ++j) {
        if (index(i, j) >= 0) ++own[j * experts + index(i, j)];
      }
    }
    Index rank = 0;
    if constexpr (HasCommunicator<std::remove_cvref_t<decltype(run.backend)>>) {
      rank = run.backend.communicator().rank();
      run.backend.communicator().all_gather(all, own, std::vector<Index>(static_cast<std::size_t>(here), each));
    } else {
      std::copy_n(own, each, all);
    }
    // Choices of all ranks before the first one of this rank: all first choices precede all second choices.
    for (Index e = 0; e < experts; ++e) {
      Int before = 0;
      for (Index j = 0; j < index.cols; ++j) {
        for (Index r = 0; r < here; ++r) {
          if (r == rank) own[j * experts + e] = before;
          before += all[r * each + j * experts + e];
        }
      }
    }
    Index const most =
        within_capacity<Limit, C>::most(run, run.template extent<over_ranks<Rows>>(), index.cols, experts);
    for (Index i = 0; i < index.rows; ++i) {
      for (Index j = 0; j < index.cols; ++j) {
        Int const e = index(i, j);
        y(i, j) = e >= 0 && own[j * experts + e]++ < most ? e : Int{-1};
      }
    }
  }
};

}  // namespace ops

namespace detail {

/// True for an extent that counts tokens or sequences, which differ between ranks.
template <class Sizes>
inline constexpr bool counts_tokens =
    contains<Sizes, tokens> || contains<Sizes, context_tokens> || contains<Sizes, sequences>;
template <class X>
using over_ranks_if_tokens = std::conditional_t<counts_tokens<named_sizes<X>>, over_ranks<X>, X>;

/// Value with tokens divided among ranks.
template <class Value>
struct of_all_tokens {
  using type = Value;
};
template <class Value>
using of_all_tokens_t = typename of_all_tokens<Value>::type;

template <class X>
struct of_all_tokens<value_of<X>> {
  using type = value_of<over_ranks_if_tokens<X>>;
};
template <class X>
struct of_all_tokens<at_least_one<X>> {
  using type = at_least_one<over_ranks_if_tokens<X>>;
};
template <class X>
struct of_all_tokens<degrees_of_freedom<X>> {
  using type = degrees_of_freedom<over_ranks_if_tokens<X>>;
};
template <class Op, class... A>
struct of_all_tokens<node<Op, A...>> {
  using type = node<Op, of_all_tokens_t<A>...>;
};
template <class A>
struct of_all_tokens<node<ops::col_sum, A>> {
  using sum = node<ops::col_sum, of_all_tokens_t<A>>;
  using type = std::conditional_t<counts_tokens<named_sizes<rows<A>>>, node<ops::all_sum, sum>, sum>;
};
template <class Limit, class C, class Chosen, class... Order>
struct of_all_tokens<node<ops::within_capacity<Limit, C>, Chosen, Order...>> {
  using type =
      node<ops::within_capacity_of_ranks<Limit, C, rows<Chosen>>, of_all_tokens_t<Chosen>, of_all_tokens_t<Order>...>;
};
template <int Which, class Node>
struct of_all_tokens<output<Which, Node>> {
  using type = output<Which, of_all_tokens_t<Node>>;
};
template <class Value>
struct let_of_all_tokens : let<of_all_tokens_t<typename Value::init>> {};
template <Expr Value>
requires(Value::form_of == form::let) struct of_all_tokens<Value> {
  using type = let_of_all_tokens<Value>;
};
template <class List>
struct all_of_all_tokens;
template <class... Value>
struct all_of_all_tokens<type_list<Value...>> {
  using type = type_list<of_all_tokens_t<Value>...>;
};

template <class L>
struct inference_of_all_tokens {};
template <class L>
requires requires { L::y_inference; }
struct inference_of_all_tokens<L> {
  /// The layer's y_inference with tokens divided among ranks.
  static constexpr auto y_inference = of_all_tokens_t<std::remove_cvref_t<decltype(L::y_inference)>>{};
};

}  // namespace detail

/// Layer L with rows of x and y divided among ranks: for the same dy and weights of losses, the ranks together compute
/// the results of one process over all rows, in the order of the ranks. Sequences are not divided. Each rank draws its
/// own noise and dropout; after `set_randomness(randomness(seed, step, 0, first_token))`, with the number of the rank's
/// first token in the whole batch, the ranks draw the numbers of one process.
template <LayerPolicy L>
struct DataParallel : L, detail::inference_of_all_tokens<L> {
  /// Ranks have different tokens.
  static constexpr bool divides_tokens = true;
  static constexpr auto y = detail::of_all_tokens_t<std::remove_cvref_t<decltype(L::y)>>{};
  using losses = typename detail::all_of_all_tokens<typename L::losses>::type;
  using observed = typename detail::all_of_all_tokens<typename L::observed>::type;
};

}  // namespace headmix

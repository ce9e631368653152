#pragma once
// SPDX-License-Identifier: MIT
// The gate of MAE (Peng et al. 2020, "A Mixture of h - 1 Heads is Better than h Heads"): a network with one hidden
// layer weights the experts by the mean of the inputs.

#include "headmix/expr/linear.hpp"
#include "headmix/expr/options.hpp"
#include "headmix/expr/padding.hpp"
#include "headmix/expr/sequence.hpp"
#include "headmix/expr/softmax.hpp"

namespace headmix {

/// Pooling of the gate's input: `mean(x)`, and the gates as per-token gates, `of_tokens(gate)`. A custom pool derives
/// from `pool::policy`.
namespace pool {
struct policy : option_kind {
  static constexpr char const *syntax = "pool::all, pool::prefix, pool::window<n>",
                              *meaning = "what the gate sees: the sequence, the positions so far, the latest n",
                              *without = "full: pool::all; causal, sliding_window<n>: pool::prefix";
};
/// All positions of the sequence, with one gate per sequence: not for a causal model, whose first positions would see
/// the last.
struct all : policy {
  static constexpr bool per_sequence = true;
  template <Expr X>
  static constexpr auto mean(X x) {
    return sequence_mean(x);
  }
  template <Expr G>
  static constexpr auto of_tokens(G gate) {
    return of_sequence<tokens>(gate);
  }
};
/// Base of pools with a gate for every position.
struct by_position : policy {
  static constexpr bool per_sequence = false;
  template <Expr G>
  static constexpr auto of_tokens(G gate) {
    return gate;
  }
};
/// The positions so far; every position has its own gate.
struct prefix : by_position {
  template <Expr X>
  static constexpr auto mean(X x) {
    return window_mean<all_before>(x);
  }
};
/// The latest Length positions (or those so far), of padded sequences the valid ones among the latest Length rows;
/// every position has its own gate.
/// @tparam Length at least 1, or `dynamic`: then the size is window<dynamic>::Positions
template <Index Length>
struct window : by_position {
  static_assert(Length == dynamic || Length >= 1, "headmix: a window holds at least the position itself");
  struct Positions : size<Length> {};
  template <Expr X>
  static constexpr auto mean(X x) {
    return window_mean<Positions>(x);
  }
  /// The window mean over the valid rows of a padded sequence.
  template <Expr X, Expr ValidRows>
  requires(detail::is_row_numbers<ValidRows>) static constexpr auto mean(
      detail::node<ops::gather_rows, X, ValidRows> x) {
    return window_mean<Positions>(x, ValidRows{});
  }
};
}  // namespace pool

/// route<X>: X [tokens, d] -> gate [sequences, C], or [tokens, C] where every position has its own. Parameters W_1 [d,
/// m], b_1 [m], W_2 [m, C], b_2 [C]. `by_sequence` is always per sequence, [sequences, C]: the mean over the gates of
/// its positions.
///
/// @tparam C number of experts
/// @tparam Hidden width m of the hidden layer, or `dynamic`
template <Extent C, Index Hidden, class Pool>
struct SequenceGate {
  struct hidden_dim : size<Hidden> {};
  template <Expr X>
  struct route {
    struct W_1 : router_param<cols<X>, hidden_dim> {
      using initializer = xavier_uniform<>;
    };
    struct b_1 : router_param<hidden_dim> {};
    struct W_2 : router_param<hidden_dim, C> {
      using initializer = xavier_uniform<>;
    };
    struct b_2 : router_param<C> {};

    static constexpr auto hidden = tanh(round_to_storage(Pool::mean(X{})) % W_1{} + b_1{});
    static constexpr auto gate = softmax(upcast(hidden % W_2{}) + b_2{});

    /// The gate of each sequence, [sequences, C].
    static constexpr auto by_sequence() {
      if constexpr (Pool::per_sequence) {
        return gate;
      } else {
        return sequence_mean(gate);
      }
    }
  };
};

}  // namespace headmix

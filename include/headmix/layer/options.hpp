#pragma once
// SPDX-License-Identifier: MIT
// The options of attention layers, each with its kind: see expr/options.hpp. Options of scores are in layer/scores.hpp.

#include "headmix/contract/mask.hpp"
#include "headmix/expr/options.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/expr/rotary.hpp"

namespace headmix {

/// Biases of the projections, one per expert; initially zero.
struct query_bias : option_kind {
  static constexpr char const *syntax = "query_bias", *meaning = "adds b_q to the queries", *without = "none";
};
struct key_bias : option_kind {
  static constexpr char const *syntax = "key_bias", *meaning = "adds b_k to the keys", *without = "none";
};
struct value_bias : option_kind {
  static constexpr char const *syntax = "value_bias", *meaning = "adds b_v to the values", *without = "none";
};
struct output_bias : option_kind {
  static constexpr char const *syntax = "output_bias", *meaning = "adds b_o to the result", *without = "none";
};

/// The input has rows of padding. The layer reads the rows that its leaf `valid_rows` names (of the context:
/// `context_valid_rows`) and returns zeros for the others; see the class Padding. Positions count valid rows.
struct padded : option_kind {
  static constexpr char const *syntax = "padded", *meaning = "x is [padded_tokens, model_dim]; only valid rows count",
                              *without = "every row is a token";
};

/// The layer on several ranks that all have the same x and y (contract/communicator.hpp). Heads are divided among the
/// ranks, each with its columns of W_q, W_k and W_v and its rows of W_o: one sum over the ranks for y, one for the
/// gradient of x, and one for the gradient of the heads' weights, if there are any.
struct tensor_parallel : option_kind {
  static constexpr char const *syntax = "tensor_parallel", *meaning = "heads are divided among ranks",
                              *without = "every rank has all heads";
};
/// The layer on several ranks with experts divided among them. For attention experts, all ranks have the same x and y;
/// for feed-forward experts each rank has its own tokens, which are sent to the experts' ranks and back.
struct expert_parallel : option_kind {
  static constexpr char const *syntax = "expert_parallel", *meaning = "experts are divided among ranks",
                              *without = "every rank has all experts";
};

/// With expert_parallel of feed-forward experts: rows are exchanged in two parts, so that one part is in transit while
/// experts compute on the other. Useful if an exchange takes about as long as the experts' products.
struct overlapped_exchange : option_kind {
  static constexpr char const *syntax = "overlapped_exchange",
                              *meaning = "half of the choices are exchanged while experts work on the others",
                              *without = "one exchange of all";
};

namespace option {

struct mask : option_kind {
  using standard = full;
  template <class Option>
  static constexpr bool accepts = AttentionMask<Option>;
  static constexpr char const *syntax = "causal, sliding_window<n>, or a struct with sees(t, s)",
                              *meaning = "which keys a query sees", *without = "full: all of them";
};
struct kv_heads : option_kind {
  static constexpr char const *syntax = "kv_heads<n>", *meaning = "number of key/value heads",
                              *without = "1 in Moa, else as many as heads";
};
struct context_dim : option_kind {
  static constexpr char const *syntax = "context_dim<n>",
                              *meaning =
                                  "cross-attention: keys and values are made from a second input `context` of "
                                  "this width (or `dynamic`)",
                              *without = "self-attention";
};
struct value_dim : option_kind {
  static constexpr char const *syntax = "value_dim<n>",
                              *meaning =
                                  "values are made from a further input `values` of this width (or `dynamic`), with "
                                  "the rows of the keys' input",
                              *without = "keys and values have one input";
};
struct no_position;
struct position : option_kind {
  using standard = no_position;
  static constexpr char const *syntax = "rope<theta>", *meaning = "rotary embedding of queries and keys",
                              *without = "no positions but those of the mask";
};
struct no_probability_dropout;
struct probability_dropout : option_kind {
  using standard = no_probability_dropout;
  static constexpr char const *syntax = "probability_dropout<n, d>",
                              *meaning = "dropout of the attention's probabilities at the rate n / d",
                              *without = "none";
};
struct no_output_dropout;
struct output_dropout : option_kind {
  using standard = no_output_dropout;
  static constexpr char const *syntax = "output_dropout<n, d>", *meaning = "dropout of y at the rate n / d",
                              *without = "none";
};

}  // namespace option

/// Number of key/value heads.
template <Index Count>
struct kv_heads : option::kv_heads {
  static constexpr Index value = Count;
};

/// Cross-attention: keys and values are projections of a second input `context` of this width (or `dynamic`).
template <Index Width>
struct context_dim : option::context_dim {
  static constexpr Index value = Width;
};

/// Values are projections of a further input `values` of this width (or `dynamic`), a row for each row of the keys'
/// input: x, or `context`.
template <Index Width>
struct value_dim : option::value_dim {
  static constexpr Index value = Width;
};

/// Rotary embedding of queries and keys with theta = Num / Den > 0 (see rotary), e.g. of Llama 3.1:
/// `rope<500'000, 1, llama3_frequencies<8, 8192>>`.
/// @tparam Form  forms: partial_rotary, interleaved_pairs, llama3_frequencies
template <Index Num = 10'000, Index Den = 1, class... Form>
struct rope : option::position {
  static_assert(Num > 0 && Den > 0, "headmix: rope<n, d> has theta = n / d > 0; see rope<dynamic>");
  template <Extent Heads, class Keys = void, Expr A>
  static constexpr auto rotate(A a) {
    return rotary<Heads, Keys, Form...>(a, number<Num, Den>{});
  }
};

/// Rotary embedding with theta in a leaf that is bound at run time.
template <class... Form>
struct rope<dynamic, 1, Form...> : option::position {
  struct theta : positive_constant<size<1>> {};
  template <Extent Heads, class Keys = void, Expr A>
  static constexpr auto rotate(A a) {
    return rotary<Heads, Keys, Form...>(a, theta{});
  }
};

/// Dropout of the attention's probabilities at the rate Num / Den.
template <Index Num, Index Den>
struct probability_dropout : option::probability_dropout {
  using keep = draws::keep<Num, Den>;
};

/// Dropout of the layer's result at the rate Num / Den.
template <Index Num, Index Den>
struct output_dropout : option::output_dropout {
  template <Expr A>
  static constexpr auto drop(A a) {
    return dropout<Num, Den>(a);
  }
};

// Defaults of the option kinds.
namespace option {

struct no_position {
  template <Extent, class = void, Expr A>
  static constexpr auto rotate(A a) {
    return a;
  }
};
struct no_probability_dropout {
  using keep = void;
};
struct no_output_dropout {
  template <Expr A>
  static constexpr auto drop(A a) {
    return a;
  }
};

}  // namespace option

// ---- Mae ----

namespace option {
struct left_out_heads : option_kind {
  static constexpr char const *syntax = "left_out_heads<t>", *meaning = "heads that an expert leaves out",
                              *without = "1";
};
struct gate_dim : option_kind {
  static constexpr char const *syntax = "gate_dim<m>", *meaning = "width of the gate's hidden layer", *without = "256";
};
}  // namespace option

/// Experts of Mae leave out Count heads; `dynamic` with a dynamic number of heads.
template <Index Count>
struct left_out_heads : option::left_out_heads {
  static constexpr Index value = Count;
};
/// The width of the gate's hidden layer.
template <Index Width>
struct gate_dim : option::gate_dim {
  static constexpr Index value = Width;
};

// ---- MhMoe ----

/// Without the head or the merge layer, sub-tokens are parts of the input, or of the output.
struct no_head : option_kind {
  static constexpr char const *syntax = "no_head", *meaning = "sub-tokens are parts of x", *without = "x W_head";
};
struct no_merge : option_kind {
  static constexpr char const *syntax = "no_merge", *meaning = "y is the mixtures side by side", *without = "e W_merge";
};
/// Biases of the head and of the merge layer (the published code has both).
struct head_bias : option_kind {
  static constexpr char const *syntax = "head_bias", *meaning = "adds b_head [d]", *without = "none";
};
struct merge_bias : option_kind {
  static constexpr char const *syntax = "merge_bias", *meaning = "adds b_merge [d]", *without = "none";
};
/// Adds the sub-token to its mixture, before the merge (Wu et al. 2024, the original MH-MoE, equation 6).
struct subtoken_residual : option_kind {
  static constexpr char const *syntax = "subtoken_residual", *meaning = "adds the sub-token to its mixture",
                              *without = "the mixture alone";
};

namespace option {
struct no_shared_expert;
struct shared_expert : option_kind {
  using standard = no_shared_expert;
  static constexpr char const *syntax = "shared_expert<FeedForward<...>>",
                              *meaning = "adds a network on whole tokens, after the merge", *without = "none";
};
struct no_shared_expert {
  /// No network: adds nothing.
  template <Extent, Expr X>
  static constexpr absent output(X) {
    return {};
  }
};
}  // namespace option

/// A network of whole tokens, added to the layer's output: `FeedForward<...>`.
template <class Network>
struct shared_expert : option::shared_expert {
  template <Extent D>
  using network = typename Network::template shared<D>;
  template <Extent D, Expr X>
  static constexpr auto output(X x) {
    return network<D>::of(x);
  }
};

}  // namespace headmix

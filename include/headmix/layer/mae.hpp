#pragma once
// SPDX-License-Identifier: MIT
// Mixture of attentive experts (Peng et al. 2020, "A Mixture of h - 1 Heads is Better than h Heads"). An expert is
// multi-head attention without some of its heads, times h / (h - t). Experts are never computed one by one: their
// mixture weighs heads, and a single expert is attention of the heads that it keeps.

#include "headmix/core/subsets.hpp"
#include "headmix/expr/attention.hpp"
#include "headmix/expr/blocks.hpp"
#include "headmix/expr/padding.hpp"
#include "headmix/layer/options.hpp"
#include "headmix/router/sequence_gate.hpp"

namespace headmix {

namespace option {
struct left_out_heads {};
struct gate_dim {};
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

/// Which expert a sequence has, Int [sequences, 1], where it has a single one; `gate` is [sequences, C].
namespace choice {
/// One that the caller gives.
struct given {
  template <Extent C>
  struct of {
    struct expert : selection<sequences, size<1>, C> {};
    template <Expr G>
    static constexpr auto chosen(G) {
      return expert{};
    }
  };
};
/// Drawn by the gate: an F step. Without randomness the most probable one.
struct drawn {
  template <Extent>
  struct of {
    template <Expr G>
    static constexpr auto chosen(G gate) {
      return arg_top_k<size<1>>(log(gate) + draw<draws::gumbel, random_stream::expert_sampling>(gate));
    }
  };
};
/// Drawn with equal probabilities.
struct uniform {
  template <Extent>
  struct of {
    template <Expr G>
    static constexpr auto chosen(G gate) {
      return arg_top_k<size<1>>(draw<draws::gumbel, random_stream::expert_sampling>(gate));
    }
  };
};
/// The most probable one.
struct best {
  template <Extent>
  struct of {
    template <Expr G>
    static constexpr auto chosen(G gate) {
      return arg_top_k<size<1>>(gate);
    }
  };
};
}  // namespace choice

/// x [tokens, D] -> y [tokens, D], with W_q, W_k, W_v [D, h H] and W_o [h H, D] as in multi-head attention, and a gate
/// with W_1 [D, m], b_1 [m], W_2 [m, C], b_2 [C] for the C = binomial(h, t) experts. No losses.
///
/// `y` is the mixture of all experts (G steps, evaluation, joint training). The layer `expert<Choice>` has the same
/// parameters and computes one expert for each sequence (F steps, evaluation with one expert): forward and backward,
/// the heads that it leaves out cost nothing, and the gate gets no gradient. The layer `mean` is the mixture with equal
/// weights, which is multi-head attention.
///
/// Options, in any order:
/// - a mask: which keys a query sees (`full` without one; `causal`, `sliding_window<n>` or the user's own);
/// - `left_out_heads<t>`: heads that an expert leaves out (1 without it);
/// - `pool::all`, `pool::prefix` or `pool::window<n>`: what the gate sees (without one, `all`, and for `causal`, which
///   must not see later positions, `prefix`);
/// - `gate_dim<m>` (256 without it);
/// - `output_bias` [D], outside of the mixture;
/// - `context_dim<M>`, `padded`, `rope<theta>`, `probability_dropout<n, d>`, `output_dropout<n, d>` as for Moa; the
/// gate
///   sees x, not the memory, and no padding.
///
/// With dynamic heads, K = h - t is set, too, and the leaf `kept` is bound: see outside_of_subset.
///
/// @tparam Width model width d, or `dynamic`
/// @tparam Heads number of heads h, or `dynamic`
/// @tparam HeadDim head width d_h, or `dynamic`
template <Index Width, Index Heads, Index HeadDim, class... Options>
struct Mae {
  static_assert(
      ((AttentionMask<Options> ||
        is_option<Options, option::left_out_heads, option::gate_dim, pool::policy, output_bias, padded, option::memory,
                  option::position, option::probability_dropout, option::output_dropout>)&&...),
      "headmix: the options of Mae are a mask, left_out_heads<t>, pool::all, pool::prefix, pool::window<n>, "
      "gate_dim<m>, output_bias, context_dim<M>, padded, rope<theta>, probability_dropout<n, d> and "
      "output_dropout<n, d>");
  using O = attention_options<Options...>;
  using Mask = typename O::Mask;
  using Position = typename O::Position;
  using ProbabilityDropout = typename O::ProbabilityDropout;
  using Pool =
      find_option<pool::policy, std::conditional_t<std::is_same_v<Mask, causal>, pool::prefix, pool::all>, Options...>;
  static constexpr Index left_out = find_option<option::left_out_heads, left_out_heads<1>, Options...>::value;
  static constexpr bool is_dynamic = Heads == dynamic || left_out == dynamic;
  static_assert(is_dynamic || (1 <= left_out && left_out < Heads),
                "headmix: experts of Mae leave out at least one head and keep one");
  template <class Option>
  static constexpr bool has = has_option<Option, Options...>;
  static constexpr bool cross = O::cross, pads = O::pads;

  using key_tokens = std::conditional_t<cross, context_tokens, tokens>;
  struct D : size<Width> {};
  struct Q : size<Heads> {};
  struct H : size<HeadDim> {};
  struct M : size<O::template width_of_memory<Width>> {};
  struct K : size<is_dynamic ? dynamic : Heads - left_out> {};           ///< heads of an expert
  struct C : size<is_dynamic ? dynamic : binomial(Heads, left_out)> {};  ///< experts

  struct x : input<std::conditional_t<pads, padded_tokens, tokens>, D> {};
  struct valid_rows : row_numbers<tokens, padded_tokens> {};
  struct context : input<std::conditional_t<pads, padded_context_tokens, context_tokens>, M> {};
  struct context_valid_rows : row_numbers<context_tokens, padded_context_tokens> {};
  struct W_q : param<D, times<Q, H>> {};
  struct W_k : param<std::conditional_t<cross, M, D>, times<Q, H>> {};
  struct W_v : param<std::conditional_t<cross, M, D>, times<Q, H>> {};
  struct W_o : param<times<Q, H>, D> {};
  struct b_o : bias_param<D> {};
  /// The heads of each expert, ascending; those that experts leave out are in lexicographic order.
  struct heads_of_experts : selection<C, K, Q> {
    static constexpr Index element(Index expert, Index j) requires(!is_dynamic) {
      return outside_of_subset(Heads, left_out, expert, j);
    }
  };

  // clang-format off
  static constexpr auto x_q = either<pads>(gather_rows(x{}, valid_rows{}), x{});                      // real rows of queries,
  static constexpr auto x_m = either<pads>(gather_rows(context{}, context_valid_rows{}), context{});     // of the memory,
  static constexpr auto x_k = either<cross>(x_m, x_q);                                          // of keys and values

 private:
  template <Expr A>
  static constexpr auto finished(A a) {
    constexpr auto rows = O::Dropout::drop(a + when<has<output_bias>>(b_o{}));
    return either<pads>(scatter_rows(rows, valid_rows{}), rows);
  }
  /// A weight of each head for every token.
  template <Expr A>
  static constexpr auto of_tokens(A a) {
    if constexpr (Pool::per_sequence) {
      return of_sequence<tokens>(a);
    } else {
      return a;
    }
  }

 public:
  using Gate = SequenceGate<C, find_option<option::gate_dim, gate_dim<256>, Options...>::value, Pool>;
  using r = typename Gate::template route<std::remove_const_t<decltype(x_q)>>;
  static constexpr auto g = r::gate;                                                      // g(X)                    (7)
  static constexpr auto scale = value_of<Q>{} / value_of<K>{};                            // h / (h - t)
  static constexpr auto c = scale * upcast(g % upcast(one_hot(heads_of_experts{})));          // sum of g_i h / (h - t) over
                                                                                          //   the experts i with head j
  static constexpr auto q = Position::template rotate<Q>(x_q % W_q{});
  static constexpr auto k = Position::template rotate<Q>(x_k % W_k{});
  static constexpr auto v = x_k % W_v{};
  static constexpr auto o = attention<Mask, Q, ProbabilityDropout>(q, k, v);                            // Attention(q_j, k_j, v_j)
  static constexpr auto weighed = merge_rows<Q>(round_to_storage(split_rows<Q>(of_tokens(c)) * split_rows<Q>(o)));
  static constexpr auto y = finished(weighed % W_o{});                                    // sum_i g_i f_i           (6)
                                                                                          //   = sum_j c_j H_j W_j
  using losses = type_list<>;
  using observed = type_list<>;

  /// One expert for each sequence.
  template <class Choice>
  struct expert {
    using layer = Mae;
    using x = typename Mae::x;
    using kept = typename Mae::valid_rows;
    using memory = typename Mae::context;
    using context_valid_rows = typename Mae::context_valid_rows;
    using of = typename Choice::template of<C>;
    static constexpr bool cross = Mae::cross;

    static constexpr auto i = of::chosen(r::by_sequence());                               // one for each sequence
    static constexpr auto heads = gather_choices(heads_of_experts{}, i);
    static constexpr auto heads_q = gather_choices(heads, sequence_numbers<tokens>());
    static constexpr auto heads_k = gather_choices(heads, sequence_numbers<key_tokens>());
    static constexpr auto q = merge_rows<K>(expert_linear(x_q, column_blocks<Q>(W_q{}), heads_q));
    static constexpr auto k = merge_rows<K>(expert_linear(x_k, column_blocks<Q>(W_k{}), heads_k));
    static constexpr auto v = merge_rows<K>(expert_linear(x_k, column_blocks<Q>(W_v{}), heads_k));
    static constexpr auto o = attention<Mask, K, ProbabilityDropout>(Position::template rotate<K>(q), Position::template rotate<K>(k), v);
    static constexpr auto y = finished(expert_linear_combine(round_to_storage(scale * split_rows<K>(o)),       // f_i = h / (h - t) sum over
                                                  row_blocks<Q>(W_o{}), heads_q));        //   its j of H_j W_j      (5)
    using losses = type_list<>;
    using observed = type_list<std::remove_const_t<decltype(i)>>;
  };

  /// All experts with the same weight.
  struct mean {
    using x = typename Mae::x;
    using kept = typename Mae::valid_rows;
    using memory = typename Mae::context;
    using context_valid_rows = typename Mae::context_valid_rows;
    static constexpr bool cross = Mae::cross;
    static constexpr auto y = finished(o % W_o{});
    using losses = type_list<>;
    using observed = type_list<>;
  };
  // clang-format on
};

}  // namespace headmix

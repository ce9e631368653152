#pragma once
// SPDX-License-Identifier: MIT
// Mixture of attentive experts (Peng et al. 2020, "A Mixture of h - 1 Heads is Better than h Heads"). An expert is
// multi-head attention without some of its heads, times h / (h - t). Experts are never computed one by one: their
// mixture weights heads, and a single expert is attention of its remaining heads.

#include "headmix/core/subsets.hpp"
#include "headmix/expr/attention.hpp"
#include "headmix/expr/blocks.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/router/expert_choice.hpp"
#include "headmix/router/sequence_gate.hpp"

namespace headmix {

namespace detail {
template <class Mask>
inline constexpr bool has_default_pool = std::is_same_v<Mask, full> || std::is_same_v<Mask, causal>;
template <Index Window>
inline constexpr bool has_default_pool<sliding_window<Window>> = true;
}  // namespace detail

/// The options of Mae. The gate's input is x without padding, not the context; the output bias is added after the
/// mixture.
using mae_options =
    accepts<option::mask, option::left_out_heads, pool::policy, option::gate_dim, output_bias, option::context_dim,
            option::value_dim, padded, option::position, option::score_map, option::probability_dropout,
            option::output_dropout, tensor_parallel, excludes<tensor_parallel, option::score_map>,
            excludes<tensor_parallel, option::probability_dropout>>;

/// x [tokens, d] -> y [tokens, d], with W_q, W_k, W_v [d, h d_h] and W_o [h d_h, d] as in multi-head attention, and a
/// gate with W_1 [d, m], b_1 [m], W_2 [m, C], b_2 [C] for the C = binomial(h, t) experts. No losses.
///
/// `y` is the mixture of all experts (G steps, evaluation, joint training). The layer `expert<Choice>` has the same
/// parameters and computes one expert for each sequence (F steps, evaluation with one expert): heads that the expert
/// leaves out cost nothing forward and backward, and the gate gets no gradient. The layer `mean` is the mixture with
/// equal weights, which is multi-head attention.
///
/// With dynamic heads, the size expert_heads = h - t must be set, and the leaf `heads_of_experts` must be bound: see
/// outside_of_subset.
///
/// @tparam Width model_dim d, or `dynamic`
/// @tparam Heads number of heads h, or `dynamic`
/// @tparam HeadDim head_dim d_h, or `dynamic`
/// @tparam Options see mae_options
template <Index Width, Index Heads, Index HeadDim, class... Options>
struct Mae
    : multi_head_block<Mae<Width, Heads, HeadDim, Options...>, option_set<mae_options, Options...>, Width, HeadDim,
                       typename detail::head_count<Mae<Width, Heads, HeadDim, Options...>, Heads>::heads> {
  using block = typename Mae::multi_head_block;
  using block::x_t, block::x_k, block::x_v;
  using typename block::W_q, typename block::W_k, typename block::W_v, typename block::W_o;
  using O = option_set<mae_options, Options...>;
  using Mask = typename O::template get<option::mask>;
  /// The default pool: the gate of a position must not see later ones that the mask hides.
  using default_pool = std::conditional_t<std::is_same_v<Mask, full>, pool::all, pool::prefix>;
  using pools = typename O::template all<pool::policy>;
  using Pool = typename detail::first_or<pools, default_pool>::type;
  static_assert(pools::size > 0 || detail::has_default_pool<Mask>,
                "headmix: Mae has no default pool for a mask of your own, which may hide later rows from a query that "
                "the gate would see; add pool::prefix, pool::window<n> or pool::all");

  static constexpr Index left_out = O::template value<option::left_out_heads, 1>;
  static constexpr bool is_dynamic = Heads == dynamic || left_out == dynamic;
  static_assert(is_dynamic || (1 <= left_out && left_out < Heads),
                "headmix: experts of Mae leave out at least one head and keep one");
  using heads = typename detail::head_count<Mae, Heads>::heads;
  using own_heads = typename block::own_heads;
  struct expert_heads : size<is_dynamic ? dynamic : Heads - left_out> {};      ///< heads of an expert
  struct experts : size<is_dynamic ? dynamic : binomial(Heads, left_out)> {};  ///< C
  using key_tokens = std::conditional_t<block::cross, context_tokens, tokens>;

  /// The heads of each expert, ascending; the sets of left-out heads are in lexicographic order.
  struct heads_of_experts : selection<experts, expert_heads, heads> {
    static constexpr Index element(Index expert, Index j) requires(!is_dynamic) {
      return outside_of_subset(Heads, left_out, expert, j);
    }
  };

  /// The number of heads of an expert: at least one, and not all.
  struct kept_heads : value_of<expert_heads> {
    using requirements = type_list<at_most<extent_value<size<1>>, extent_value<expert_heads>>,
                                   less_than<extent_value<expert_heads>, extent_value<heads>>,
                                   at_most<extent_value<size<1>>, extent_value<experts>>>;
  };

  // clang-format off
  using Gate = SequenceGate<experts, O::template value<option::gate_dim, 256>, Pool>;
  using r = typename Gate::template route<std::remove_const_t<decltype(x_t)>>;
  static constexpr auto g = r::gate;                                                      // g(X)                    (7)
  static constexpr auto scale = value_of<heads>{} / kept_heads{};                         // h / (h - t)
  static constexpr auto c = scale * upcast(g % upcast(one_hot(heads_of_experts{})));      // sum of g_i h / (h - t) over
                                                                                          //   the experts i with head j
  static constexpr auto o = block::attend(                                                // Attention(q_j, k_j, v_j)
      block::template rotate_queries<own_heads>(block::all_q));
  static constexpr auto weighed = merge_rows<own_heads>(
      round_to_storage(split_rows<own_heads>(Pool::of_tokens(block::division::cols(c))) * split_rows<own_heads>(o)));
  static constexpr auto y = block::result(weighed % W_o{});                               // sum_i g_i f_i           (6)
                                                                                          //   = sum_j c_j H_j W_j
  using losses = type_list<>;
  using observed = type_list<>;

  /// One expert for each sequence.
  template <class Choice>
  struct expert : block::inputs {
    using layer = Mae;
    using of = typename Choice::template of<experts>;

    static constexpr auto i = of::chosen(r::by_sequence());                               // one for each sequence
    static constexpr auto kept = block::division::choices(gather_choices(heads_of_experts{}, i));  // its heads
    static constexpr auto heads_q = gather_choices(kept, sequence_numbers<tokens>());
    static constexpr auto heads_k = gather_choices(kept, sequence_numbers<key_tokens>());
    static constexpr auto q = expert_linear(block::x_q, column_blocks<own_heads>(W_q{}), heads_q);
    static constexpr auto k = merge_rows<expert_heads>(expert_linear(x_k, column_blocks<own_heads>(W_k{}), heads_k));
    static constexpr auto v = merge_rows<expert_heads>(expert_linear(x_v, column_blocks<own_heads>(W_v{}), heads_k));
    /// Attention(q_j, k_j, v_j), a row for each token and each head j of its expert. Score maps are by head number;
    /// with score maps, keys and values of all heads are computed.
    static constexpr auto attended() {
      if constexpr (block::template has<option::score_map>) {
        return block::attend(block::template rotate_queries<size<1>>(q), rows_of_heads(heads_q));
      } else {
        using dropout = typename O::template get<option::probability_dropout>::keep;
        return split_rows<expert_heads>(attention<Mask, expert_heads, dropout>(
            block::template rotate_queries<expert_heads>(merge_rows<expert_heads>(q)),
            block::template rotate_keys<expert_heads>(k), v));
      }
    }
    static constexpr auto o = attended();
    static constexpr auto y = block::result(expert_linear_combine(                        // f_i = h / (h - t) sum over
        round_to_storage(scale * o), row_blocks<own_heads>(W_o{}), heads_q));                 //   its j of H_j W_j      (5)
    using losses = type_list<>;
    using observed = type_list<std::remove_const_t<decltype(i)>>;
  };
  // clang-format on

  /// All experts with equal weights.
  struct mean : block::inputs {
    static constexpr auto y = block::result(o % W_o{});
    using losses = type_list<>;
    using observed = type_list<>;
  };
};

}  // namespace headmix

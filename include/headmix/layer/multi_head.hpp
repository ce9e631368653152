#pragma once
// SPDX-License-Identifier: MIT
// Multi-head attention (Vaswani et al. 2017, section 3.2.2): the dense baseline. With fewer key/value heads than heads
// it is grouped-query attention (Ainslie et al. 2023), with one key/value head multi-query attention.

#include "headmix/layer/attention_block.hpp"

namespace headmix {

/// The options of MultiHead, which Moh shares.
using multi_head_options =
    accepts<option::mask, query_bias, key_bias, value_bias, output_bias, option::kv_heads, option::context_dim,
            option::value_dim, padded, option::position, option::scores, option::relative_bias, option::score_map,
            option::probability_dropout, option::output_dropout, tensor_parallel,
            excludes<tensor_parallel, option::scores>, excludes<tensor_parallel, option::relative_bias>,
            excludes<tensor_parallel, option::score_map>, excludes<tensor_parallel, option::probability_dropout>>;

namespace detail {
/// The number of heads of a layer, a size of its own.
template <class Layer, Index Value>
struct head_count {
  struct heads : size<Value> {};
};
}  // namespace detail

/// x [tokens, d] -> y [tokens, d], with W_q [d, h d_h], W_k and W_v [d, kv_heads d_h] and W_o [h d_h, d]; the optional
/// biases are b_q [h d_h], b_k and b_v [kv_heads d_h], b_o [d]. No losses.
///
/// @tparam Width model_dim d, or `dynamic`
/// @tparam Heads number of heads h, or `dynamic`
/// @tparam HeadDim head_dim d_h, or `dynamic`; h d_h need not be d
/// @tparam Options see multi_head_options
template <Index Width, Index Heads, Index HeadDim, class... Options>
struct MultiHead
    : multi_head_block<MultiHead<Width, Heads, HeadDim, Options...>, option_set<multi_head_options, Options...>, Width,
                       HeadDim,
                       typename detail::head_count<MultiHead<Width, Heads, HeadDim, Options...>, Heads>::heads> {
  using block = typename MultiHead::multi_head_block;
  using heads = typename detail::head_count<MultiHead, Heads>::heads;
  using own_heads = typename block::own_heads;

  // clang-format off
  static constexpr auto q = block::template rotate_queries<own_heads>(
      block::scores::template queries<own_heads>(block::all_q));
  static constexpr auto o = block::attend(q);                 // head_i = softmax(q_i k_i^T / sqrt(d_h)) v_i
  static constexpr auto sum = o % typename block::W_o{};      // concat(head_1, ..., head_h) W^O                   (1)
  static constexpr auto y = block::result(sum);
  // clang-format on

  using losses = type_list<>;
  using observed = type_list<>;
};

}  // namespace headmix

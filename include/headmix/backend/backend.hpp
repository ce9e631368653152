#pragma once
// SPDX-License-Identifier: MIT
// What a backend is: one struct with these kernels. Reference (backend/reference.hpp) says what each of them means.

#include <span>

#include "headmix/expr/attention_problem.hpp"
#include "headmix/expr/mask.hpp"
#include "headmix/program/lower.hpp"

namespace headmix {

/// The kernels that every backend has. A fused kernel beyond them never defines a meaning of its own.
template <class B>
concept Backend = requires(B& b, view<typename B::scalar> y, view<typename B::scalar const> a, view<Int> selected,
                           view<accumulator_t<typename B::scalar> const> number, view<Int const> index,
                           lazy<tree_number<accumulator_t<typename B::scalar>>> tree, Index n, bool flag,
                           std::span<std::byte> scratch, attention_forward<typename B::scalar> forward,
                           attention_backward<typename B::scalar> backward, segments sequences) {
  { B::host_memory } -> std::convertible_to<bool>;
  b.map(y, tree.tree, flag);
  b.row_sum(y, tree, flag);
  b.col_sum(y, tree, flag);
  b.group_sum(y, tree, n, flag);
  b.gemm(y, a, a, flag);
  b.softmax(y, a);
  b.log_sum_exp(y, a);
  b.top_k(selected, a);
  b.gather_cols(y, a, index);
  b.scatter_cols(y, a, index);
  b.renumber(selected, index, n, n);
  b.one_hot(y, index);
  b.gather_rows(y, a, index);
  b.scatter_rows(y, a, index, flag);
  b.sequence_numbers(selected, sequences);
  b.window_mean(y, a, sequences, n, flag);
  b.sort_by_expert(selected, selected, index, sequences);
  { b.grouped_gemm_scratch(y, a, a) } -> std::same_as<std::size_t>;
  b.grouped_gemm(y, a, a, index, index, n, scratch);
  { b.grouped_outer_scratch(y, a, a) } -> std::same_as<std::size_t>;
  b.grouped_outer(y, a, a, index, index, n, n, flag, scratch);
  { b.grouped_sum_scratch(y, a, a) } -> std::same_as<std::size_t>;
  b.grouped_sum(y, a, a, index, index, n, flag, scratch);
  b.apply_capacity(selected, index, index, index, n);
  b.absmax_int8(y, a);
  b.absmean_ternary(y, a);
  { b.attention_scratch(forward) } -> std::same_as<std::size_t>;
  b.template attention<causal>(forward, scratch);
  { b.attention_gradient_scratch(backward) } -> std::same_as<std::size_t>;
  b.template attention_gradient<causal>(backward, scratch);
  { b.attention_bias_gradient_scratch(backward) } -> std::same_as<std::size_t>;
  b.template attention_bias_gradient<causal>(y, backward, scratch);
  b.rotary(y, a, number, sequences, n, flag);
};

}  // namespace headmix

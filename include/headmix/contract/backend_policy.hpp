#pragma once
// SPDX-License-Identifier: MIT
// What a backend is: one struct with the kernels of archetype::backend. The archetype says what every kernel reads,
// writes and means; Reference (backend/reference.hpp) is the same as plain loops, and decides where words do not.
// Kernels that a backend may have beyond these are in contract/optional_kernels.hpp.
//
// testing/backend_conformance.hpp runs all of them against Reference.

#include <concepts>
#include <span>

#include "headmix/contract/attention_problem.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/contract/mask.hpp"

namespace headmix {

namespace archetype {

/// Every kernel that a backend must have, declared and never defined.
///
/// Operands are views in the memory of the backend, of any strides; `y` is the output. It shares no memory with the
/// operands, unless a kernel says otherwise. A kernel overwrites its output, whatever was in it, also where it held
/// NaN; one with `accumulate` adds to it instead if that is true: y (+)= f. Extents may be 0. An element that depends on
/// a number that is not finite is what the formula makes of that; any other is as if the number were finite, however
/// the kernel forms its sums: weights of experts that were not chosen, rows of slots that chose nothing, keys that the
/// mask hides.
///
/// `wide` is accumulator_t<scalar>, the type that sums are formed in. T, A and B are `scalar` or `wide`, each by
/// itself; what a kernel takes as a view of T also occurs for Int where it says so. Views of Int choose among columns
/// or rows of another operand; -1 chooses nothing.
///
/// Kernels check nothing: a program has checked all extents. They allocate nothing, and do not throw.
template <class Scalar>
struct backend {
  using scalar = Scalar;
  using wide = accumulator_t<Scalar>;

  /// True when the host may read and write the memory that kernels work on. If it is false, a backend has the type
  /// `memory` of what it owns and the functions upload() and download(), see contract/memory.hpp.
  static constexpr bool host_memory = true;

  // ---- pointwise and sums; trees are those of contract/lowered_tree.hpp ----

  /// y (+)= tree, element by element. y is a matrix or a stack, whose rows the tree numbers through. T may be Int.
  template <class T, class Tree>
  void map(view<T> y, Tree const& tree, bool accumulate);
  /// y (+)= the sums of the rows of a: a [R, C], y [R, 1].
  template <class T, class Tree>
  void row_sum(view<T> y, lazy<Tree> const& a, bool accumulate);
  /// y (+)= the sums of the columns of a: a [R, C], y [1, C].
  template <class T, class Tree>
  void col_sum(view<T> y, lazy<Tree> const& a, bool accumulate);
  /// Row i of y (+)= the sum of rows i n .. i n + n - 1 of a: a [R n, C], y [R, C].
  template <class T, class Tree>
  void group_sum(view<T> y, lazy<Tree> const& a, Index n, bool accumulate);

  // ---- dense products and functions of rows ----

  /// y (+)= a b: a [R, K], b [K, C], y [R, C]. With K = 0 the product is 0.
  template <class T, class A, class B>
  void gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate);
  /// y_ij = exp(a_ij) / sum_j exp(a_ij): y and a [R, C]. A row of minus infinities alone gives 0; one with a NaN or
  /// plus infinity gives NaN.
  template <class T, class A>
  void softmax(view<T> y, view<A const> a);
  /// y_i = log(sum_j exp(a_ij)): a [R, C], y [R, 1]. A row of minus infinities, or of no columns, gives minus infinity;
  /// one with a NaN gives NaN.
  template <class T, class A>
  void log_sum_exp(view<T> y, view<A const> a);

  // ---- choosing ----

  /// The columns of the largest elements of each row, largest first: a [R, C], y [R, K], K <= C. Of equal elements the
  /// one further left comes first, and NaN comes behind every number.
  template <class A>
  void top_k(view<Int> y, view<A const> a);
  /// y_ik = a_{i, index_ik}, 0 where nothing was chosen: a [R, C], y and index [R, K].
  template <class T>
  void gather_cols(view<T> y, view<T const> a, view<Int const> index);
  /// y = 0, then y_{i, index_ik} += a_ik where something was chosen: y [R, C], a and index [R, K].
  template <class T>
  void scatter_cols(view<T> y, view<T const> a, view<Int const> index);
  /// y_ij = a_ij + add + i add_per_row, and -1 where a_ij is: y and a [R, K]. Where a has no data, j stands for a_ij.
  /// y may be a part of the columns of a buffer.
  void renumber(view<Int> y, view<Int const> a, Index add, Index add_per_row);
  /// y_ij = how often row i of index chose j: y [R, C], index [R, K].
  template <class T>
  void one_hot(view<T> y, view<Int const> index);
  /// Row i of y = row index_i of the table, 0 (for Int: -1) where nothing was chosen: table [V, C], index [R, 1],
  /// y [R, C]. T may be Int.
  template <class T>
  void gather_rows(view<T> y, view<T const> table, view<Int const> index);
  /// y (+)= 0, then row index_i of y += row i of a where something was chosen: a [R, C], index [R, 1], y [V, C].
  template <class T>
  void scatter_rows(view<T> y, view<T const> a, view<Int const> index, bool accumulate);

  // ---- sequences ----

  /// y_i = the number of the sequence that row i is in: y [s.rows, 1].
  void sequence_numbers(view<Int> y, segments s);
  /// y_t = the mean of a_s over the positions t - window < s <= t of its sequence. Transposed: y_s = the sum, over the
  /// t whose mean a_s is in, of a_t divided by their number of positions. y and a [s.rows, C].
  template <class T>
  void window_mean(view<T> y, view<T const> a, segments s, Index window, bool transposed);

  // ---- experts; slot r K + k is choice k of row r of an index [R, K] ----

  /// Slots grouped by sequence and, in each, by expert; ascending in each group. `s` divides the rows of index [R, K].
  /// offsets [1, s.count E + 1] says where each group begins in perm [1, R K], the last one where they all end. Behind
  /// that, the tail of perm lists the slots that chose nothing, ascending too: perm is a permutation of all slots.
  void sort_by_expert(view<Int> perm, view<Int> offsets, view<Int const> index, segments s);
  /// y_s = x_{s / slots_per_row} w_e for every slot s of expert e, 0 for a slot that chose nothing. x [S /
  /// slots_per_row, D], w [E, D, H], y [S, H]; perm [1, S] and offsets [1, E + 1] are those of sort_by_expert without
  /// sequences. `scratch` has the bytes that ..._scratch says; its content is nobody else's. A program asks before it
  /// has memory: the bytes depend on extents, strides and whether sequences have offsets, on no address.
  std::size_t grouped_gemm_scratch(view<scalar> y, view<scalar const> x, view<scalar const> w);
  void grouped_gemm(view<scalar> y, view<scalar const> x, view<scalar const> w, view<Int const> perm,
                    view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch);
  /// y_e (+)= the sum over the slots s of expert e of x_{s / x_slots}^T g_{s / g_slots}: x [S / x_slots, D],
  /// g [S / g_slots, H], y [E, D, H].
  std::size_t grouped_outer_scratch(view<scalar> y, view<scalar const> x, view<scalar const> g);
  void grouped_outer(view<scalar> y, view<scalar const> x, view<scalar const> g, view<Int const> perm,
                     view<Int const> offsets, Index x_slots, Index g_slots, bool accumulate,
                     std::span<std::byte> scratch);
  /// y_r (+)= the sum over the slots s of row r of x_s w_e, e the expert of the slot: x [S, D], w [E, D, H],
  /// y [S / slots_per_row, H].
  std::size_t grouped_sum_scratch(view<scalar> y, view<scalar const> x, view<scalar const> w);
  void grouped_sum(view<scalar> y, view<scalar const> x, view<scalar const> w, view<Int const> perm,
                   view<Int const> offsets, Index slots_per_row, bool accumulate, std::span<std::byte> scratch);
  /// y = index, but -1 for a choice before which `most` others of the same group come: y and index [R, K]. Here slot s
  /// is choice s / R of row s % R: perm [1, R K] and offsets are sort_by_expert of the transposed index, so that all
  /// first choices come before all second ones.
  void apply_capacity(view<Int> y, view<Int const> index, view<Int const> perm, view<Int const> offsets, Index most);

  // ---- quantisation (core/ternary.hpp); round to nearest, ties to even ----

  /// y_i = clamp(round(a_i s), -128, 127) / s for every row, s = 127 / max(max_j |a_ij|, 1e-5): y and a [R, C]. A NaN
  /// stays one and does not count for s; a row with an infinity becomes NaN.
  template <class T>
  void absmax_int8(view<T> y, view<T const> a);
  /// y_e = clamp(round(a_e / s), -1, 1) s for every matrix, s = max(mean |a_e|, 1e-5): y and a [E, R, C]. A matrix with a
  /// number that is not finite becomes NaN.
  template <class T>
  void absmean_ternary(view<T> y, view<T const> a);

  // ---- attention ----

  /// o = softmax(scores where the mask allows) v, and the log-sum-exp of the rows of scores: see attention_forward.
  std::size_t attention_scratch(attention_forward<scalar> const& p);
  template <AttentionMask Mask>
  void attention(attention_forward<scalar> const& p, std::span<std::byte> scratch);
  /// The gradients by q, k and v that are wanted: see attention_backward.
  template <AttentionMask Mask>
  std::size_t attention_gradient_scratch(attention_backward<scalar> const& p);
  template <AttentionMask Mask>
  void attention_gradient(attention_backward<scalar> const& p, std::span<std::byte> scratch);
  /// d_bias, of the shape of p.scores.bias: the gradient by it, summed over all sequences; 0 where no query sees the
  /// key.
  std::size_t attention_bias_gradient_scratch(attention_backward<scalar> const& p);
  template <AttentionMask Mask>
  void attention_bias_gradient(view<scalar> d_bias, attention_backward<scalar> const& p, std::span<std::byte> scratch);
  /// Rotates the pair (i, i + d / 2) of every head by the angle position theta^(-2 i / d), backwards when `inverse`:
  /// y and a [n s.rows, heads d], theta [1, 1]; n rows of a token have its position. Angles are formed in double, and
  /// become numbers of `wide` less whole turns (within_a_turn in core/math.hpp).
  void rotary(view<scalar> y, view<scalar const> a, view<wide const> theta, row_positions s, Index heads, bool inverse);
};

}  // namespace archetype

/// A backend: it has every kernel of archetype::backend.
template <class B>
concept BackendPolicy = requires(B& b, view<typename B::scalar> y, view<typename B::scalar const> a, view<Int> selected,
                                 view<accumulator_t<typename B::scalar> const> number, view<Int const> index,
                                 lazy<tree_number<accumulator_t<typename B::scalar>>> tree, Index n, bool flag,
                                 std::span<std::byte> scratch, attention_forward<typename B::scalar> forward,
                                 attention_backward<typename B::scalar> backward, segments sequences,
                                 row_positions positions) {
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
  { b.template attention_gradient_scratch<full>(backward) } -> std::same_as<std::size_t>;
  b.template attention_gradient<causal>(backward, scratch);
  { b.attention_bias_gradient_scratch(backward) } -> std::same_as<std::size_t>;
  b.template attention_bias_gradient<causal>(y, backward, scratch);
  b.rotary(y, a, number, positions, n, flag);
};

static_assert(BackendPolicy<archetype::backend<float>>,
              "headmix: archetype::backend lacks a kernel of BackendPolicy");

}  // namespace headmix

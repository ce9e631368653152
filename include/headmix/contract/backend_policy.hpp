#pragma once
// SPDX-License-Identifier: MIT
// A backend is one struct with the kernels of archetype::backend. The archetype documents operands and result of every
// kernel; Reference (backend/reference.hpp) implements them as plain loops and is the definition where the text is
// ambiguous. Optional kernels are in contract/optional_kernels.hpp.
//
// testing/backend_conformance.hpp compares every kernel of a backend with Reference.

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
/// operands, unless a kernel says otherwise. A kernel overwrites its output, even where it held NaN; with `accumulate`
/// it adds: y (+)= f. Extents may be 0. Non-finite values propagate only to elements whose formula reads them: masked
/// keys, weights of unchosen experts and rows of slots that chose nothing never contaminate others, however the kernel
/// forms its sums.
///
/// `wide` is accumulator_t<scalar>, the type of sums. T, A and B are each `scalar` or `wide`; a view of T may also be
/// of Int where the kernel says so. Views of Int index columns or rows of another operand; -1 selects nothing.
///
/// Kernels check nothing, since the program has checked all extents; they do not allocate and do not throw.
template <class Scalar>
struct backend {
  using scalar = Scalar;
  using wide = accumulator_t<Scalar>;

  /// True if the host may read and write the memory of the kernels. A backend with false has the owning type `memory`
  /// and the functions upload() and download(), see contract/memory.hpp.
  static constexpr bool host_memory = true;

  // ---- pointwise and sums; trees are documented in contract/lowered_tree.hpp ----

  /// y (+)= tree, element by element. y is a matrix or a stack; the tree numbers the rows of all its matrices. T may be
  /// Int.
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

  /// The column indices of the largest elements of each row, in descending order: a [R, C], y [R, K], K <= C. Ties are
  /// in ascending order of columns, and NaN ranks last.
  template <class A>
  void top_k(view<Int> y, view<A const> a);
  /// y_ik = a_{i, index_ik}, 0 where the index is -1: a [R, C], y and index [R, K].
  template <class T>
  void gather_cols(view<T> y, view<T const> a, view<Int const> index);
  /// y = 0, then y_{i, index_ik} += a_ik where the index is not -1: y [R, C], a and index [R, K].
  template <class T>
  void scatter_cols(view<T> y, view<T const> a, view<Int const> index);
  /// y_ij = a_ij / divide + add + i add_per_row, rounded down, and -1 where a_ij is -1: y and a [R, K]. If a has no
  /// data, a_ij is j. y may be some columns of a buffer.
  void renumber(view<Int> y, view<Int const> a, Index add, Index add_per_row, Index divide = 1);
  /// y_ij = number of times that row i of index has j: y [R, C], index [R, K].
  template <class T>
  void one_hot(view<T> y, view<Int const> index);
  /// Row i of y = row index_i of the table, 0 (for Int: -1) where the index is -1: table [V, C], index [R, 1], y [R,
  /// C]. T may be Int.
  template <class T>
  void gather_rows(view<T> y, view<T const> table, view<Int const> index);
  /// y (+)= 0, then row index_i of y += row i of a where the index is not -1: a [R, C], index [R, 1], y [V, C].
  template <class T>
  void scatter_rows(view<T> y, view<T const> a, view<Int const> index, bool accumulate);

  // ---- sequences ----

  /// y_i = the sequence number of row i: y [s.rows, 1].
  void sequence_numbers(view<Int> y, segments s);
  /// y_t = the mean of a_s over the positions t - window < s <= t of its sequence. Transposed: y_s = the sum over all t
  /// with s in the window of t of a_t / (window length of t). y and a [s.rows, C].
  template <class T>
  void window_mean(view<T> y, view<T const> a, segments s, Index window, bool transposed);

  // ---- experts; slot r K + k is choice k of row r of an index [R, K] ----

  /// Slots grouped by sequence, then by expert; ascending in each group. `s` divides the rows of index [R, K]. offsets
  /// [1, s.count E + 1] has the first element of each group in perm [1, R K], and the end of the last group. After it,
  /// perm lists the slots with index -1, also ascending: perm is a permutation of all slots.
  void sort_by_expert(view<Int> perm, view<Int> offsets, view<Int const> index, segments s);
  /// y_s = x_{s / slots_per_row} w_e for every slot s of expert e, 0 for a slot without an expert. x [S /
  /// slots_per_row, D], w [E, D, H], y [S, H]; perm [1, S] and offsets [1, E + 1] are those of sort_by_expert without
  /// sequences. `scratch` has the bytes of grouped_gemm_scratch, for exclusive use. A program asks for them before it
  /// has memory: they depend on extents, strides and whether sequences have offsets, on no address.
  std::size_t grouped_gemm_scratch(view<scalar> y, view<scalar const> x, view<scalar const> w);
  void grouped_gemm(view<scalar> y, view<scalar const> x, view<scalar const> w, view<Int const> perm,
                    view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch);
  /// y_e (+)= the sum over the slots s of expert e of x_{s / x_slots}^T g_{s / g_slots}: x [S / x_slots, D],
  /// g [S / g_slots, H], y [E, D, H].
  std::size_t grouped_outer_scratch(view<scalar> y, view<scalar const> x, view<scalar const> g);
  void grouped_outer(view<scalar> y, view<scalar const> x, view<scalar const> g, view<Int const> perm,
                     view<Int const> offsets, Index x_slots, Index g_slots, bool accumulate,
                     std::span<std::byte> scratch);
  /// y_r (+)= the sum over the slots s of row r of x_s w_e, e being the expert of the slot: x [S, D], w [E, D, H], y [S
  /// / slots_per_row, H].
  std::size_t grouped_sum_scratch(view<scalar> y, view<scalar const> x, view<scalar const> w);
  void grouped_sum(view<scalar> y, view<scalar const> x, view<scalar const> w, view<Int const> perm,
                   view<Int const> offsets, Index slots_per_row, bool accumulate, std::span<std::byte> scratch);
  /// y = index, and -1 for a choice after the first `most` of its group: y and index [R, K]. Here slot s is choice s /
  /// R of row s % R: perm [1, R K] and offsets are sort_by_expert of the transposed index, so that all first choices
  /// precede all second choices.
  void apply_capacity(view<Int> y, view<Int const> index, view<Int const> perm, view<Int const> offsets, Index most);

  // ---- quantisation (core/ternary.hpp); round to nearest, ties to even ----

  /// y_i = clamp(round(a_i s), -128, 127) / s for every row, s = 127 / max(max_j |a_ij|, 1e-5): y and a [R, C]. A NaN
  /// stays NaN and is ignored in s; a row with an infinity becomes NaN.
  template <class T>
  void absmax_int8(view<T> y, view<T const> a);
  /// y_e = clamp(round(a_e / s), -1, 1) s for every matrix, s = max(mean |a_e|, 1e-5): y and a [E, R, C]. A matrix with
  /// a non-finite element becomes NaN.
  template <class T>
  void absmean_ternary(view<T> y, view<T const> a);

  // ---- attention ----

  /// o = softmax(scores where the mask allows) v, and the log-sum-exp of the rows of scores: see attention_forward.
  std::size_t attention_scratch(attention_forward<scalar> const& p);
  template <AttentionMask Mask>
  void attention(attention_forward<scalar> const& p, std::span<std::byte> scratch);
  /// The gradients of q, k and v with non-null data: see attention_backward.
  template <AttentionMask Mask>
  std::size_t attention_gradient_scratch(attention_backward<scalar> const& p);
  template <AttentionMask Mask>
  void attention_gradient(attention_backward<scalar> const& p, std::span<std::byte> scratch);
  /// d_bias, of the shape of p.scores.bias: the gradient of the bias, summed over all sequences; 0 where no query sees
  /// the key.
  std::size_t attention_bias_gradient_scratch(attention_backward<scalar> const& p);
  template <AttentionMask Mask>
  void attention_bias_gradient(view<scalar> d_bias, attention_backward<scalar> const& p, std::span<std::byte> scratch);
  /// Rotates pairs of columns of every head by their position (struct rotation): y and a [n s.rows, heads d], theta
  /// [1, 1]; the n rows of a token have its position. Angles are computed in double, reduced to one turn (within_a_turn
  /// in core/math.hpp), and then rounded to `wide`.
  void rotary(view<scalar> y, view<scalar const> a, view<wide const> theta, row_positions s, Index heads, rotation r);
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
  b.renumber(selected, index, n, n, n);
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
  b.rotary(y, a, number, positions, n, rotation{});
};

static_assert(BackendPolicy<archetype::backend<float>>, "headmix: archetype::backend lacks a kernel of BackendPolicy");

}  // namespace headmix

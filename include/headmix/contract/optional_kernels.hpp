#pragma once
// SPDX-License-Identifier: MIT
// Optional kernels of a backend. Without one, a program runs the steps that it replaces, or forgoes its saving; none
// defines a meaning of its own. Operands as in contract/backend_policy.hpp.

#include <array>
#include <concepts>
#include <span>

#include "headmix/contract/attention_problem.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/contract/mask.hpp"
#include "headmix/contract/route_problem.hpp"
#include "headmix/contract/row_steps.hpp"

namespace headmix {

// ---- several steps in one kernel ----

/// route(r, scratch): a router's logits, probabilities, choices and their statistics, see route_problem. Replaces gemm,
/// softmax, top_k, log_sum_exp, col_sum, one_hot and sort_by_expert.
template <class B>
concept FusedRoute = requires(B& b, route_problem<typename B::scalar> r, std::span<std::byte> scratch) {
  { b.route_scratch(r) } -> std::same_as<std::size_t>;
  b.route(r, scratch);
};

/// gated_attention<Mask>(p, y, gate, scratch): attention, and in addition row i of y = gate_i row i of o. gate [R, 1],
/// y and o [R, C]; an o with null data is not written. Scratch bytes: attention_scratch(p).
///
/// gated_attention_gradient<Mask>(p, gate, d, d_o, d_gate, scratch): the gradient of gated_attention, with d [R, C] the
/// gradient of y: row i of d_o = gate_i row i of d, d_gate_i = the sum of row i of d o unless its data is null, and the
/// gradients of q, k and v of p, given d_o. d_o may alias d, and d_q may alias d_o, which are then overwritten. Scratch
/// bytes: attention_gradient_scratch<Mask>(p). p.d_o is not read.
template <class B>
concept FusedGatedAttention = requires(B& b, attention_forward<typename B::scalar> p,
                                       attention_backward<typename B::scalar> q, view<typename B::scalar> y,
                                       view<typename B::scalar const> d,
                                       view<accumulator_t<typename B::scalar> const> gate,
                                       view<accumulator_t<typename B::scalar>> d_gate, std::span<std::byte> scratch) {
  b.template gated_attention<full>(p, y, gate, scratch);
  b.template gated_attention_gradient<full>(q, gate, d, y, d_gate, scratch);
};

/// `static constexpr bool attention_gradient_in_place = true`: d_q of attention_gradient may alias d_o. Saves memory:
/// gates and their gradients then reuse their operands' buffers.
template <class B>
concept AttentionGradientInPlace = requires {
  requires B::attention_gradient_in_place;
};

/// each_row(rows, steps...): for each of `rows` rows, the steps (contract/row_steps.hpp) in order; a step may read
/// values of the same row that earlier steps have written. Replaces a kernel for each step. Rows are short, and
/// operands have `rows` rows or one.
template <class B>
concept FusedRows = requires(B& b, Index rows, view<accumulator_t<typename B::scalar>> y,
                             view<accumulator_t<typename B::scalar> const> a, view<Int const> index) {
  b.each_row(rows, row_step::gather<accumulator_t<typename B::scalar>>{y, a, index},
             row_step::softmax<accumulator_t<typename B::scalar>, accumulator_t<typename B::scalar>>{y, a});
};

/// gemm_stack(y, a, b, accumulate): y_e (+)= a b_e for every matrix e of a stack: a [R, K], b [n, K, C], y [n, R, C].
/// Replaces n calls of gemm.
template <class B>
concept StackedProducts = requires(B& b, view<typename B::scalar> y, view<typename B::scalar const> a, bool flag) {
  b.gemm_stack(y, a, a, flag);
};

/// grouped_gemm_map(y, tree, products, x, w, perm, offsets, slots_per_row, scratch): y = the tree, in which
/// tree_product<n> is grouped_gemm of x and w[n], rounded to the scalar. products[n], of y's shape, receives this
/// product unless its data is null. Replaces map and a call of grouped_gemm for each w[n].
template <class B>
concept FusedExperts = requires(B& b, view<typename B::scalar> y, std::array<view<typename B::scalar>, 2> products,
                                view<typename B::scalar const> x,
                                std::array<view<typename B::scalar const>, 2> const& w, view<Int const> perm,
                                view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch) {
  { b.grouped_gemm_map_scratch(y, tree_product<1>{}, products, x, w) } -> std::same_as<std::size_t>;
  b.grouped_gemm_map(y, tree_product<1>{}, products, x, w, perm, offsets, slots_per_row, scratch);
};

/// grouped_sum_pair(y, x, w, perm, offsets, slots_per_row, accumulate, scratch): y (+)= grouped_sum of x[0] and w[0] +
/// grouped_sum of x[1] and w[1], which have equal extents, with scratch memory for either. Replaces two calls.
template <class B>
concept SumsProductPairs = requires(B& b, view<typename B::scalar> y,
                                    std::array<view<typename B::scalar const>, 2> const& x, view<Int const> index,
                                    Index n, bool accumulate, std::span<std::byte> scratch) {
  b.grouped_sum_pair(y, x, x, index, index, n, accumulate, scratch);
};

// ---- score maps ----

namespace archetype {
/// A score map with an operand, [1, heads], that returns the score unchanged.
using lowered_map = lowered_score_map<
    type_list<score_step::operand<0>, score_step::score, score_step::number<1, 1>, score_step::number<0, 1>>,
    kind_list<kind::real>, 1, 2, 3>;
}  // namespace archetype

/// The attention kernels take problems with a score map, attention_forward<scalar, Map> and attention_backward<scalar,
/// Map>: Map::value(...) is applied to the scores, after the bias; see contract/score_steps.hpp.
///
/// attention_operand_gradient<Mask>(d, p, scratch): d.by[i], of the shape of operand i of the map, is the gradient of
/// this operand, summed over all sequences; not computed if its data is null. A program with score maps does not
/// compile over a backend without these.
template <class B>
concept MapsScores = requires(B& b, attention_forward<typename B::scalar, archetype::lowered_map> p,
                              attention_backward<typename B::scalar, archetype::lowered_map> q,
                              operand_gradients<accumulator_t<typename B::scalar>, 1> d, std::span<std::byte> scratch) {
  { b.attention_scratch(p) } -> std::same_as<std::size_t>;
  b.template attention<causal>(p, scratch);
  { b.template attention_gradient_scratch<full>(q) } -> std::same_as<std::size_t>;
  b.template attention_gradient<causal>(q, scratch);
  { b.attention_operand_gradient_scratch(q) } -> std::same_as<std::size_t>;
  b.template attention_operand_gradient<causal>(d, q, scratch);
};

// ---- kernels that keep values for others ----

/// attention_columns(p): the number of columns of each row of p.probabilities that attention() stores for the gradient,
/// which then does not recompute them; 0 for none. Without it attention stores nothing.
template <class B>
concept StoresProbabilities = requires(B& b, attention_forward<typename B::scalar> p) {
  { b.attention_columns(p) } -> std::convertible_to<Index>;
};

/// prepared_weights: a packed copy of constant weights, which grouped_gemm and grouped_sum read faster;
/// default-constructible, movable, owned by the owner of the weights. p.add(w): w is constant from now on; an earlier
/// copy of w is discarded. Both kernels take a pointer to it, or null, as their last operand; results are equal to
/// rounding.
template <class B>
concept PreparesWeights = requires(B& b, typename B::prepared_weights p, view<typename B::scalar> y,
                                   view<typename B::scalar const> a, view<Int const> index, Index n, bool accumulate,
                                   std::span<std::byte> scratch) {
  p.add(a);
  b.grouped_gemm(y, a, a, index, index, n, scratch, &p);
  b.grouped_sum(y, a, a, index, index, n, accumulate, scratch, &p);
};

// ---- decoding ----

/// The kernels of a decoder. The rows of sequence b are its positions from segments::first_position(b) on.
///
/// cached_attention<Mask>(p, cache, scratch): appends the rows of p.k and p.v to the cache, then computes attention
/// over all positions of the cache up to them. Keys may be those of a context: other sequences than the queries, with
/// lengths and earlier positions of their own, and possibly no new rows. p.lse and p.probabilities are null, there is
/// no dropout.
///
/// cached_window_mean(y, a, s, cache, pages, window): y_t = the mean of a [R, C] over the latest `window` positions of
/// the sequence, including its own. Page p is the rows [p rows, (p + 1) rows) of the cache. With C columns the cache
/// holds a; with 2 C columns the window is all positions so far, and the cache holds sums.
///
/// cache_rows: the number of rows of a page is a multiple of it.
template <class B>
concept Decodes = requires(B& b, attention_forward<typename B::scalar> p, attention_cache<typename B::scalar> cache,
                           view<typename B::scalar> y, view<typename B::scalar const> a, segments s, cache_pages pages,
                           Index window, std::span<std::byte> scratch) {
  { B::cache_rows } -> std::convertible_to<Index>;
  { b.cached_attention_scratch(p, cache) } -> std::same_as<std::size_t>;
  b.template cached_attention<causal>(p, cache, scratch);
  b.cached_window_mean(y, a, s, y, pages, window);
};

// ---- packed weights ----

/// packed_gemm(y, x, w, perm, offsets, slots_per_row, scratch): y_s = absmax_int8(x_{s / slots_per_row}) w_e for every
/// slot s of expert e, 0 for a slot without an expert; w_e are packed ternary matrices (core/ternary.hpp): w [E, 1,
/// words], x [S / slots_per_row, D], y [S, H]. If perm has no data, all slots are those of expert 0. Sums of products
/// are integers, so results are exact. A program with packed weights does not compile over a backend without this
/// kernel.
template <class B>
concept PackedGemm = requires(B& b, view<typename B::scalar> y, view<typename B::scalar const> x, view<Int const> w,
                              view<Int const> perm, view<Int const> offsets, Index slots_per_row,
                              std::span<std::byte> scratch) {
  { b.packed_gemm_scratch(y, x, w) } -> std::same_as<std::size_t>;
  b.packed_gemm(y, x, w, perm, offsets, slots_per_row, scratch);
};

// ---- functions that are no kernels of a program ----

/// begin_pass(): called before every forward and backward pass, before anything is written; throws if the backend
/// cannot run the pass.
template <class B>
concept ChecksPass = requires(B& b) {
  b.begin_pass();
};

/// for_each(n, f): calls f(i) for all i < n, in any order. Optimisers (train/) run with it.
template <class B>
concept ForEach = requires(B& b, Index n, void (*f)(Index)) {
  b.for_each(n, f);
};

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// The gradient of the bias of the scores: a task has some positions and keys, and all heads and sequences.

#include <algorithm>
#include <span>

#include "headmix/backend/cpu/attention/gradient_rows.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// Positions and keys in a task of attention_bias_gradient.
struct bias_tile {
  static constexpr Index positions = tuning::bias_positions, keys = gradient_tile::keys, size = positions * keys;
  /// Numbers of the sums over blocks of sequences: see block_terms.
  [[nodiscard]] static constexpr Index blocks_size(attention_extents const& x) {
    return x.queries.count > block_terms ? size : 0;
  }
};

/// f(n) for blocks of n rows of a head at the positions [first, last) of a sequence, described in `rows`.
template <AttentionMask M, class F>
void each_head_rows(attention_extents const& x, Index sequence, Index head, Index first, Index last, block_row* rows,
                    F f) {
  Index const keys = x.keys.length(sequence), tokens = x.queries.length(sequence), per_token = x.rows_per_token;
  Index const shift = x.first_position(sequence), begin = x.queries.begin(sequence);
  Index next = (begin + std::clamp(first - shift, Index{0}, tokens)) * per_token;
  Index const end = (begin + std::clamp(last - shift, Index{0}, tokens)) * per_token;
  Int const *slot = nullptr, *slots_end = nullptr;
  if (x.heads_are_chosen()) {
    Int const* const offsets = x.chosen.offsets + sequence * x.heads + head;
    slots_end = std::lower_bound(x.chosen.slots + offsets[0], x.chosen.slots + offsets[1], end);
    slot = std::lower_bound(x.chosen.slots + offsets[0], slots_end, next);
  }
  Index n = 0;
  auto const add = [&](Index row) {
    Index const position = row / per_token - begin + shift;
    rows[n++] = {{row, x.heads_are_chosen() ? 0 : head * x.head_dim, position, head}, visible_range<M>(position, keys)};
    if (n < gradient_tile::rows) return;
    f(n);
    n = 0;
  };
  if (x.heads_are_chosen()) {
    for (; slot != slots_end; ++slot) add(*slot);
  } else {
    for (; next < end; ++next) add(next);
  }
  if (n > 0) f(n);
}

}  // namespace detail

/// Scratch that attention_bias_gradient needs, in bytes.
template <class S, class Map>
[[nodiscard]] constexpr Index attention_bias_gradient_scratch_bytes(attention_backward<S, Map> const& a,
                                                                    Index concurrency) {
  using T = accumulator_t<S>;
  attention_extents const& x = a.extents;
  return (scratch_begins + checked(2) * scratch_bytes<T>(detail::key_panels<T>::size(x)) +
          checked(concurrency) *
              (detail::gradient_worker_bytes<detail::wide_operands<T>, T, Map>(x.head_dim) +
               scratch_bytes<T>(detail::bias_tile::size) + scratch_bytes<double>(detail::bias_tile::blocks_size(x))))
      .value;
}

/// d_bias, of the shape of a.scores.bias: the gradients of the scores, summed over the sequences in order, in blocks:
/// see block_terms.
template <AttentionMask M, class S, class Map>
void attention_bias_gradient(mask<M>, executor_ref executor, view<S> d_bias, attention_backward<S, Map> const& a,
                             std::span<std::byte> scratch) {
  using T = accumulator_t<S>;
  attention_extents const& x = a.extents;
  Index const bias_keys = a.scores.bias_keys, positions = bias_keys > 0 ? d_bias.rows / bias_keys : 0;
  scratch_cutter cut(scratch);
  detail::key_panels<T> const keys(x, cut.take<T>(detail::key_panels<T>::size(x)));
  detail::key_panels<T> const values(x, cut.take<T>(detail::key_panels<T>::size(x)));
  keys.pack(executor, a.k);
  values.pack(executor, a.v);
  std::byte* const begin = cut.position();
  using size = detail::bias_tile;
  Index const bytes = detail::gradient_worker_bytes<detail::wide_operands<T>, T, Map>(x.head_dim) +
                      scratch_bytes<T>(size::size) + scratch_bytes<double>(size::blocks_size(x));
  Index const across = (bias_keys + size::keys - 1) / size::keys;
  Index const tasks = (positions + size::positions - 1) / size::positions * across;
  for_each_task(executor, tasks, [&](Index task, Index worker) {
    Index const first = task / across * size::positions, last = (std::min)(first + size::positions, positions);
    Index const tile_begin = task % across * size::keys, tile_end = (std::min)(tile_begin + size::keys, bias_keys);
    scratch_cutter own(begin + worker * bytes);
    view<T> const sums(own.take<T>(size::size), last - first, tile_end - tile_begin);
    view<double> const blocks(own.take<double>(size::blocks_size(x)), sums.rows, sums.cols);
    detail::gradient_rows<M, S, Map> r(a, own);
    for (Index head = 0; head < x.heads; ++head) {
      detail::clear(sums);
      Index const kv_head = head / x.group();
      for (Index b = 0; b < x.queries.count; ++b) {
        if (b > 0 && b % block_terms == 0) {
          detail::add_part(blocks, sums, b > block_terms);
          detail::clear(sums);
        }
        Index const end = (std::min)(tile_end, x.keys.length(b));
        if (tile_begin >= end) continue;
        detail::each_head_rows<M>(x, b, head, first, last, r.rows, [&](Index n) {
          detail::tile_rows::span const seen = detail::tile_rows{r.rows, n}.that_see(tile_begin, end);
          if (seen.first == seen.last) return;
          r.gather(n);
          view<T> const p = r.tile(r.scores, end - tile_begin), d_s = r.tile(r.d_scores, end - tile_begin);
          view<T> const p_slopes = r.probabilities_and_slopes(p, keys, b, kv_head, tile_begin, end);
          r.score_gradients(d_s, p_slopes, values, b, kv_head, tile_begin, end);
          for (Index i = seen.first; i < seen.last; ++i) {
            detail::tile_part const part = detail::part_of_tile<T>(r.rows[i].keys, tile_begin, end);
            T* const to = sums.row(r.rows[i].at.position - first);
            for (Index j = part.begin; j < part.end; ++j) to[j] += d_s(i, j);
          }
        });
      }
      if (x.queries.count > block_terms) {
        for (Index i = 0; i < sums.rows; ++i)
          for (Index j = 0; j < sums.cols; ++j)
            sums(i, j) = static_cast<T>(blocks(i, j) + static_cast<double>(sums(i, j)));
      }
      for (Index t = first; t < last; ++t)
        detail::convert(d_bias.middle_rows(t * bias_keys + tile_begin, sums.cols).middle_cols(head, 1),
                        sums.middle_rows(t - first, 1).transposed());
    }
  });
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

#pragma once
// SPDX-License-Identifier: MIT
// Attention: which kernel runs, with which scratch memory. Kernels are in kernel/attention, without a queue; all
// decisions of the host and launches are here, decisions first.
//
// Forward: attention_warpgroups where plain_kernel_reason is null and the queue has warpgroups, with a key, unless
// heads of 128 have a score map that divides; otherwise attention_tensor where plain_kernel_reason is null;
// attention_plain for the rest, and after the others for dropout, which the device reads. With a cache:
// cached_attention_part, and a merge if there are few rows.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "headmix/backend/cuda/dispatch/plain_notice.hpp"
#include "headmix/backend/cuda/kernel/attention/attention.hpp"
#include "headmix/backend/cuda/kernel/attention/cached.hpp"
#include "headmix/backend/cuda/kernel/attention/clear.hpp"
#include "headmix/backend/cuda/kernel/attention/plain_tile.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"
#include "headmix/backend/cuda/kernel/attention/tile.hpp"
#include "headmix/backend/cuda/kernel/attention/warpgroups.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/contract/attention_problem.hpp"
#include "headmix/core/checked.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

// ---- which kernel ----

/// True if all numbers of the problem fit in an int.
[[nodiscard]] inline bool is_small(attention_extents const& x) {
  Index const per_token = x.rows_per_token * (x.heads_are_chosen() ? 1 : x.group());
  return x.queries.rows * per_token < (Index{1} << 32) / per_token && x.queries.rows * per_token < Index{1} << 30 &&
         x.keys.rows < Index{1} << 30 && x.kv_heads * x.head_dim < Index{1} << 30;
}

/// True if a head's rows can be copied 16 bytes at a time, or there are none.
template <class T>
[[nodiscard]] bool heads_are_aligned(view<T> const& a) {
  constexpr Index chunk = 16 / sizeof(T);
  if (a.data == nullptr) return true;
  return a.col_stride == 1 && a.row_stride % chunk == 0 && reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0;
}

/// The reason why tensor-core kernels do not support the problem, null if they do. They take the maximum of the
/// products, not of the scores, unless there is a score map.
template <class T, class Map, class... U>
[[nodiscard]] char const* plain_kernel_reason(attention_extents const& x, attention_scores<T, Map> const& scores,
                                              view<U> const&... operands) {
  if (x.head_dim != 64 && x.head_dim != 128) return "heads have neither 64 nor 128 columns";
  if (scores.bias.data != nullptr) return "scores have a bias";
  if (Map::identity && !(scores.scale > 0)) return "scores are not multiplied by more than 0";
  if (!is_small(x)) return "there are too many rows, or heads of a token, for numbers of 32 bits";
  return (heads_are_aligned(operands) && ...) ? nullptr : rows_not_aligned;
}

/// attention_tensor with its tuned tile.
template <AttentionMask Mask, class Map, int width>
using tuned_attention_tensor =
    attention_tensor<Mask, Map, width, tuning::sm80::attention<width>.m, tuning::sm80::attention<width>.keys,
                     tuning::sm80::attention<width>.stages>;

/// The parts of the keys, and the scratch memory of their sums.
struct cached_parts {
  static constexpr Index keys = tuning::decoding.part_keys;
  Index count;  ///< parts of a sequence of the cache's largest length

  /// The number of parts with their own blocks: all if there are few rows, otherwise 1.
  [[nodiscard]] static cached_parts split(attention_extents const& x, cache_pages const& pages) {
    return {rows(x) <= tuning::decoding.split_rows ? blocks_for(pages.positions(), keys) : 1};
  }
  /// The number of rows of all lists.
  [[nodiscard]] static Index rows(attention_extents const& x) {
    return x.queries.rows * x.rows_per_token * (x.heads_are_chosen() ? 1 : x.heads);
  }
};

// ---- scratch memory ----

/// Scratch bytes of attention.
template <class T, class Map>
[[nodiscard]] std::size_t attention_scratch_bytes(attention_forward<T, Map> const&) {
  return 0;
}

/// Scratch bytes of cached_attention, equal for all steps of a decoder.
template <class T>
[[nodiscard]] std::size_t cached_attention_scratch_bytes(attention_extents const& x, cache_pages const& pages) {
  cached_parts const parts = cached_parts::split(x, pages);
  if (parts.count == 1) return 0;
  auto const of_row = checked_bytes(checked(parts.count) * (x.head_dim + 2), sizeof(accumulator_t<T>));
  return checked_bytes(cached_parts::rows(x), 2 * sizeof(Index) + of_row);
}

// ---- launches ----

/// A gate: one number for each row, for all heads of the row.
template <class W>
[[nodiscard]] view<W const> gate_of_rows(view<W const> gate, Index heads) {
  gate.cols = heads, gate.col_stride = 0;
  return gate;
}

/// attention_tensor by warpgroups; false if they do not support the problem: the queue has none, there are no keys, or
/// heads of 128 have a map that divides, which would spill registers of a consumer.
template <AttentionMask Mask, class Queue, class Map>
bool attention_by_warpgroups(Queue& queue, attention_forward<bfloat16, Map> const& p,
                             attention_gated<bfloat16> const& gated, row_divisors const& divisors, float scale) {
  if constexpr (WarpgroupQueue<Queue>) {
    attention_extents const& x = p.extents;
    if (!queue.warpgroups() || x.keys.rows == 0 || (x.head_dim == 128 && Map::divides)) return false;
    auto const launch = [&]<int width>(std::integral_constant<int, width>) {
      using kernel = attention_warpgroups<Mask, Map, width, typename Queue::tensor_map>;
      kernel const k{p,
                     gated,
                     query_tiles(x, kernel::rows, sizeof(bfloat16)),
                     divisors,
                     scale,
                     queue.map_tensor(p.k, kernel::keys),
                     queue.map_tensor(p.v, kernel::keys)};
      queue.launch(k, k.blocks());
    };
    if (x.head_dim == 64) launch(std::integral_constant<int, 64>{});
    if constexpr (!Map::divides) {
      if (x.head_dim == 128) launch(std::integral_constant<int, 128>{});
    }
    return true;
  } else {
    return false;
  }
}

/// o = softmax(scores where the mask allows) v, and the log-sum-exp of each row unless its data is null. A row that
/// sees nothing, or is in no list, gets o = 0 and a log-sum-exp of minus infinity. With a gate also gated = gate o; an
/// o with null data is then not written.
template <AttentionMask Mask, class Queue, class T, class Map>
void attention(Queue& queue, attention_forward<T, Map> const& p, std::type_identity_t<attention_gated<T>> const& gated,
               std::span<std::byte>) {
  attention_extents const& x = p.extents;
  if (x.head_dim == 0 || x.queries.count == 0 || x.queries.rows == 0) return;
  if (x.heads_are_chosen()) {
    attention_clear<T> const clear{p.o,
                                   gated.o,
                                   p.lse,
                                   x.chosen.slots,
                                   x.chosen.offsets + x.queries.count * x.heads,
                                   x.queries.rows * x.rows_per_token,
                                   x.head_dim,
                                   x.head_dim % 8 == 0 && heads_are_aligned(p.o) && heads_are_aligned(gated.o)};
    queue.launch(clear, clear.blocks());
  }
  bool done = false;
  if constexpr (Half<T>) {
    if (char const* const why = plain_kernel_reason(x, p.scores, p.q, p.k, p.v, p.o, gated.o)) {
      notify_plain_kernel("attention", why);
    } else {
      done = true;
      row_divisors const divisors(x);
      float const scale = score_scale<float>(p.scores);
      auto const launch = [&]<class K>(K) {
        K const kernel{p, gated, query_tiles(x, K::rows, sizeof(T)), divisors, scale};
        queue.launch(kernel, kernel.blocks());
      };
      if (!attention_by_warpgroups<Mask>(queue, p, gated, divisors, scale)) {
        if (x.head_dim == 64) launch(tuned_attention_tensor<Mask, Map, 64>{});
        if (x.head_dim == 128) launch(tuned_attention_tensor<Mask, Map, 128>{});
      }
      if (p.dropout.key == nullptr) return;
    }
  }
  attention_plain<Mask, T, Map> const kernel{p, gated, query_tiles(x, plain_tile::rows, sizeof(T)),
                                             score_scale<accumulator_t<T>>(p.scores), done};
  queue.launch(kernel, kernel.blocks());
}

template <AttentionMask Mask, class Queue, class T, class Map>
void attention(Queue& queue, attention_forward<T, Map> const& p, std::span<std::byte> scratch) {
  attention<Mask>(queue, p, attention_gated<T>{}, scratch);
}

/// Appends keys and values to the cache; then o = softmax(scores where Mask allows) v over all cached positions of the
/// row's sequence.
template <AttentionMask Mask, class Queue, class T, class Map>
void cached_attention(Queue& queue, attention_forward<T, Map> const& p, attention_cache<T> const& cache,
                      std::span<std::byte> scratch) {
  using wide = accumulator_t<T>;
  attention_extents const& x = p.extents;
  if (x.head_dim == 0) return;
  queue.launch(append_to_cache<T>{x, p.k, p.v, cache}, blocks_for(p.k.rows * p.k.cols, append_to_cache<T>::threads));
  if (p.q.rows == 0) return;
  if (x.heads_are_chosen()) {
    attention_clear<T> const clear{p.o,
                                   {},
                                   {},
                                   x.chosen.slots,
                                   x.chosen.offsets + x.queries.count * x.heads,
                                   p.q.rows,
                                   x.head_dim,
                                   x.head_dim % 8 == 0 && heads_are_aligned(p.o)};
    queue.launch(clear, clear.blocks());
  }
  Index const parts = cached_parts::split(x, cache.pages).count, rows = cached_parts::rows(x);
  auto* const row_offsets = reinterpret_cast<Index*>(scratch.data());
  auto* const sums = reinterpret_cast<wide*>(row_offsets + 2 * rows);
  cached_attention_part<Mask, T, Map> const part{
      p, cache, query_tiles(x, plain_tile::rows, sizeof(T)), score_scale<wide>(p.scores), parts, sums, row_offsets};
  queue.launch(part, part.blocks());
  if (parts == 1) return;
  Int const* const end = x.heads_are_chosen() ? x.chosen.offsets + x.queries.count * x.heads : nullptr;
  queue.launch(cached_attention_merge<T>{p.o, sums, row_offsets, end, rows, parts, x.head_dim}, rows);
}

/// y_t = the mean of a over the latest `window` positions, from the cache.
template <class Queue, class T>
void cached_window_mean(Queue& queue, view<T> y, view<T const> a, segments s, view<T> cache, cache_pages pages,
                        Index window) {
  using kernel = cached_mean_kernel<T>;
  if (y.rows == 0 || y.cols == 0) return;
  queue.launch(kernel{y, a, s, cache, pages, window}, blocks_for(s.count * a.cols, kernel::threads));
}

}  // namespace headmix::cuda_kernels

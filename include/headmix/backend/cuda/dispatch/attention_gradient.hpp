#pragma once
// SPDX-License-Identifier: MIT
// The gradients of attention: which kernels run, with which scratch memory. Kernels are in kernel/attention, without a
// queue; all decisions of the host and launches are here, decisions first.
//
// Probabilities are recomputed from the log-sum-exp. One kernel owns tiles of keys and loops over the rows that see
// them (d_k, d_v), another owns tiles of rows and loops over keys (d_q): two products more than a single kernel
// takes, but no sum is shared between blocks. If there are few tiles of keys, several blocks share the rows of one
// tile, and their sums are added in order. Warpgroup kernels run where gradient_is_by_warpgroups and
// plain_kernel_reason is null; otherwise tensor kernels where it is null; attention_gradient_plain for the rest, and
// after the others for dropout, which the device reads.

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "headmix/backend/cuda/dispatch/attention.hpp"
#include "headmix/backend/cuda/dispatch/plain_notice.hpp"
#include "headmix/backend/cuda/kernel/attention/bias.hpp"
#include "headmix/backend/cuda/kernel/attention/gradient_plain.hpp"
#include "headmix/backend/cuda/kernel/attention/key_gradient.hpp"
#include "headmix/backend/cuda/kernel/attention/key_gradient_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/attention/listed_tiles.hpp"
#include "headmix/backend/cuda/kernel/attention/operands.hpp"
#include "headmix/backend/cuda/kernel/attention/parts.hpp"
#include "headmix/backend/cuda/kernel/attention/plain_tile.hpp"
#include "headmix/backend/cuda/kernel/attention/query_gradient.hpp"
#include "headmix/backend/cuda/kernel/attention/query_gradient_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/attention/statistics.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"
#include "headmix/backend/cuda/kernel/attention/tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/contract/attention_problem.hpp"
#include "headmix/core/checked.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

// ---- which kernels ----

/// The tensor-core kernels for d_k and d_v, and d_q, of heads of this width. Those with `narrow` tiles fit in the 99
/// KiB of a block on compute capability 8.6, 8.9 and 12.0.
template <AttentionMask Mask, class Map, int width, bool narrow>
struct attention_gradient_tensor {
  static constexpr tuning::sm80::key_gradient_tile key_tile = tuning::sm80::key_gradient<width, narrow>;
  static constexpr tuning::sm80::query_gradient_tile query_tile =
      tuning::sm80::query_gradient<width, narrow, !Map::identity>;
  using of_keys = attention_key_gradient_tensor<Mask, Map, width, key_tile.pairs, key_tile.rows>;
  using of_queries =
      attention_query_gradient_tensor<Mask, Map, width, query_tile.m, query_tile.keys, query_tile.groups>;
};
/// Calls f with the kernels that fit in a block of the queue's device.
template <AttentionMask Mask, class Map, int width, class Queue, class F>
auto with_gradient_kernels(Queue const& queue, F const& f) {
  using wide_tiles = attention_gradient_tensor<Mask, Map, width, false>;
  using narrow_tiles = attention_gradient_tensor<Mask, Map, width, true>;
  if constexpr (!std::is_same_v<typename wide_tiles::of_keys, typename narrow_tiles::of_keys>) {
    if (queue.shared_bytes() < (std::max)(wide_tiles::of_keys::shared_bytes, wide_tiles::of_queries::shared_bytes)) {
      return f(narrow_tiles{});
    }
  }
  return f(wide_tiles{});
}

/// True if warpgroups compute the gradients, on a queue that has them: not with a score map, nor without keys.
template <class Map, class Queue>
[[nodiscard]] bool gradient_is_by_warpgroups(Queue const& queue, attention_extents const& x) {
  if constexpr (WarpgroupQueue<Queue> && Map::identity) {
    return queue.warpgroups() && x.keys.rows > 0;
  } else {
    return false;
  }
}

/// The number of parts, a function of extents alone. `even`: all blocks have equal work, one at a time per
/// multiprocessor.
[[nodiscard]] inline attention_parts attention_parts_of(attention_extents const& x, Index keys, Index rows, Index warps,
                                                        bool even) {
  constexpr tuning::row_splits t = tuning::key_gradient_splits;
  Index const blocks = key_tiles(x, keys, 2).count();
  Index const tiles = x.queries.count == 0 ? 0 : x.queries.rows / x.queries.count * rows_per_kv_head(x) / rows;
  Index parts = blocks == 0 ? 1 : t.warps / (blocks * warps);
  for (Index few = 1; even && few <= t.max_splits; ++few) {
    if (10 * few * blocks < 9 * t.multiprocessors * blocks_for(few * blocks, t.multiprocessors)) continue;
    parts = few;
    break;
  }
  parts = (std::clamp)((std::min)(parts, tiles / t.min_tiles), Index{1}, t.max_splits);
  return {nullptr, parts, x.keys.rows, x.kv_heads * x.head_dim};
}
/// The parts of a kernel for d_k and d_v.
template <AttentionMask Mask, class Kernel, class Queue, class Map>
[[nodiscard]] attention_parts attention_gradient_parts(Queue const& queue, attention_extents const& x) {
  bool const even = std::is_same_v<Mask, full> && x.queries.offsets == nullptr && x.keys.offsets == nullptr &&
                    !x.heads_are_chosen() && gradient_is_by_warpgroups<Map>(queue, x);
  return attention_parts_of(x, Kernel::keys, Kernel::rows, Kernel::warps, even);
}

// ---- scratch memory: the statistics, then the listed tiles, then the parts ----

/// The end of the statistics in the scratch memory, in bytes.
template <class Wide>
[[nodiscard]] std::size_t attention_statistics_bytes(attention_extents const& x) {
  auto const bytes = checked_bytes(checked(2) * x.queries.rows * x.rows_per_token * heads_of_row(x), sizeof(Wide));
  return (bytes + 15) / 16 * 16;
}
/// Bytes of the listed tiles, of `rows` rows each; in scratch memory they follow the statistics, and the parts follow
/// them.
[[nodiscard]] inline std::size_t attention_tiles_bytes(attention_extents const& x, int rows) {
  return static_cast<std::size_t>(listed_tiles::count(x, rows)) * sizeof(listed_tile);
}

/// Scratch bytes of attention_gradient; scratch memory begins at a multiple of 16.
template <AttentionMask Mask, class Queue, class T, class Map>
[[nodiscard]] std::size_t attention_gradient_scratch_bytes(Queue const& queue, attention_backward<T, Map> const& p) {
  attention_extents const& x = p.extents;
  std::size_t bytes = attention_statistics_bytes<accumulator_t<T>>(x);
  if constexpr (Half<T>) {
    auto const add = [&]<int width>(std::integral_constant<int, width>) {
      with_gradient_kernels<Mask, Map, width>(queue, [&]<class Kernels>(Kernels) {
        using kernel = typename Kernels::of_keys;
        bytes += attention_tiles_bytes(x, kernel::rows) +
                 attention_gradient_parts<Mask, kernel, Queue, Map>(queue, x).bytes();
      });
    };
    if (x.head_dim == 64) add(std::integral_constant<int, 64>{});
    if (x.head_dim == 128) add(std::integral_constant<int, 128>{});
  }
  return bytes;
}

/// Scratch bytes of attention_bias_gradient; scratch memory begins at a multiple of 16.
template <class T, class Map>
[[nodiscard]] std::size_t attention_bias_gradient_scratch_bytes(attention_backward<T, Map> const& p) {
  return attention_statistics_bytes<accumulator_t<T>>(p.extents);
}

/// Scratch bytes of attention_operand_gradient; scratch memory begins at a multiple of 16.
template <class T, class Map>
[[nodiscard]] std::size_t attention_operand_gradient_scratch_bytes(attention_backward<T, Map> const& p) {
  attention_extents const& x = p.extents;
  using wide = accumulator_t<T>;
  return attention_statistics_bytes<wide>(x) +
         checked_bytes(checked(x.queries.rows) * x.rows_per_token * heads_of_row(x) * Map::operands, sizeof(wide));
}

// ---- launches ----

/// Computes the statistics of all rows; rows of `cleared` that see nothing, or are in no list, become 0.
template <class Queue, class T, class Map>
attention_statistics<accumulator_t<T>> compute_attention_statistics(Queue& queue, attention_backward<T, Map> const& p,
                                                                    view<T> cleared, std::span<std::byte> scratch,
                                                                    attention_gated_gradient<T> const& gated = {}) {
  attention_extents const& x = p.extents;
  Index const heads = heads_of_row(x);
  attention_statistics<accumulator_t<T>> const statistics{reinterpret_cast<accumulator_t<T>*>(scratch.data()), heads};
  attention_compute_statistics<T> const find{
      p.o,
      p.d_o,
      gated,
      p.lse,
      x.head_dim,
      heads,
      x.queries.rows * x.rows_per_token,
      statistics,
      x.head_dim % 8 == 0 && heads_are_aligned(p.o) && heads_are_aligned(p.d_o) && heads_are_aligned(gated.d),
      cleared};
  queue.launch(find, find.blocks());
  return statistics;
}

/// attention_query_gradient_tensor by warpgroups; false if they do not support the problem: the queue has none, there
/// is a score map, or there are no keys.
template <AttentionMask Mask, int width, class Queue, class Map>
bool query_gradient_by_warpgroups(Queue& queue, attention_backward<bfloat16, Map> const& p,
                                  attention_statistics<float> const& statistics, row_divisors const& divisors,
                                  float scale, float last_scale) {
  if constexpr (WarpgroupQueue<Queue> && Map::identity) {
    attention_extents const& x = p.extents;
    if (!gradient_is_by_warpgroups<Map>(queue, x)) return false;
    using kernel = attention_query_gradient_warpgroups<Mask, Map, width, typename Queue::tensor_map>;
    kernel const k{p,
                   statistics,
                   query_tiles(x, kernel::rows, sizeof(bfloat16)),
                   divisors,
                   scale,
                   last_scale,
                   queue.map_tensor(p.k, kernel::keys),
                   queue.map_tensor(p.v, kernel::keys)};
    queue.launch(k, k.blocks());
    return true;
  } else {
    return false;
  }
}

/// attention_key_gradient_tensor by warpgroups, with its listed tiles; false if they do not support the problem.
template <AttentionMask Mask, class Tensor, int width, class Queue, class Map>
bool key_gradient_by_warpgroups(Queue& queue, attention_backward<bfloat16, Map> const& p,
                                attention_statistics<float> const& statistics, row_divisors const& divisors,
                                float scale, float last_scale, attention_parts const& parts,
                                listed_tiles const& listed) {
  if constexpr (WarpgroupQueue<Queue> && Map::identity) {
    attention_extents const& x = p.extents;
    using kernel = attention_key_gradient_warpgroups<Mask, Map, width, typename Queue::tensor_map>;
    // The listed tiles are those of the tensor kernel; Hopper has room for the large ones.
    if (kernel::rows != Tensor::rows || !gradient_is_by_warpgroups<Map>(queue, x)) return false;
    kernel const k{p,
                   statistics,
                   key_tiles(x, kernel::keys, sizeof(bfloat16)),
                   divisors,
                   scale,
                   last_scale,
                   parts,
                   listed,
                   queue.map_tensor(p.k, kernel::keys),
                   queue.map_tensor(p.v, kernel::keys)};
    queue.launch(k, k.blocks());
    return true;
  } else {
    return false;
  }
}

/// Overwrites d_q, d_k and d_v; a gradient with null data is not computed. Rows that see nothing or are in no list, and
/// keys that no row sees, get 0. With a gate, d_o (gated.d_o as p.d_o) and d_gate are computed first.
template <AttentionMask Mask, class Queue, class T, class Map>
void attention_gradient(Queue& queue, attention_backward<T, Map> const& p, std::span<std::byte> scratch,
                        std::type_identity_t<attention_gated_gradient<T>> const& gated = {}) {
  using wide = accumulator_t<T>;
  attention_extents const& x = p.extents;
  bool const wanted = p.d_q.data || p.d_k.data || p.d_v.data;
  if (x.head_dim == 0 || x.queries.count == 0 || !(wanted || gated.gate.data)) return;
  attention_statistics<wide> const statistics =
      compute_attention_statistics(queue, p, x.heads_are_chosen() ? p.d_q : view<T>{}, scratch, gated);
  wide const scale = score_scale<wide>(p.scores), last_scale = static_cast<wide>(p.scores.scale);
  bool const of_queries = p.d_q.data && x.queries.rows > 0, of_keys = p.d_k.data || p.d_v.data;
  bool done = false;
  if constexpr (Half<T>) {
    if (char const* const why = plain_kernel_reason(x, p.scores, p.q, p.k, p.v, p.d_o, p.d_q, p.d_k, p.d_v)) {
      if (wanted) notify_plain_kernel("the gradient of attention", why);
    } else {
      done = true;
      row_divisors const divisors(x);
      auto const launch = [&]<int width>(std::integral_constant<int, width>) {
        with_gradient_kernels<Mask, Map, width>(queue, [&]<class Kernels>(Kernels) {
          if (of_keys) {
            using kernel_type = typename Kernels::of_keys;
            std::byte* const tiles_scratch = scratch.data() + attention_statistics_bytes<wide>(x);
            listed_tiles const listed{x.heads_are_chosen() ? reinterpret_cast<listed_tile*>(tiles_scratch) : nullptr};
            if (listed.data) {
              attention_compute_tiles<Mask, Map, kernel_type::rows> const tiles{x, divisors.per_token, listed};
              queue.launch(tiles, tiles.blocks());
            }
            attention_parts parts = attention_gradient_parts<Mask, kernel_type, Queue, Map>(queue, x);
            parts.data = reinterpret_cast<float*>(tiles_scratch + attention_tiles_bytes(x, kernel_type::rows));
            if (!key_gradient_by_warpgroups<Mask, kernel_type, width>(queue, p, statistics, divisors, scale, last_scale,
                                                                      parts, listed)) {
              kernel_type const kernel{p,        statistics, key_tiles(x, kernel_type::keys, sizeof(T)),
                                       divisors, scale,      last_scale,
                                       parts,    listed};
              queue.launch(kernel, kernel.blocks());
            }
            if (parts.count > 1) {
              attention_add_parts const sums{parts, p.d_k, p.d_v, p.dropout};
              queue.launch(sums, sums.blocks());
            }
          }
          if (of_queries &&
              !query_gradient_by_warpgroups<Mask, width>(queue, p, statistics, divisors, scale, last_scale)) {
            using kernel_type = typename Kernels::of_queries;
            kernel_type const kernel{p,        statistics, query_tiles(x, kernel_type::rows, sizeof(T)),
                                     divisors, scale,      last_scale};
            queue.launch(kernel, kernel.blocks());
          }
        });
      };
      if (x.head_dim == 64) launch(std::integral_constant<int, 64>{});
      if (x.head_dim == 128) launch(std::integral_constant<int, 128>{});
      if (p.dropout.key == nullptr) return;
    }
  }
  if (of_keys) {
    attention_gradient_plain<Mask, T, Map, true> const kernel{
        p, statistics, key_tiles(x, plain_tile::rows, sizeof(T)), scale, last_scale, done};
    queue.launch(kernel, kernel.blocks());
  }
  if (of_queries) {
    attention_gradient_plain<Mask, T, Map, false> const kernel{
        p, statistics, query_tiles(x, plain_tile::rows, sizeof(T)), scale, last_scale, done};
    queue.launch(kernel, kernel.blocks());
  }
}

/// Overwrites d_bias, of the shape of p.scores.bias.
template <AttentionMask Mask, class Queue, class T, class Map>
void attention_bias_gradient(Queue& queue, view<T> d_bias, attention_backward<T, Map> const& p,
                             std::span<std::byte> scratch) {
  if (d_bias.size() == 0) return;
  attention_bias_gradient_plain<Mask, T, Map> const kernel{
      d_bias, p, compute_attention_statistics(queue, p, view<T>{}, scratch), score_scale<accumulator_t<T>>(p.scores)};
  queue.launch(kernel, kernel.blocks());
}

/// Computes the sums of all rows that are in a list.
template <AttentionMask Mask, class Queue, class T, class Map, class Wide>
void compute_operand_sums(Queue& queue, attention_backward<T, Map> const& p,
                          attention_statistics<Wide> const& statistics,
                          attention_row_sums<Wide, Map::operands> const& sums) {
  attention_extents const& x = p.extents;
  Wide const scale = score_scale<Wide>(p.scores);
  bool done = false;
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (char const* const why = plain_kernel_reason(x, p.scores, p.q, p.k, p.v, p.d_o)) {
      notify_plain_kernel("the gradient by operands of score maps", why);
    } else {
      done = true;
      row_divisors const divisors(x);
      auto const launch = [&]<class K>(K) {
        K const kernel{p, statistics, sums, query_tiles(x, K::rows, sizeof(T)), divisors, scale};
        queue.launch(kernel, kernel.blocks());
      };
      constexpr int m = tuning::sm80::operand_sums.m, keys = tuning::sm80::operand_sums.keys;
      if (x.head_dim == 64) launch(attention_operand_sums_tensor<Mask, Map, 64, m, keys>{});
      if (x.head_dim == 128) launch(attention_operand_sums_tensor<Mask, Map, 128, m, keys>{});
      if (p.dropout.key == nullptr) return;
    }
  }
  attention_operand_sums<Mask, T, Map> const kernel{
      p, statistics, sums, query_tiles(x, plain_tile::rows, sizeof(T)), scale, done};
  queue.launch(kernel, kernel.blocks());
}

/// Overwrites d.by[i], the gradient of operand i, unless its data is null.
template <AttentionMask Mask, class Queue, class T, class Map>
void attention_operand_gradient(Queue& queue, operand_gradients<accumulator_t<T>, Map::operands> const& d,
                                attention_backward<T, Map> const& p, std::span<std::byte> scratch) {
  using wide = accumulator_t<T>;
  attention_extents const& x = p.extents;
  if (x.heads == 0) return;
  attention_row_sums<wide, Map::operands> sums;
  sums.heads = heads_of_row(x);
  if (x.head_dim > 0 && x.queries.count > 0 && x.queries.rows > 0) {
    attention_statistics<wide> const statistics = compute_attention_statistics(queue, p, view<T>{}, scratch);
    sums.data = reinterpret_cast<wide*>(scratch.data() + attention_statistics_bytes<wide>(x));
    compute_operand_sums<Mask>(queue, p, statistics, sums);
  }
  attention_add_operand_sums<wide, Map::operands> const add{x, sums, d};
  queue.launch(add, add.blocks());
}

}  // namespace headmix::cuda_kernels

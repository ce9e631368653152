#pragma once
// SPDX-License-Identifier: MIT
// Teams of threads that work on one row, and their reductions. The order of additions is fixed by the extents.
//
// These reductions are not CUB's: a team's size is known at run time, and all members need the result, which
// cub::WarpReduce and cub::BlockReduce give to one thread and need a second barrier to distribute. For sm_80, a sum and
// the broadcast of its result take 22 instructions here and 23 with CUB in a warp, 37 and 46 in a block; a maximum 32
// and 44, 61 and 80 (tests/cuda/gates/cub.cu compares, load and store included).

#include <limits>
#include <type_traits>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"

namespace headmix::cuda_kernels {

/// Minus infinity as a constant, since device code may not call std::numeric_limits.
template <class W>
inline constexpr W minus_infinity = -std::numeric_limits<W>::infinity();
template <class W>
inline constexpr W not_a_number = std::numeric_limits<W>::quiet_NaN();

/// Threads of a block of every kernel with teams.
inline constexpr int team_threads = tuning::team_threads;

/// A team of 2^shift threads of a block: a part of a warp, a warp, or the whole block.
struct team {
  int shift;
  static constexpr int block_shift = 8, warp_shift = 5;
  static_assert(1 << block_shift == team_threads, "headmix: the largest team is the whole block");

  /// Small teams for short rows, so that no lane idles; the whole block for long ones.
  [[nodiscard]] static constexpr team for_row_of(Index elements) {
    if (elements > tuning::block_team_elements) return {block_shift};
    int shift = 0;
    while (shift < warp_shift && (tuning::lane_elements << shift) < elements) ++shift;
    return {shift};
  }
  /// One lane for each element, up to a warp.
  [[nodiscard]] static constexpr team of_lanes_for(Index elements) {
    int shift = 0;
    while (shift < warp_shift && (Index{1} << shift) < elements) ++shift;
    return {shift};
  }

  [[nodiscard]] HEADMIX_HD constexpr int size() const { return 1 << shift; }
  [[nodiscard]] HEADMIX_HD constexpr int per_block() const { return team_threads >> shift; }
  /// The number of blocks with a team for each of n rows.
  [[nodiscard]] HEADMIX_HD constexpr Index blocks(Index n) const { return blocks_for(n, per_block()); }
  /// The row of the calling thread's team, possibly beyond the last.
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE Index row(Device const& device) const {
    return device.block() * per_block() + (device.thread() >> shift);
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE int member(Device const& device) const {
    return device.thread() & (size() - 1);
  }
};
/// Bytes of shared memory of team_reduce.
template <class V>
inline constexpr int team_bytes = team_threads / 32 * static_cast<int>(sizeof(V));

/// combine(a, combine(b, ...)) over the values of a team; all members get the result. All threads of the block call.
template <class V, class Combine, class Device>
[[nodiscard]] HEADMIX_DEVICE V team_reduce(Device& device, team t, V value, Combine combine) {
  for (int mask = (t.size() < 32 ? t.size() : 32) / 2; mask > 0; mask /= 2) {
    value = combine(value, device.shuffle_xor(value, mask));
  }
  if (t.size() > 32) {
    auto const partial = device.template shared<V>(0);
    if (device.lane() == 0) partial[device.warp()] = value;
    device.sync();
    value = partial[0];
    for (int w = 1; w < team_threads / 32; ++w) {
      V const other = partial[w];
      value = combine(value, other);
    }
    device.sync();
  }
  return value;
}

struct plus {
  template <class W>
  HEADMIX_HD W operator()(W a, W b) const {
    return a + b;
  }
};
/// The maximum; NaN propagates.
struct maximum_or_nan {
  template <class W>
  HEADMIX_HD W operator()(W a, W b) const {
    return b > a || b != b ? b : a;
  }
};

/// The sum of term(first), term(first + step), ... below `end`, in blocks: see block_terms. Double is used only with
/// several blocks.
/// @tparam P  type of the terms: W, or vectors of it
template <class P, class W, bool unrolls = true, class F>
[[nodiscard]] HEADMIX_DEVICE W sum_in_blocks(Index first, Index end, Index step, F const& term) {
  Index const block = block_terms * step;
  bool const is_long = end - first > block;
  double blocks = 0;
  for (;;) {
    Index const last = end - first > block ? first + block : end;
    P several(0);
    if constexpr (unrolls) {
      for (; first < last; first += step) several = several + term(first);
    } else {
      HEADMIX_NO_UNROLL
      for (; first < last; first += step) several = several + term(first);
    }
    W sum;
    if constexpr (std::is_same_v<P, W>) {
      sum = several;
    } else {
      sum = several.sum();
    }
    if (!is_long) return sum;
    blocks += static_cast<double>(sum);
    if (first >= end) return static_cast<W>(blocks);
  }
}

/// *p (+)= value.
template <class T, class W, class Device>
HEADMIX_DEVICE void store_element(Device& device, T* p, W value, bool accumulate) {
  device.store(p, static_cast<T>(accumulate ? static_cast<W>(device.load(p)) + value : value));
}

}  // namespace headmix::cuda_kernels

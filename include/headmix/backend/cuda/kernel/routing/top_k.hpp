#pragma once
// SPDX-License-Identifier: MIT
// The top-k columns of a row: one round per choice, each the best candidate that ranks after the previous choice.

#include <cstdint>
#include <type_traits>

#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// An integer with the order of a value: larger numbers rank first, NaN after all numbers. Never 0.
[[nodiscard]] HEADMIX_HD inline std::uint32_t rank_of(float value) {
  auto const bits = __builtin_bit_cast(std::uint32_t, value + 0.0f);  // -0 is 0
  if (value != value) return 1;                                       // below minus infinity
  return bits >> 31 ? ~bits : bits | 1u << 31;
}
[[nodiscard]] HEADMIX_HD inline std::uint64_t rank_of(double value) {
  auto const bits = __builtin_bit_cast(std::uint64_t, value + 0.0);
  if (value != value) return 1;
  return bits >> 63 ? ~bits : bits | std::uint64_t{1} << 63;
}

/// A column and the rank of its value; rank 0 is none, with column -1.
template <class W>
struct candidate {
  decltype(rank_of(W())) rank = 0;
  Int column = -1;

  /// A candidate that ranks before all values.
  [[nodiscard]] static HEADMIX_HD candidate before_all() {
    candidate c;
    c.rank = ~c.rank;
    return c;
  }
};
/// True if a ranks before b; ties go to the lower column.
template <class W>
[[nodiscard]] HEADMIX_DEVICE bool ranks_before(candidate<W> a, candidate<W> b) {
  return a.rank > b.rank || (a.rank == b.rank && a.column < b.column);
}

/// The best of the candidates of each of `rows` rows; all lanes of a row get it.
template <class W, int rows, class Device>
HEADMIX_DEVICE void find_best(Device& device, int lanes, candidate<W> (&best)[rows]) {
  if constexpr (std::is_same_v<decltype(best[0].rank), std::uint32_t>) {
    if (lanes == 32) {
      HEADMIX_UNROLL
      for (int r = 0; r < rows; ++r) {
        std::uint32_t const rank = device.redux_max(best[r].rank);
        std::uint32_t const column = best[r].rank == rank ? static_cast<std::uint32_t>(best[r].column) : ~0u;
        best[r] = {rank, static_cast<Int>(device.redux_min(column))};
      }
      return;
    }
  }
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    HEADMIX_UNROLL
    for (int r = 0; r < rows; ++r) {
      candidate<W> const other = {device.shuffle_xor(best[r].rank, mask), device.shuffle_xor(best[r].column, mask)};
      if (ranks_before(other, best[r])) best[r] = other;
    }
  }
}
/// Calls chosen(r, k, column) for the n best columns of each of `rows` rows, best first. `lanes` lanes share a row;
/// best_after(r, last) is the best candidate of the calling lane that ranks after `last`, the previous choice. All
/// lanes of the warp call, and all lanes of a row receive its choices.
template <class W, int rows, class Device, class Best, class Chosen>
HEADMIX_DEVICE void choose(Device& device, int lanes, Index n, Best const& best_after, Chosen const& chosen) {
  candidate<W> best[rows];
  HEADMIX_UNROLL
  for (int r = 0; r < rows; ++r) best[r] = candidate<W>::before_all();
  for (Index k = 0; k < n; ++k) {
    HEADMIX_UNROLL
    for (int r = 0; r < rows; ++r) best[r] = best_after(r, best[r]);
    find_best(device, lanes, best);
    HEADMIX_UNROLL
    for (int r = 0; r < rows; ++r) chosen(r, k, best[r].column);
  }
}
/// Writes the top-k columns of row i of a, read by a team of lanes.
template <class W, class A, class Device>
HEADMIX_DEVICE void choose_columns(Device& device, team members, bool valid, view<Int> index, Index i,
                                   view<A const> a) {
  Int const first = members.member(device), end = valid ? static_cast<Int>(a.cols) : 0;
  auto const best_after = [&](int, candidate<W> last) {
    candidate<W> best;
    for (Int j = first; j < end; j += members.size()) {
      candidate<W> const next = {rank_of(static_cast<W>(device.load(&a(i, j)))), j};
      if (ranks_before(last, next) && ranks_before(next, best)) best = next;
    }
    return best;
  };
  choose<W, 1>(device, members.size(), index.cols, best_after, [&](int, Index k, Int column) {
    if (valid && first == 0) device.store(&index(i, k), column);
  });
}

template <class W, class A>
struct top_k_kernel {
  static constexpr int threads = team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;

  view<Int> y;
  view<A const> a;
  team members;  ///< lanes of a warp

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = members.row(device);
    choose_columns<W>(device, members, i < a.rows, y, i, a);
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS

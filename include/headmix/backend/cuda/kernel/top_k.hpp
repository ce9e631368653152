#pragma once
// SPDX-License-Identifier: MIT
// The best columns of a row: as many rounds as there are choices, each the best of what ranks after the choice before.

#include "headmix/backend/cuda/kernel/collective.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::gpu {

/// A column and its value; column -1 is none.
template <class W>
struct candidate {
  W value;
  Int column;
};
/// Larger values first, then lower columns; what is not a number after all numbers, nothing last.
template <class W>
[[nodiscard]] HEADMIX_DEVICE bool ranks_before(candidate<W> a, candidate<W> b) {
  if (a.column < 0 || b.column < 0) return b.column < 0 && a.column >= 0;
  bool const a_is_number = a.value == a.value, b_is_number = b.value == b.value;
  if (a_is_number != b_is_number) return a_is_number;
  if (a_is_number && a.value != b.value) return a.value > b.value;
  return a.column < b.column;
}

/// Calls chosen(k, column) for the n best columns of a row, best first. `lanes` lanes share it; each(f) calls
/// f(candidate) for those of the calling lane. All lanes of the warp call, and all lanes of a row hear of its choices.
template <class W, class Device, class Each, class Chosen>
HEADMIX_DEVICE void choose(Device& device, int lanes, Index n, Each const& each, Chosen const& chosen) {
  candidate<W> last = {W(0), -1};
  for (Index k = 0; k < n; ++k) {
    candidate<W> best = {W(0), -1};
    each([&](candidate<W> next) {
      if ((k == 0 || ranks_before(last, next)) && ranks_before(next, best)) best = next;
    });
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      candidate<W> const other = {device.shuffle_xor(best.value, mask), device.shuffle_xor(best.column, mask)};
      if (ranks_before(other, best)) best = other;
    }
    last = best;
    chosen(k, best.column);
  }
}
/// Writes the best columns of row i of a, which a team of lanes reads.
template <class W, class A, class Device>
HEADMIX_DEVICE void choose_columns(Device& device, team members, bool real, view<Int> index, Index i, view<A const> a) {
  Int const first = members.member(device), end = real ? static_cast<Int>(a.cols) : 0;
  auto const each = [&](auto const& f) {
    for (Int j = first; j < end; j += members.size()) f(candidate<W>{static_cast<W>(device.load(&a(i, j))), j});
  };
  choose<W>(device, members.size(), index.cols, each, [&](Index k, Int column) {
    if (real && first == 0) device.store(&index(i, k), column);
  });
}

template <class W, class A>
struct top_k_kernel {
  static constexpr int threads = team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;

  view<Int> y;
  view<A const> a;
  team members;  ///< of one warp

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = members.row(device);
    choose_columns<W>(device, members, i < a.rows, y, i, a);
  }
};

template <class Queue, class A>
void top_k(Queue& queue, view<Int> y, view<A const> a) {
  team const members = team::of_lanes_for(a.cols);
  queue.launch(top_k_kernel<accumulator_t<A>, A>{y, a, members}, members.blocks(a.rows));
}

}  // namespace headmix::gpu

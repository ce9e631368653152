#pragma once
// SPDX-License-Identifier: MIT
// What the gradients of attention need to know of every row: how to make its probabilities again, and <d_o, o>.

#include "headmix/backend/cuda/kernel/attention_tile.hpp"
#include "headmix/backend/cuda/kernel/matrix_tile.hpp"

namespace headmix::cuda {

/// Of each row and head: what its scores are shifted by to make probabilities, and delta = <d_o, o>.
template <class Wide>
struct attention_statistics {
  Wide* data = nullptr;
  Index heads = 1;

  [[nodiscard]] HEADMIX_HD Wide* shift(Index row, Index head) const { return data + 2 * (row * heads + head); }
  [[nodiscard]] HEADMIX_HD Wide* delta(Index row, Index head) const { return shift(row, head) + 1; }
};

/// Eight lanes for each row and head.
template <class T>
struct attention_find_statistics {
  using wide = wide_t<T>;
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;
  static constexpr int together = 8;

  view<T const> o, d_o;
  view<wide const> lse;
  Index head_dim, heads, count;  ///< of rows and heads
  attention_statistics<wide> statistics;
  bool in_chunks;   ///< o and d_o can be read 16 bytes at a time
  view<T> cleared;  ///< its rows that see nothing become 0; null: none

  [[nodiscard]] Index blocks() const { return blocks_for(count, threads / together); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * (threads / together) + device.thread() / together;
    bool const real = i < count;
    Index const row = real ? i / heads : 0, head = real ? i % heads : 0;
    wide const known = real ? lse(row, head) : wide(0);
    wide delta = 0;
    int const first = device.thread() % together;
    if (cleared.data && known == minus_infinity<wide>) {
      for (Index c = first; c < head_dim; c += together) device.store(&cleared(row, head * head_dim + c), T(0));
    }
    bool done = false;
    if constexpr (std::is_same_v<T, bfloat16>) {
      done = in_chunks;
      for (Index c = 8 * first; done && real && c < head_dim; c += 8 * together) {
        words<4> const a = device.load16(&d_o(row, head * head_dim + c)),
                       b = device.load16(&o(row, head * head_dim + c));
        HEADMIX_UNROLL
        for (int w = 0; w < 4; ++w) {
          delta += low_of(a.word[w]) * low_of(b.word[w]) + high_of(a.word[w]) * high_of(b.word[w]);
        }
      }
    }
    for (Index c = first; !done && real && c < head_dim; c += together) {
      delta += static_cast<wide>(d_o(row, head * head_dim + c)) * static_cast<wide>(o(row, head * head_dim + c));
    }
    HEADMIX_UNROLL
    for (int step = 1; step < together; step *= 2) delta += device.shuffle_xor(delta, step);
    if (!real || device.thread() % together != 0) return;
    // A row that sees nothing: every probability is exp(-infinity) = 0.
    wide const shift = known == minus_infinity<wide> ? -known
                       : base_2<wide>                ? known * static_cast<wide>(log2_of_e)
                                                     : known;
    device.store(statistics.shift(row, head), shift);
    device.store(statistics.delta(row, head), delta);
  }
};

}  // namespace headmix::cuda

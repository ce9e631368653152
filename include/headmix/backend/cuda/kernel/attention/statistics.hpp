#pragma once
// SPDX-License-Identifier: MIT
// Per-row statistics for the gradients of attention: the shift of scores for recomputing probabilities, and <d_o, o>.

#include "headmix/backend/cuda/kernel/attention/tile.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"

namespace headmix::gpu {

/// For each row and head: the shift of scores that gives probabilities, and delta = <d_o, o>.
template <class Wide>
struct attention_statistics {
  Wide* data = nullptr;
  Index heads = 1;

  [[nodiscard]] HEADMIX_HD Wide* shift(Index row, Index head) const { return data + 2 * (row * heads + head); }
  [[nodiscard]] HEADMIX_HD Wide* delta(Index row, Index head) const { return shift(row, head) + 1; }
};

/// The gradient of gated attention, with d the gradient of the gated rows: d_o = by d, and d_by = <d, o>, not computed
/// if its data is null. No gate if `by` is null.
template <class T>
struct attention_gated_gradient {
  view<accumulator_t<T> const> by = {};
  view<T const> d = {};
  view<T> d_o = {};
  view<accumulator_t<T>> d_by = {};
};

/// Eight lanes for each row and head; for each row, head after head, if the rows are gated.
template <class T>
struct attention_find_statistics {
  using wide = accumulator_t<T>;
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;
  static constexpr int together = 8;

  view<T const> o, d_o;
  attention_gated_gradient<T> gated;  ///< computes d_o
  view<wide const> lse;
  Index head_dim, heads, rows;
  attention_statistics<wide> statistics;
  bool in_chunks;   ///< o, d_o and d are read 16 bytes at a time
  view<T> cleared;  ///< its rows that see nothing become 0; null: none

  [[nodiscard]] Index blocks() const { return blocks_for(gated.by.data ? rows : rows * heads, threads / together); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * (threads / together) + device.thread() / together;
    Index const each = gated.by.data ? heads : 1, row = i * each / heads, first_head = i * each % heads;
    bool const real = row < rows, leads = real && device.thread() % together == 0;
    wide const by = gated.by.data && real ? gated.by(row, 0) : wide(0);
    wide d_by = 0;
    for (Index head = first_head; head < first_head + each; ++head) {
      wide const known = real ? lse(row, head) : wide(0);
      wide delta = 0, product = 0;
      if (real) {
        if (gated.by.data) {
          add_gated(device, row, head, by, delta, product);
        } else {
          add(device, row, head, delta);
        }
      }
      HEADMIX_UNROLL
      for (int step = 1; step < together; step *= 2) {
        delta += device.shuffle_xor(delta, step);
        product += device.shuffle_xor(product, step);
      }
      d_by += product;
      if (cleared.data) {
        device.sync_warp();  // d_q may alias d_o, which other lanes have written
        if (real && known == minus_infinity<wide>) clear(device, row, head);
      }
      if (!leads) continue;
      // A row that sees nothing: every probability is exp(-infinity) = 0.
      wide const shift = known == minus_infinity<wide> ? -known
                         : base_2<wide>                ? known * static_cast<wide>(log2_of_e)
                                                       : known;
      device.store(statistics.shift(row, head), shift);
      device.store(statistics.delta(row, head), delta);
    }
    if (leads && gated.by.data && gated.d_by.data) device.store(&gated.d_by(row, 0), d_by);
  }

 private:
  template <class Device>
  HEADMIX_DEVICE void clear(Device& device, Index row, Index head) const {
    for (Index c = device.thread() % together; c < head_dim; c += together) {
      device.store(&cleared(row, head * head_dim + c), T(0));
    }
  }
  /// delta += this lane's part of <d_o, o>.
  template <class Device>
  HEADMIX_DEVICE void add(Device& device, Index row, Index head, wide& delta) const {
    Index const begin = head * head_dim;
    int const first = device.thread() % together;
    if constexpr (Half<T>) {
      if (in_chunks) {
        for (Index c = begin + 8 * first; c < begin + head_dim; c += 8 * together) {
          words<4> const a = device.load16(&d_o(row, c)), b = device.load16(&o(row, c));
          HEADMIX_UNROLL
          for (int w = 0; w < 4; ++w) {
            delta += low_of(a.word[w]) * low_of(b.word[w]) + high_of(a.word[w]) * high_of(b.word[w]);
          }
        }
        return;
      }
    }
    for (Index c = begin + first; c < begin + head_dim; c += together) {
      delta += static_cast<wide>(d_o(row, c)) * static_cast<wide>(o(row, c));
    }
  }
  /// Gated: writes d_o = by d, and product += this lane's part of <d, o>.
  template <class Device>
  HEADMIX_DEVICE void add_gated(Device& device, Index row, Index head, wide by, wide& delta, wide& product) const {
    Index const begin = head * head_dim;
    int const first = device.thread() % together;
    if constexpr (Half<T>) {
      if (in_chunks) {
        for (Index c = begin + 8 * first; c < begin + head_dim; c += 8 * together) {
          words<4> const d = device.load16(&gated.d(row, c)), b = device.load16(&o(row, c));
          words<4> a;
          HEADMIX_UNROLL
          for (int w = 0; w < 4; ++w) {
            a.word[w] = pack(by * low_of(d.word[w]), by * high_of(d.word[w]));
            delta += low_of(a.word[w]) * low_of(b.word[w]) + high_of(a.word[w]) * high_of(b.word[w]);
            product += low_of(d.word[w]) * low_of(b.word[w]) + high_of(d.word[w]) * high_of(b.word[w]);
          }
          device.store16(&gated.d_o(row, c), a);
        }
        return;
      }
    }
    for (Index c = begin + first; c < begin + head_dim; c += together) {
      wide const d = static_cast<wide>(gated.d(row, c)), b = static_cast<wide>(o(row, c));
      T const a = static_cast<T>(by * d);
      delta += static_cast<wide>(a) * b;
      product += d * b;
      device.store(&gated.d_o(row, c), a);
    }
  }
};

}  // namespace headmix::gpu

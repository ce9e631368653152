#pragma once
// SPDX-License-Identifier: MIT
// Per-row statistics for the gradients of attention: the shift of scores for recomputing probabilities, and <d_o, o>.

#include "headmix/backend/cuda/kernel/attention/tile.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"

namespace headmix::cuda_kernels {

/// For each row and head: the shift of scores that gives probabilities, and delta = <d_o, o>.
template <class Wide>
struct attention_statistics {
  Wide* data = nullptr;
  Index heads = 1;

  [[nodiscard]] HEADMIX_HD Wide* shift(Index row, Index head) const { return data + 2 * (row * heads + head); }
  [[nodiscard]] HEADMIX_HD Wide* delta(Index row, Index head) const { return shift(row, head) + 1; }
};

/// The gradient of gated attention, with d the gradient of the gated rows: d_o = gate d, and d_gate = <d, o>, not
/// computed if its data is null. No gate if `gate` is null.
template <class T>
struct attention_gated_gradient {
  view<accumulator_t<T> const> gate = {};
  view<T const> d = {};
  view<T> d_o = {};
  view<accumulator_t<T>> d_gate = {};
};

/// Eight lanes for each row and head; for each row, head after head, if the rows are gated.
template <class T>
struct attention_compute_statistics {
  using wide = accumulator_t<T>;
  static constexpr int threads = tuning::statistics_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;
  static constexpr int threads_per_row = tuning::row_lanes;

  view<T const> o, d_o;
  attention_gated_gradient<T> gated;  ///< computes d_o
  view<wide const> lse;
  Index head_dim, heads, rows;
  attention_statistics<wide> statistics;
  bool vectorized;  ///< o, d_o and d are read 16 bytes at a time
  view<T> cleared;  ///< its rows that see nothing become 0; null: none

  [[nodiscard]] Index blocks() const {
    return blocks_for(gated.gate.data ? rows : rows * heads, threads / threads_per_row);
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * (threads / threads_per_row) + device.thread() / threads_per_row;
    Index const each = gated.gate.data ? heads : 1, row = i * each / heads, first_head = i * each % heads;
    bool const valid = row < rows, leads = valid && device.thread() % threads_per_row == 0;
    wide const gate = gated.gate.data && valid ? gated.gate(row, 0) : wide(0);
    wide d_gate = 0;
    for (Index head = first_head; head < first_head + each; ++head) {
      wide const row_lse = valid ? lse(row, head) : wide(0);
      wide delta = 0, product = 0;
      if (valid) {
        if (gated.gate.data) {
          add_gated(device, row, head, gate, delta, product);
        } else {
          add(device, row, head, delta);
        }
      }
      HEADMIX_UNROLL
      for (int step = 1; step < threads_per_row; step *= 2) {
        delta += device.shuffle_xor(delta, step);
        product += device.shuffle_xor(product, step);
      }
      d_gate += product;
      if (cleared.data) {
        device.sync_warp();  // d_q may alias d_o, which other lanes have written
        if (valid && row_lse == minus_infinity<wide>) clear(device, row, head);
      }
      if (!leads) continue;
      // A row that sees nothing: every probability is exp(-infinity) = 0.
      wide const shift = row_lse == minus_infinity<wide> ? -row_lse
                         : base_2<wide>                  ? row_lse * static_cast<wide>(log2_of_e)
                                                         : row_lse;
      device.store(statistics.shift(row, head), shift);
      device.store(statistics.delta(row, head), delta);
    }
    if (leads && gated.gate.data && gated.d_gate.data) device.store(&gated.d_gate(row, 0), d_gate);
  }

 private:
  template <class Device>
  HEADMIX_DEVICE void clear(Device& device, Index row, Index head) const {
    for (Index c = device.thread() % threads_per_row; c < head_dim; c += threads_per_row) {
      device.store(&cleared(row, head * head_dim + c), T(0));
    }
  }
  /// delta += this lane's part of <d_o, o>.
  template <class Device>
  HEADMIX_DEVICE void add(Device& device, Index row, Index head, wide& delta) const {
    Index const begin = head * head_dim;
    int const first = device.thread() % threads_per_row;
    if constexpr (Half<T>) {
      if (vectorized) {
        for (Index c = begin + 8 * first; c < begin + head_dim; c += 8 * threads_per_row) {
          words<4> const a = device.load16(&d_o(row, c)), b = device.load16(&o(row, c));
          HEADMIX_UNROLL
          for (int w = 0; w < 4; ++w) {
            delta += low_of(a.word[w]) * low_of(b.word[w]) + high_of(a.word[w]) * high_of(b.word[w]);
          }
        }
        return;
      }
    }
    for (Index c = begin + first; c < begin + head_dim; c += threads_per_row) {
      delta += static_cast<wide>(d_o(row, c)) * static_cast<wide>(o(row, c));
    }
  }
  /// Gated: writes d_o = gate d, and product += this lane's part of <d, o>.
  template <class Device>
  HEADMIX_DEVICE void add_gated(Device& device, Index row, Index head, wide gate, wide& delta, wide& product) const {
    Index const begin = head * head_dim;
    int const first = device.thread() % threads_per_row;
    if constexpr (Half<T>) {
      if (vectorized) {
        for (Index c = begin + 8 * first; c < begin + head_dim; c += 8 * threads_per_row) {
          words<4> const d = device.load16(&gated.d(row, c)), b = device.load16(&o(row, c));
          words<4> a;
          HEADMIX_UNROLL
          for (int w = 0; w < 4; ++w) {
            a.word[w] = pack(gate * low_of(d.word[w]), gate * high_of(d.word[w]));
            delta += low_of(a.word[w]) * low_of(b.word[w]) + high_of(a.word[w]) * high_of(b.word[w]);
            product += low_of(d.word[w]) * low_of(b.word[w]) + high_of(d.word[w]) * high_of(b.word[w]);
          }
          device.store16(&gated.d_o(row, c), a);
        }
        return;
      }
    }
    for (Index c = begin + first; c < begin + head_dim; c += threads_per_row) {
      wide const d = static_cast<wide>(gated.d(row, c)), b = static_cast<wide>(o(row, c));
      T const a = static_cast<T>(gate * d);
      delta += static_cast<wide>(a) * b;
      product += d * b;
      device.store(&gated.d_o(row, c), a);
    }
  }
};

}  // namespace headmix::cuda_kernels

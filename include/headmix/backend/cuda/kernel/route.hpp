#pragma once
// SPDX-License-Identifier: MIT
// A router in one kernel: logits z = x w, probabilities p = softmax(z), index = the best columns of p. A block makes
// the logits of some rows on tensor cores and keeps them on the chip until the experts are chosen. Where that does not
// apply, the product is a kernel of its own, and softmax and choice are another.

#include "headmix/backend/cuda/kernel/grouped_gemm.hpp"
#include "headmix/backend/cuda/kernel/softmax.hpp"
#include "headmix/backend/cuda/kernel/top_k.hpp"

namespace headmix::cuda {

/// 64 rows x up to `columns` experts by four warps, 16 rows each.
template <int columns>
struct route_tensor {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  static constexpr int rows = 64, depth = 64, stages = 3;
  static constexpr int left_bytes = rows * depth * 2, right_bytes = depth * columns * 2;
  static constexpr int shared_bytes = stages * (left_bytes + right_bytes);
  static constexpr int logit_row = columns + 4;  // so that the rows of a fragment begin in different banks
  static_assert(rows * logit_row * 4 <= shared_bytes);

  view<float> z, p;
  view<Int> index;
  view<bfloat16 const> x, w;

  [[nodiscard]] Index blocks() const { return blocks_for(x.rows, rows); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const row0 = device.block() * rows;
    int const thread = device.thread(), lane = device.lane(), warp = device.warp();
    int const height = static_cast<int>(x.rows - row0 < rows ? x.rows - row0 : rows);
    int const inner = static_cast<int>(x.cols), experts = static_cast<int>(w.cols);

    auto const start = [&](int step, int stage) {
      int const k0 = step * depth;
      tile_copy<rows, depth, threads>::start(
          device, device.template shared<bfloat16>(stage * left_bytes), thread, height, inner - k0,
          [&](int, int i) { return x.data + (row0 + (i < height ? i : 0)) * x.row_stride + k0; });
      tile_copy<depth, columns, threads>::start(
          device, device.template shared<bfloat16>(stages * left_bytes + stage * right_bytes), thread, inner - k0,
          experts, [&](int, int k) { return w.data + (Index{k0} + k) * w.row_stride; });
    };
    constexpr int n = columns / 8;
    fragment_position<depth, true> const left_position(lane, 16 * warp, 0);
    fragment_position<columns, true> const right_position(lane, 0, 0);
    float sum[1][n][4] = {};
    int const steps = (inner + depth - 1) / depth;
    HEADMIX_UNROLL
    for (int step = 0; step < stages - 1; ++step) {
      if (step < steps) start(step, step);
      device.commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
      device.template wait_copies<stages - 2>();
      device.sync();
      if (step + stages - 1 < steps) start(step + stages - 1, (step + stages - 1) % stages);
      device.commit_copies();
      int const stage = step % stages;
      auto const left = device.template shared<bfloat16>(stage * left_bytes);
      auto const right = device.template shared<bfloat16>(stages * left_bytes + stage * right_bytes);
      HEADMIX_UNROLL
      for (int k = 0; k < depth; k += 16) {
        words<4> const a[1] = {load_left(device, left, left_position, 0, k)};
        words<4> b[n / 2];
        HEADMIX_UNROLL
        for (int j = 0; j < n / 2; ++j) b[j] = load_right(device, right, right_position, k, 16 * j);
        multiply_add<1, n>(device, sum, a, b);
      }
    }
    device.template wait_copies<0>();
    device.sync();  // the tiles make room for the logits

    auto const logits = device.template shared<float>(16 * warp * logit_row * 4);  // of this warp's rows
    HEADMIX_UNROLL
    for (int j = 0; j < n; ++j) {
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) {
        logits[(lane / 4 + c / 2 * 8) * logit_row + 8 * j + lane % 4 * 2 + c % 2] = sum[0][j][c];
      }
    }
    device.sync_warp();

    constexpr int lanes = columns / 4;  // of a row, with four columns each
    int const member = lane % lanes;
    HEADMIX_UNROLL
    for (int first = 0; first < 16; first += 32 / lanes) {
      int const i = first + lane / lanes;
      Index const row = row0 + 16 * warp + i;
      bool const real = row < x.rows;
      float value[4], top = minus_infinity<float>, total = 0;
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) {
        int const e = member + lanes * c;
        value[c] = e < experts ? logits[i * logit_row + e] : minus_infinity<float>;
        if (real && e < experts) device.store(&z(row, e), value[c]);
        top = larger_number{}(top, value[c]);
      }
      for (int mask = lanes / 2; mask > 0; mask /= 2) top = larger_number{}(top, device.shuffle_xor(top, mask));
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) total += value[c] = exp_below(value[c], top);
      for (int mask = lanes / 2; mask > 0; mask /= 2) total += device.shuffle_xor(total, mask);
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) {
        int const e = member + lanes * c;
        value[c] = top == minus_infinity<float> ? 0.0f : value[c] / total;
        if (real && e < experts) device.store(&p(row, e), value[c]);
      }
      choose<float>(device, lanes, member == 0, real, index, row, [&](auto const& f) {
        HEADMIX_UNROLL
        for (int c = 0; c < 4; ++c) {
          int const e = member + lanes * c;
          f(candidate<float>{value[c], e < experts ? e : -1});
        }
      });
    }
  }
};

/// p = softmax(z) and index = the best columns of p, a team of lanes for each row.
template <class W>
struct softmax_top_k_kernel {
  static constexpr int threads = team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;

  view<W> p;
  view<Int> index;
  view<W const> z;
  team members;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = members.row(device);
    bool const real = i < z.rows;
    row_scale<W> const scale = scale_of_row<W>(device, members, z, i, real);
    Index const first = members.member(device), end = real ? z.cols : 0;
    auto const probability = [&](Index j) {
      return scale.top == minus_infinity<W> ? W(0) : exp_below(device.load(&z(i, j)), scale.top) / scale.sum;
    };
    for (Index j = first; j < end; j += members.size()) device.store(&p(i, j), probability(j));
    choose_columns<W>(device, members, real, index, i, view<W const>(p));  // a lane reads what it wrote
  }
};

/// Does all of it on tensor cores and returns true, or does nothing and returns false.
template <class Queue, class T>
[[nodiscard]] bool route_on_tensor_cores(Queue& queue, view<wide_t<T>> z, view<wide_t<T>> p, view<Int> index,
                                         view<T const> x, view<T const> w) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (!rows_are_aligned(x) || !rows_are_aligned(w) || x.count != 1 || w.cols > 128 || 1 > w.cols) return false;
    auto const launch = [&](auto const& kernel) { queue.launch(kernel, kernel.blocks()); };
    if (w.cols <= 16) {
      launch(route_tensor<16>{z, p, index, x, w});
    } else if (w.cols <= 32) {
      launch(route_tensor<32>{z, p, index, x, w});
    } else if (w.cols <= 64) {
      launch(route_tensor<64>{z, p, index, x, w});
    } else {
      launch(route_tensor<128>{z, p, index, x, w});
    }
    return true;
  } else {
    return false;
  }
}
template <class Queue, class W>
void softmax_top_k(Queue& queue, view<W> p, view<Int> index, view<W const> z) {
  team const members = team::of_lanes_for(z.cols);
  queue.launch(softmax_top_k_kernel<W>{p, index, z, members}, members.blocks(z.rows));
}

}  // namespace headmix::cuda

#pragma once
// SPDX-License-Identifier: MIT
// A router in one kernel: logits z = x w, probabilities p = softmax of some columns of z, index = the top-k columns of
// p. A block computes the logits of some rows on tensor cores and keeps them on chip until the experts are chosen. It
// also counts the choices and sums the probabilities of its rows; a second kernel reduces over blocks, and a third
// sorts the slots. Other routers take a product, and a kernel for softmax and choice. With
// cub::DeviceHistogram and cub::DeviceRadixSort, counts and order of 32 experts would take 10 launches after the choice
// instead of these 2 (tests/cuda/runtime/cub_test.cu).

#include <cmath>
#include <cstdint>

#include "headmix/backend/cuda/kernel/experts/sort_by_expert.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/routing/top_k.hpp"
#include "headmix/backend/cuda/kernel/rows/softmax.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/route_problem.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Partial results of the blocks of a router for each expert, and for no expert at the end; null: not computed.
struct route_parts {
  float* p_sums;   ///< [experts, blocks]
  Int* counts;     ///< [experts + 1, blocks]
  float* squares;  ///< [blocks]
};

/// 64 rows x up to `columns` columns of z by four warps, 16 rows each.
template <Half T, int columns>
struct route_tensor {
  static constexpr int warps = tuning::sm80::route.warps, threads = 32 * warps;
  static constexpr bool cooperative = true;
  static constexpr int rows = 16 * warps, depth = tuning::sm80::route.depth, stages = tuning::sm80::route.stages;
  static constexpr int a_bytes = rows * depth * 2, b_bytes = depth * columns * 2;
  static constexpr int shared_bytes = stages * (a_bytes + b_bytes);
  static constexpr int logit_row = columns + 4;  // rows of a fragment begin in different banks
  static constexpr int p_sums_at = rows * logit_row * 4, counts_at = p_sums_at + warps * columns * 4;
  static_assert(counts_at + warps * columns * 4 <= shared_bytes,
                "headmix: the counts of experts do not fit in shared memory");

  view<float> z, p;
  view<Int> index;
  view<float> log_sum;  ///< null: not computed, as a null s
  view<T const> x, w;
  route_parts parts;
  int before;  ///< columns of z before the experts' columns
  view<float> s;

  /// The number of blocks; an empty one without rows.
  [[nodiscard]] static Index blocks_of(Index n) { return n == 0 ? 1 : blocks_for(n, rows); }
  [[nodiscard]] Index blocks() const { return blocks_of(x.rows); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const row0 = device.block() * rows;
    int const thread = device.thread(), lane = device.lane(), warp = device.warp();
    int const height = static_cast<int>(x.rows - row0 < rows ? x.rows - row0 : rows);
    int const inner = static_cast<int>(x.cols), width = static_cast<int>(w.cols), experts = static_cast<int>(p.cols);

    auto const start = [&](int step, int stage) {
      int const k0 = step * depth;
      tile_copy<rows, depth, threads>::start(
          device, device.template shared<T>(stage * a_bytes), thread, height, inner - k0,
          [&](int, int i) { return x.data + (row0 + (i < height ? i : 0)) * x.row_stride + k0; });
      tile_copy<depth, columns, threads>::start(device, device.template shared<T>(stages * a_bytes + stage * b_bytes),
                                                thread, inner - k0, width,
                                                [&](int, int k) { return w.data + (Index{k0} + k) * w.row_stride; });
    };
    constexpr int n = columns / 8;
    fragment_position<depth, true> const a_position(lane, 16 * warp, 0);
    fragment_position<columns, true> const b_position(lane, 0, 0);
    float sum[1][n][4] = {};
    int const steps = (inner + depth - 1) / depth;
    HEADMIX_UNROLL
    for (int step = 0; step < stages - 1; ++step) {
      if (step < steps) start(step, step);
      device.cp_async_commit();
    }
    for (int step = 0; step < steps; ++step) {
      device.template cp_async_wait<stages - 2>();
      device.sync();
      if (step + stages - 1 < steps) start(step + stages - 1, (step + stages - 1) % stages);
      device.cp_async_commit();
      int const stage = step % stages;
      auto const left = device.template shared<T>(stage * a_bytes);
      auto const right = device.template shared<T>(stages * a_bytes + stage * b_bytes);
      HEADMIX_UNROLL
      for (int k = 0; k < depth; k += 16) {
        words<4> const a[1] = {load_a(device, left, a_position, 0, k)};
        words<4> b[n / 2];
        HEADMIX_UNROLL
        for (int j = 0; j < n / 2; ++j) b[j] = load_b(device, right, b_position, k, 16 * j);
        multiply_add<1, n, T>(device, sum, a, b);
      }
    }
    device.template cp_async_wait<0>();
    device.sync();  // the logits reuse the tiles' memory

    auto const logits = device.template shared<float>(16 * warp * logit_row * 4);  // rows of this warp
    HEADMIX_UNROLL
    for (int j = 0; j < n; ++j) {
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) {
        logits[(lane / 4 + c / 2 * 8) * logit_row + 8 * j + lane % 4 * 2 + c % 2] = sum[0][j][c];
      }
    }
    device.sync_warp();

    constexpr int lanes = columns / 4;  // of a row, four columns each
    int const lane_of_row = lane % lanes;
    float p_sum[4] = {};      // of this lane's columns, over its rows
    std::uint32_t count = 0;  // a byte for each column: a warp has 16 rows
    HEADMIX_NO_UNROLL
    for (int first = 0; first < 16; first += 32 / lanes) {
      int const i = first + lane / lanes;
      Index const row = row0 + 16 * warp + i;
      bool const valid = row < x.rows;
      float value[4], row_max = minus_infinity<float>, row_sum = 0;
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) {
        int const e = lane_of_row + lanes * c;
        if (valid && e < width) device.store(&z(row, e), float(logits[i * logit_row + e]));
        value[c] = e < experts ? float(logits[i * logit_row + before + e]) : minus_infinity<float>;
        if (s.data && valid && e < experts) device.store(&s(row, e), value[c]);
        row_max = maximum_or_nan{}(row_max, value[c]);
      }
      for (int mask = lanes / 2; mask > 0; mask /= 2)
        row_max = maximum_or_nan{}(row_max, device.shuffle_xor(row_max, mask));
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) row_sum += value[c] = exp_minus_max(value[c], row_max);
      for (int mask = lanes / 2; mask > 0; mask /= 2) row_sum += device.shuffle_xor(row_sum, mask);
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) {
        int const e = lane_of_row + lanes * c;
        value[c] = row_max == minus_infinity<float> ? 0.0f : value[c] / row_sum;
        if (valid && e < experts) device.store(&p(row, e), value[c]);
        if (valid) p_sum[c] += value[c];
      }
      if (valid && lane_of_row == 0) {
        float const row_log_sum = row_max + std::log(row_sum);
        if (log_sum.data) device.store(&log_sum(row, 0), row_log_sum);
        logits[i * logit_row] = row_log_sum;  // the logits of this row have been read
      }
      std::uint32_t rank[4];  // 0: no such column, or chosen
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) rank[c] = lane_of_row + lanes * c < experts ? rank_of(value[c]) : 0;
      auto const best_left = [&](candidate<float>) {
        candidate<float> best = {rank[0], lane_of_row};
        HEADMIX_UNROLL
        for (int c = 1; c < 4; ++c) {
          if (rank[c] > best.rank) best = {rank[c], lane_of_row + lanes * c};
        }
        return best;
      };
      choose<float>(device, lanes, index.cols, best_left, [&](Index k, Int column) {
        if (valid && lane_of_row == 0) device.store(&index(row, k), column);
        HEADMIX_UNROLL
        for (int c = 0; c < 4; ++c) {
          bool const mine = column == lane_of_row + lanes * c;
          count += std::uint32_t{valid && mine} << (8 * c);
          if (mine) rank[c] = 0;
        }
      });
    }
    if (parts.p_sums || parts.counts || parts.squares) store_partials<lanes>(device, experts, p_sum, count);
  }

 private:
  /// Adds the columns of all lanes and warps, in order.
  template <int lanes, class Device>
  HEADMIX_DEVICE void store_partials(Device& device, int experts, float (&p_sum)[4], std::uint32_t count) const {
    auto const p_sums = device.template shared<float>(p_sums_at);
    auto const counts = device.template shared<Int>(counts_at);
    HEADMIX_UNROLL
    for (int mask = lanes; mask < 32; mask *= 2) count += device.shuffle_xor(count, mask);
    HEADMIX_UNROLL
    for (int c = 0; c < 4; ++c) {
      HEADMIX_UNROLL
      for (int mask = lanes; mask < 32; mask *= 2) p_sum[c] += device.shuffle_xor(p_sum[c], mask);
      if (device.lane() < lanes) {
        int const at = device.warp() * columns + device.lane() + lanes * c;
        p_sums[at] = p_sum[c];
        counts[at] = static_cast<Int>(count >> (8 * c) & 0xFF);
      }
    }
    device.sync();
    Index const block = device.block(), blocks = device.blocks();
    if (parts.squares && device.warp() == 0) {
      // Each lane has two of the rows.
      float sum = 0;
      for (int i = device.lane(); i < rows && block * rows + i < x.rows; i += 32) {
        float const row_log_sum = device.template shared<float>(i * logit_row * 4)[0];
        sum += row_log_sum * row_log_sum;
      }
      for (int mask = 16; mask > 0; mask /= 2) sum += device.shuffle_xor(sum, mask);
      if (device.lane() == 0) device.store(parts.squares + block, sum);
    }
    for (int e = device.thread(); e <= experts; e += threads) {
      float sum = 0;
      Int chosen = 0;
      for (int from = e; e < experts && from < warps * columns; from += columns) {
        sum += p_sums[from];
        chosen += static_cast<Int>(counts[from]);
      }
      if (parts.p_sums && e < experts) device.store(parts.p_sums + e * blocks + block, sum);
      if (parts.counts) device.store(parts.counts + e * blocks + block, chosen);
    }
  }
};

/// Reduces over the blocks, one warp per expert. The counts become the offsets for the sort.
struct route_sums {
  static constexpr int threads = digit_pass::threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;

  view<float> p_sum, chosen_sum, squares;
  float const *p_sums, *square_sums;  ///< null: not computed, as null counts
  digit_pass pass;

  [[nodiscard]] Index blocks() const { return blocks_for(pass.digits, digit_pass::warps); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Int const expert = static_cast<Int>(device.block()) * digit_pass::warps + device.warp();
    bool const valid = expert < p_sum.cols;
    auto const add_up = [&](float const* parts, float* to) {
      float sum =
          sum_in_blocks<float, float>(device.lane(), pass.chunks, 32, [&](Index c) { return device.load(parts + c); });
      sum = team_reduce(device, team{5}, sum, plus{});
      if (device.lane() == 0) device.store(to, sum);
    };
    if (p_sums && valid) add_up(p_sums + expert * pass.chunks, &p_sum(0, expert));
    if (square_sums && expert == 0) add_up(square_sums, squares.data);
    if (pass.counts == nullptr || expert >= pass.digits) return;
    Int const total = pass.scan_chunks(device, expert);
    if (device.lane() > 0) return;
    device.store(pass.totals + expert, total);
    if (chosen_sum.data && expert < chosen_sum.cols) device.store(&chosen_sum(0, expert), static_cast<float>(total));
  }
};

/// p = softmax(z) and index = the top-k columns of p, a team of lanes per row.
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
    bool const valid = i < z.rows;
    softmax_statistics<W> const statistics = softmax_statistics_of_row<W>(device, members, z, i, valid);
    Index const first = members.member(device), end = valid ? z.cols : 0;
    auto const probability = [&](Index j) {
      return statistics.row_max == minus_infinity<W>
                 ? W(0)
                 : exp_minus_max(device.load(&z(i, j)), statistics.row_max) / statistics.sum;
    };
    for (Index j = first; j < end; j += members.size()) device.store(&p(i, j), probability(j));
    choose_columns<W>(device, members, valid, index, i, view<W const>(p));  // a lane reads the columns that it wrote
  }
};

/// Weights padded with zeros to rows of a multiple of 16 bytes.
template <class T>
struct padded_weights {
  static constexpr Index chunk = 16 / sizeof(T);
  view<T const> w;

  [[nodiscard]] static Index columns(Index experts) { return blocks_for(experts, chunk) * chunk; }

  struct padded {
    T const* data;
    Index stride, cols;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      return j < cols ? static_cast<P>(data[j * stride]) : P(0);
    }
  };
  HEADMIX_HD padded row(Index i) const { return {&w(i, 0), w.col_stride, w.cols}; }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS

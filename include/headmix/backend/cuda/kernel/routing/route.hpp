#pragma once
// SPDX-License-Identifier: MIT
// A router in one kernel: logits z = x w, probabilities p = softmax of some columns of z, index = the top-k columns of
// p. A block, or a cluster of blocks that share the depth, computes the logits of some rows on tensor cores and keeps
// them on chip until the experts are chosen. It also counts the choices and sums the probabilities of its rows; a
// second kernel reduces over blocks, and a third sorts the slots. Other routers take a product, and a kernel for
// softmax and choice. With cub::DeviceHistogram and cub::DeviceRadixSort, counts and order of 32 experts would take 10
// launches after the choice instead of these 2 (tests/cuda/runtime/cub_test.cu).

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
  float* firsts;   ///< first choices, [experts, blocks]
  float* squares;  ///< [blocks]
};

/// 64 rows x up to `columns` columns of z by a cluster of blocks of four warps. A block multiplies a part of the depth;
/// it then sums the logits of its share of the rows, in the order of the blocks, and chooses their experts.
template <Half T, int columns, int cluster_ = 1>
struct route_tensor {
  static constexpr int warps = tuning::sm80::route.warps, threads = 32 * warps, cluster = cluster_;
  static constexpr bool cooperative = true, warpgroups = cluster > 1;
  static constexpr int tile_rows = 16 * warps, rows = tile_rows / cluster, warp_rows = rows / warps;
  static constexpr int depth = tuning::sm80::route.depth;
  static constexpr int stages = cluster > 1 && columns <= 64 ? tuning::sm90a::route.stages : tuning::sm80::route.stages;
  static constexpr int a_bytes = tile_rows * depth * 2, b_bytes = depth * columns * 2;
  static constexpr int shared_bytes = stages * (a_bytes + b_bytes);
  static constexpr int logit_row = columns + 4;                 // rows of a fragment begin in different banks
  static constexpr int part_bytes = tile_rows * logit_row * 4;  // logits of the tile over a part of the depth
  static constexpr int logits_at = cluster > 1 ? part_bytes : 0;
  static constexpr int p_sums_at = logits_at + rows * logit_row * 4, counts_at = p_sums_at + warps * columns * 4;
  static constexpr int firsts_at = counts_at + warps * columns * 4;
  static_assert(firsts_at + warps * columns * 4 <= shared_bytes,
                "headmix: the counts of experts do not fit in shared memory");

  // Lanes of a row and columns of a lane; rows that a warp works on at a time, and passes in flight, whose shuffles do
  // not wait for each other.
  static constexpr int wide_lanes = columns < 64 ? columns / 4 : 32, min_lanes = 32 / warp_rows;
  static constexpr int lanes = wide_lanes > min_lanes ? wide_lanes : min_lanes, each = columns / lanes;
  static constexpr int together = 32 / lanes, passes = warp_rows / together, in_flight = passes < 4 ? passes : 4;

  view<float> z, p;  ///< null z: not written, as null log_sum and s
  view<Int> index;
  view<float> log_sum;
  view<T const> x, w;
  route_parts parts;
  int before;  ///< columns of z before the experts' columns
  view<float> s;

  /// The number of blocks; one cluster without rows.
  [[nodiscard]] static Index blocks_of(Index n) { return cluster * (n == 0 ? 1 : blocks_for(n, tile_rows)); }
  [[nodiscard]] Index blocks() const { return blocks_of(x.rows); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    multiply(device);
    if constexpr (cluster > 1) {
      device.sync_cluster();
      add_parts(device);
    }
    device.sync_warp();
    choose_experts(device);
    if constexpr (cluster > 1) device.sync_cluster();  // the others have read this block's parts
  }

 private:
  /// Writes the logits of the tile, over the block's part of the depth, to shared memory.
  template <class Device>
  HEADMIX_DEVICE void multiply(Device& device) const {
    Index const row0 = device.block() / cluster * tile_rows;
    int const thread = device.thread(), lane = device.lane(), warp = device.warp();
    int const height = static_cast<int>(x.rows - row0 < tile_rows ? x.rows - row0 : tile_rows);
    int const inner = static_cast<int>(x.cols), width = static_cast<int>(w.cols);
    int first_step = 0, steps = (inner + depth - 1) / depth;
    if constexpr (cluster > 1) {
      int const rank = device.rank(), all = steps;
      first_step = all * rank / cluster;
      steps = all * (rank + 1) / cluster - first_step;
    }

    auto const start = [&](int step, int stage) {
      int const k0 = (first_step + step) * depth;
      tile_copy<tile_rows, depth, threads>::start(
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
  }
  /// Sums the parts of this warp's rows over the blocks of the cluster.
  template <class Device>
  HEADMIX_DEVICE void add_parts(Device& device) const {
    constexpr int chunks = columns / 4;  // of 16 bytes, of a row
    for (int i = device.lane(); i < warp_rows * chunks; i += 32) {
      int const row = warp_rows * device.warp() + i / chunks, at = i % chunks * 4;
      auto const part = device.template shared<float>(((rows * device.rank() + row) * logit_row + at) * 4);
      words<4> from[cluster], sums;
      HEADMIX_UNROLL
      for (int rank = 0; rank < cluster; ++rank) from[rank] = device.load16_at(part, rank);
      HEADMIX_UNROLL
      for (int c = 0; c < 4; ++c) {
        float sum = __builtin_bit_cast(float, from[0].word[c]);
        HEADMIX_UNROLL
        for (int rank = 1; rank < cluster; ++rank) sum += __builtin_bit_cast(float, from[rank].word[c]);
        sums.word[c] = __builtin_bit_cast(std::uint32_t, sum);
      }
      device.store16(device.template shared<float>(logits_at + (row * logit_row + at) * 4), sums);
    }
  }
  /// Softmax and choice of this warp's rows, and the partial results of the block.
  template <class Device>
  HEADMIX_DEVICE void choose_experts(Device& device) const {
    Index const row0 = device.block() * rows + warp_rows * device.warp();
    int const width = static_cast<int>(w.cols), experts = static_cast<int>(p.cols);
    int const lane_of_row = device.lane() % lanes;
    auto const logits = device.template shared<float>(logits_at + warp_rows * device.warp() * logit_row * 4);
    float p_sum[each] = {};               // of this lane's columns, over its rows
    std::uint32_t count = 0, firsts = 0;  // a byte for each column: a warp has at most 16 rows
    HEADMIX_NO_UNROLL
    for (int pass = 0; pass < passes; pass += in_flight) {
      auto const row_of_warp = [&](int r) { return (pass + r) * together + device.lane() / lanes; };
      auto const is_valid = [&](int r) { return row0 + row_of_warp(r) < x.rows; };
      float value[in_flight][each], row_max[in_flight], row_sum[in_flight];
      HEADMIX_UNROLL
      for (int r = 0; r < in_flight; ++r) {
        auto const of_row = logits + row_of_warp(r) * logit_row;
        Index const row = row0 + row_of_warp(r);
        row_max[r] = minus_infinity<float>;
        row_sum[r] = 0;
        HEADMIX_UNROLL
        for (int c = 0; c < each; ++c) {
          int const e = lane_of_row + lanes * c;
          if (z.data && is_valid(r) && e < width) device.store(&z(row, e), float(of_row[e]));
          value[r][c] = e < experts ? float(of_row[before + e]) : minus_infinity<float>;
          if (s.data && is_valid(r) && e < experts) device.store(&s(row, e), value[r][c]);
          row_max[r] = maximum_or_nan{}(row_max[r], value[r][c]);
        }
      }
      for_all_lanes(device, row_max, maximum_or_nan{});
      HEADMIX_UNROLL
      for (int r = 0; r < in_flight; ++r) {
        HEADMIX_UNROLL
        for (int c = 0; c < each; ++c) row_sum[r] += value[r][c] = exp_minus_max(value[r][c], row_max[r]);
      }
      for_all_lanes(device, row_sum, plus{});
      std::uint32_t rank[in_flight][each];  // 0: no such column, or chosen
      HEADMIX_UNROLL
      for (int r = 0; r < in_flight; ++r) {
        Index const row = row0 + row_of_warp(r);
        HEADMIX_UNROLL
        for (int c = 0; c < each; ++c) {
          int const e = lane_of_row + lanes * c;
          float const probability = row_max[r] == minus_infinity<float> ? 0.0f : value[r][c] / row_sum[r];
          if (is_valid(r) && e < experts) device.store(&p(row, e), probability);
          if (is_valid(r)) p_sum[c] += probability;
          rank[r][c] = e < experts ? rank_of(probability) : 0;
        }
        if (is_valid(r) && lane_of_row == 0) {
          float const row_log_sum = row_max[r] + std::log(row_sum[r]);
          if (log_sum.data) device.store(&log_sum(row, 0), row_log_sum);
          logits[row_of_warp(r) * logit_row] = row_log_sum;  // the logits of this row have been read
        }
      }
      auto const best_left = [&](int r, candidate<float>) {
        candidate<float> best = {rank[r][0], lane_of_row};
        HEADMIX_UNROLL
        for (int c = 1; c < each; ++c) {
          if (rank[r][c] > best.rank) best = {rank[r][c], lane_of_row + lanes * c};
        }
        return best;
      };
      choose<float, in_flight>(device, lanes, index.cols, best_left, [&](int r, Index k, Int column) {
        bool const valid = is_valid(r);
        if (valid && lane_of_row == 0) device.store(&index(row0 + row_of_warp(r), k), column);
        HEADMIX_UNROLL
        for (int c = 0; c < each; ++c) {
          bool const mine = column == lane_of_row + lanes * c;
          std::uint32_t const one = std::uint32_t{valid && mine} << (8 * c);
          count += one;
          firsts += k == 0 ? one : 0;
          if (mine) rank[r][c] = 0;
        }
      });
    }
    if (parts.p_sums || parts.counts || parts.firsts || parts.squares) {
      store_partials(device, experts, p_sum, count, firsts);
    }
  }
  /// combine() over the lanes of each row; all of them get the result.
  template <class Device, class Combine>
  HEADMIX_DEVICE static void for_all_lanes(Device& device, float (&value)[in_flight], Combine combine) {
    HEADMIX_UNROLL
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      HEADMIX_UNROLL
      for (int r = 0; r < in_flight; ++r) value[r] = combine(value[r], device.shuffle_xor(value[r], mask));
    }
  }
  /// Adds the columns of all lanes and warps, in order.
  template <class Device>
  HEADMIX_DEVICE void store_partials(Device& device, int experts, float (&p_sum)[each], std::uint32_t count,
                                     std::uint32_t firsts) const {
    auto const p_sums = device.template shared<float>(p_sums_at);
    auto const counts = device.template shared<Int>(counts_at), first_counts = device.template shared<Int>(firsts_at);
    HEADMIX_UNROLL
    for (int mask = lanes; mask < 32; mask *= 2) {
      count += device.shuffle_xor(count, mask);
      firsts += device.shuffle_xor(firsts, mask);
    }
    HEADMIX_UNROLL
    for (int c = 0; c < each; ++c) {
      HEADMIX_UNROLL
      for (int mask = lanes; mask < 32; mask *= 2) p_sum[c] += device.shuffle_xor(p_sum[c], mask);
      if (device.lane() < lanes) {
        int const at = device.warp() * columns + device.lane() + lanes * c;
        p_sums[at] = p_sum[c];
        counts[at] = static_cast<Int>(count >> (8 * c) & 0xFF);
        first_counts[at] = static_cast<Int>(firsts >> (8 * c) & 0xFF);
      }
    }
    device.sync();
    Index const block = device.block(), blocks = device.blocks();
    if (parts.squares && device.warp() == 0) {
      float sum = 0;
      for (int i = device.lane(); i < rows && block * rows + i < x.rows; i += 32) {
        float const row_log_sum = device.template shared<float>(logits_at + i * logit_row * 4)[0];
        sum += row_log_sum * row_log_sum;
      }
      for (int mask = 16; mask > 0; mask /= 2) sum += device.shuffle_xor(sum, mask);
      if (device.lane() == 0) device.store(parts.squares + block, sum);
    }
    for (int e = device.thread(); e <= experts; e += threads) {
      float sum = 0;
      Int chosen = 0, first = 0;
      for (int from = e; e < experts && from < warps * columns; from += columns) {
        sum += p_sums[from];
        chosen += static_cast<Int>(counts[from]);
        first += static_cast<Int>(first_counts[from]);
      }
      if (parts.p_sums && e < experts) device.store(parts.p_sums + e * blocks + block, sum);
      if (parts.firsts && e < experts) device.store(parts.firsts + e * blocks + block, static_cast<float>(first));
      if (parts.counts) device.store(parts.counts + e * blocks + block, chosen);
    }
  }
};

/// Reduces over the blocks, one warp per expert. The counts become the offsets for the sort.
struct route_sums {
  static constexpr int threads = digit_pass::threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;

  view<float> p_sum, chosen_sum, first_sum, squares;
  route_parts parts;
  digit_pass pass;

  [[nodiscard]] Index blocks() const { return blocks_for(pass.digits, digit_pass::warps); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Int const expert = static_cast<Int>(device.block()) * digit_pass::warps + device.warp();
    bool const valid = expert < pass.keys.each;
    auto const add_up = [&](float const* of_blocks, float* to) {
      float sum = sum_in_blocks<float, float>(device.lane(), pass.chunks, 32,
                                              [&](Index c) { return device.load(of_blocks + c); });
      sum = team_reduce(device, team{5}, sum, plus{});
      if (device.lane() == 0) device.store(to, sum);
    };
    if (parts.p_sums && valid) add_up(parts.p_sums + expert * pass.chunks, &p_sum(0, expert));
    if (parts.firsts && valid) add_up(parts.firsts + expert * pass.chunks, &first_sum(0, expert));
    if (parts.squares && expert == 0) add_up(parts.squares, squares.data);
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

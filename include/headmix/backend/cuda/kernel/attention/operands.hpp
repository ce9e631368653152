#pragma once
// SPDX-License-Identifier: MIT
// The gradients of the operands of score maps. A block has a tile of a row list and loops over the keys that its rows
// see; it writes a sum for each row, and a second kernel adds these in a fixed order. Probabilities are recomputed from
// the log-sum-exp.

#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/plain_tile.hpp"
#include "headmix/backend/cuda/kernel/attention/statistics.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// The sums of each row and head, one for each operand.
template <class Wide, int operands>
struct attention_row_sums {
  Wide* data = nullptr;
  Index heads = 1;  ///< columns of the log-sum-exp

  [[nodiscard]] HEADMIX_HD Wide* at(Index row, Index head) const { return data + (row * heads + head) * operands; }
};

/// Plain kernel: any type, strides and head width, with dropout.
template <AttentionMask Mask, class T, class Map>
struct attention_operand_sums {
  using wide = accumulator_t<T>;
  using tile = plain_tile;
  static constexpr int threads = tile::threads, operands = Map::operands;
  static constexpr bool cooperative = true;
  static constexpr int wide_bytes = static_cast<int>(sizeof(wide));
  static constexpr int small_bytes = tile::rows * tile::pitch * wide_bytes;
  static constexpr int row_offsets_at = 2 * small_bytes;
  static constexpr int row_ranges_at = row_offsets_at + 2 * tile::rows * static_cast<int>(sizeof(Index));
  static constexpr int shared_bytes = row_ranges_at + 3 * tile::rows * 4;

  attention_backward<T, Map> p;
  attention_statistics<wide> statistics;
  attention_row_sums<wide, operands> sums;
  attention_tiles tiles;
  wide scale;         ///< of products q k
  bool only_dropout;  ///< true: return at once unless dropout is on (another kernel has done the rest)

  [[nodiscard]] Index blocks() const { return tiles.count(); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    attention_extents const& x = p.extents;
    bool const drops = p.dropout.on();
    if (only_dropout && !drops) return;
    attention_tile const block_tile = tiles(device, device.block());
    Index const b = block_tile.sequence, length = x.list_length(b, block_tile.list);
    if (block_tile.first >= length) return;

    auto const left = device.template shared<wide>(0), right = device.template shared<wide>(small_bytes);
    auto const rows = device.template shared<Index>(row_offsets_at);
    auto const cols = rows + tile::rows;
    auto const row_ranges = device.template shared<int>(row_ranges_at);
    plain_compute_rows<Mask>(device, x, block_tile, rows, cols, row_ranges);
    device.sync();
    using query_rows = plain_rows<T, std::remove_cv_t<decltype(rows)>>;
    query_rows const q{p.q.data, rows, cols, p.q.row_stride, p.q.col_stride};
    query_rows const d_o{p.d_o.data, rows, cols, p.d_o.row_stride, p.d_o.col_stride};
    Index const left_rows = block_tile.rows_of(length);
    tile_visible_range const visible_range = visible_range_of_rows<Mask>(
        device, row_ranges, left_rows < tile::rows ? static_cast<int>(left_rows) : tile::rows);
    int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8 * 4;
    wide shift[2] = {}, delta[2] = {}, sum[2][operands] = {};
    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      Index const row = rows[i0 + i], head = cols[i0 + i] / x.head_dim;
      if (row < 0) continue;
      shift[i] = device.load(statistics.shift(row, head));
      delta[i] = device.load(statistics.delta(row, head));
    }

    for (int first = visible_range.begin / tile::rows * tile::rows; first < visible_range.end; first += tile::rows) {
      wide score[2][4], d_score[2][4];
      plain_products(device, score, left, right, q, plain_keys_of(x, p.k, b, block_tile.kv_head, first), x.head_dim);
      device.sync();
      plain_products(device, d_score, left, right, d_o, plain_keys_of(x, p.v, b, block_tile.kv_head, first),
                     x.head_dim);
      HEADMIX_UNROLL
      for (int i = 0; i < 2; ++i) {
        row_visible_range const row = load_visible_range(row_ranges, i0 + i);
        if (shift[i] == -minus_infinity<wide>) continue;  // no visible score above minus infinity
        bool const single = row.end - row.begin == 1;     // probability 1, whatever its score
        plain_scores<wide, T, Map> const score_of(p.scores, scale, row.position,
                                                  head_of_row(x, block_tile.list, cols[i0 + i]));
        wide factor[4] = {1, 1, 1, 1};
        if (drops && rows[i0 + i] >= 0) {
          dropout_factors<wide>(p.dropout, x, rows[i0 + i], cols[i0 + i]).four(first + j0, factor);
        }
        HEADMIX_UNROLL
        for (int j = 0; j < 4; ++j) {
          if (!row.template sees<Mask>(first + j0 + j)) continue;
          auto const mapped = score_of.derivatives(device, score[i][j], first + j0 + j);
          wide const probability = exponential(device, mapped.value - shift[i]);
          wide const d = probability * (factor[j] * d_score[i][j] - delta[i]);
          if (single && d == d) continue;
          HEADMIX_UNROLL
          for (int o = 0; o < operands; ++o) sum[i][o] += through_map<Map>(d, probability, mapped.by_operand[o]);
        }
      }
      device.sync();
    }

    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      Index const row = rows[i0 + i], head = cols[i0 + i] / x.head_dim;
      HEADMIX_UNROLL
      for (int o = 0; o < operands; ++o) {
        HEADMIX_UNROLL
        for (int step = 1; step < 8; step *= 2) sum[i][o] += device.shuffle_xor(sum[i][o], step);
        if (row >= 0 && device.thread() % 8 == 0) device.store(sums.at(row, head) + o, sum[i][o]);
      }
    }
  }
};

/// Tensor-core kernel, bfloat16: 4 warps of 16 `m` rows each, `keys` keys at a time. Rows are aligned; the list
/// satisfies is_small.
template <AttentionMask Mask, class Map, int width, int m, int keys>
struct attention_operand_sums_tensor {
  static constexpr int warps = 4, threads = 32 * warps, operands = Map::operands;
  static constexpr bool cooperative = true;
  static constexpr int rows = 16 * m * warps;
  static constexpr int query_bytes = rows * width * 2, key_bytes = keys * width * 2;
  static constexpr int stages_at = 2 * query_bytes;  // keys and values, two of each
  static constexpr int row_ranges_at = stages_at + 4 * key_bytes;
  static constexpr int row_offsets_at = row_ranges_at + 3 * rows * 4;
  static constexpr int shared_bytes = row_offsets_at + 2 * rows * 4;

  attention_backward<bfloat16, Map> p;
  attention_statistics<float> statistics;
  attention_row_sums<float, operands> sums;
  attention_tiles tiles;
  row_divisors divisors;
  float scale;

  [[nodiscard]] Index blocks() const { return tiles.count(); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // left to the plain kernel
    attention_extents const& x = p.extents;
    attention_tile const block_tile = tiles(device, device.block());
    small_row_list const list(x, block_tile.sequence, block_tile.list, divisors);
    if (block_tile.first >= list.length()) return;
    small_keys const all_keys(x, block_tile, divisors, width);
    int const left = static_cast<int>(block_tile.rows_of(list.length()));
    int const thread = device.thread(), lane = device.lane(), warp_row = device.warp() * (16 * m);

    auto const queries = device.template shared<bfloat16>(0), d_outs = queries + rows * width;
    auto const row_ranges = device.template shared<int>(row_ranges_at);
    auto const numbers = device.template shared<int>(row_offsets_at);
    shared_row_offsets<2, std::remove_cv_t<decltype(numbers)>> const row_offsets{numbers};
    compute_row_offsets<Mask, rows, width, threads>(device, list, static_cast<int>(block_tile.first), left, divisors,
                                                    all_keys.count, row_offsets, row_ranges);
    device.sync();
    using row_copy = tile_copy<rows, width, threads>;
    row_copy::start(device, queries, thread, width, [&](int, int i) { return row_offsets.of(p.q, i); });
    row_copy::start(device, d_outs, thread, width, [&](int, int i) { return row_offsets.of(p.d_o, i); });
    tile_visible_range const visible_range = visible_range_of_rows<Mask>(device, row_ranges, left < rows ? left : rows);
    auto const start = [&](int first, int stage) {
      using copy = tile_copy<keys, width, threads>;
      auto const to = device.template shared<bfloat16>(stages_at + stage * 2 * key_bytes);
      copy::start(device, to, thread, width, [&](int, int s) { return all_keys.of(p.k, first + s); });
      copy::start(device, to + keys * width, thread, width, [&](int, int s) { return all_keys.of(p.v, first + s); });
    };

    constexpr int key_blocks = keys / 8;
    float sum[m][2][operands] = {};
    int const begin = visible_range.begin / keys * keys;
    if (begin < visible_range.end) start(begin, 0);
    device.cp_async_commit();
    int stage = 0;
    for (int first = begin; first < visible_range.end; first += keys) {
      device.template cp_async_wait<0>();
      device.sync();  // this stage has arrived, and all threads have read the other one
      if (first + keys < visible_range.end) start(first + keys, stage ^ 1);
      device.cp_async_commit();
      auto const key = device.template shared<bfloat16>(stages_at + stage * 2 * key_bytes);
      auto const value = key + keys * width;
      stage ^= 1;

      float score[m][key_blocks][4] = {}, d_score[m][key_blocks][4] = {};
      multiply_transposed<width>(device, score, queries, warp_row, key, 0);
      multiply_transposed<width>(device, d_score, d_outs, warp_row, value, 0);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int half = 0; half < 2; ++half) {
          int const r = warp_row + 16 * i + 8 * half + lane / 4, row = row_offsets.row(r),
                    col = row_offsets.col(r) / width;
          if (row < 0) continue;
          float const shift = device.load(statistics.shift(row, col)), delta = device.load(statistics.delta(row, col));
          row_visible_range const row_range = load_visible_range(row_ranges, r);
          if (shift == -minus_infinity<float>) continue;             // no visible score above minus infinity
          bool const single = row_range.end - row_range.begin == 1;  // probability 1, whatever its score
          auto const of_row = p.scores.row(row_range.position, list.slots ? static_cast<int>(block_tile.list) : col);
          HEADMIX_UNROLL
          for (int j = 0; j < key_blocks; ++j) {
            HEADMIX_UNROLL
            for (int e = 0; e < 2; ++e) {
              int const s = first + 8 * j + lane % 4 * 2 + e;
              if (!row_range.template sees<Mask>(s)) continue;
              auto const mapped = Map::derivatives(of_row, score[i][j][2 * half + e] * scale, static_cast<float>(s));
              float const probability = device.exp2(mapped.value * static_cast<float>(log2_of_e) - shift);
              float const d = probability * (d_score[i][j][2 * half + e] - delta);
              if (single && d == d) continue;
              HEADMIX_UNROLL
              for (int o = 0; o < operands; ++o) {
                sum[i][half][o] += through_map<Map>(d, probability, mapped.by_operand[o]);
              }
            }
          }
        }
      }
    }
    device.template cp_async_wait<0>();

    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        int const r = warp_row + 16 * i + 8 * half + lane / 4, row = row_offsets.row(r);
        HEADMIX_UNROLL
        for (int o = 0; o < operands; ++o) {
          float all = sum[i][half][o];
          all += device.shuffle_xor(all, 1);
          all += device.shuffle_xor(all, 2);
          if (row >= 0 && lane % 4 == 0) device.store(sums.at(row, row_offsets.col(r) / width) + o, all);
        }
      }
    }
  }
};

/// The gradients from the sums of rows: a block for each operand and head. If an operand is one number, the first block
/// adds the sums of all heads.
template <class Wide, int operands>
struct attention_add_operand_sums {
  static constexpr int threads = tuning::operand_sum_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = threads * static_cast<int>(sizeof(Wide));

  attention_extents x;
  attention_row_sums<Wide, operands> sums;
  operand_gradients<Wide, operands> d;

  [[nodiscard]] Index blocks() const { return operands * x.heads; }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    int const o = static_cast<int>(device.block() % operands), thread = device.thread();
    Index const head = device.block() / operands;
    view<Wide> gradient = d.by[0];
    HEADMIX_UNROLL
    for (int i = 1; i < operands; ++i) gradient = o == i ? d.by[i] : gradient;
    bool const of_all = gradient.cols != x.heads;
    if (gradient.data == nullptr || (of_all && head > 0)) return;

    Wide sum = 0;
    double blocks = 0;
    int terms = 0;
    auto const add = [&](Wide term) {
      sum += term;
      if (++terms < block_terms) return;
      blocks += static_cast<double>(sum);
      sum = 0;
      terms = 0;
    };
    if (x.heads_are_chosen()) {
      for (Index b = 0; b < x.queries.count; ++b) {
        Int const* const begins = x.chosen.offsets + b * x.heads;
        Index const end = begins[of_all ? x.heads : head + 1];
        for (Index i = begins[head] + thread; i < end; i += threads) {
          add(device.load(sums.at(x.chosen.slots[i], 0) + o));
        }
      }
    } else {
      Index const first = of_all ? 0 : head, last = of_all ? x.heads : head + 1;
      for (Index row = thread; row < x.queries.rows * x.rows_per_token; row += threads) {
        for (Index h = first; h < last; ++h) add(device.load(sums.at(row, h) + o));
      }
    }
    auto const all = device.template shared<Wide>(0);
    all[thread] = static_cast<Wide>(blocks + static_cast<double>(sum));
    HEADMIX_UNROLL
    for (int n = threads / 2; n > 0; n /= 2) {
      device.sync();
      if (thread < n) all[thread] += all[thread + n];
    }
    if (thread == 0) device.store(&gradient(0, head), Wide(all[0]));
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS

#pragma once
// SPDX-License-Identifier: MIT
// The gradient of a bias of attention scores, summed over the sequences. A block owns a tile of positions and keys of a
// head and loops over the sequences in order, so no sum is shared between blocks. Probabilities are recomputed from the
// log-sum-exp.

#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/plain_tile.hpp"
#include "headmix/backend/cuda/kernel/attention/statistics.hpp"

namespace headmix::cuda_kernels {

/// Plain kernel: any type, strides and head width, with dropout.
template <AttentionMask Mask, class T, class Map>
struct attention_bias_gradient_plain {
  using wide = accumulator_t<T>;
  using tile = plain_tile;
  static constexpr int threads = tile::threads;
  static constexpr bool cooperative = true;
  static constexpr int wide_bytes = static_cast<int>(sizeof(wide));
  static constexpr int small_bytes = tile::rows * tile::pitch * wide_bytes;
  static constexpr int statistics_at = 2 * small_bytes;
  static constexpr int row_offsets_at = statistics_at + 2 * tile::rows * wide_bytes;
  static constexpr int row_ranges_at = row_offsets_at + 2 * tile::rows * static_cast<int>(sizeof(Index));
  static constexpr int shared_bytes = row_ranges_at + 3 * tile::rows * 4;

  view<T> d_bias;
  attention_backward<T, Map> p;
  attention_statistics<wide> statistics;
  wide scale;  ///< of products q k

  [[nodiscard]] HEADMIX_HD Index positions() const { return d_bias.rows / p.scores.bias_keys; }
  [[nodiscard]] Index blocks() const {
    return p.extents.heads * blocks_for(positions(), tile::rows) * blocks_for(p.scores.bias_keys, tile::rows);
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    attention_extents const& x = p.extents;
    bool const drops = p.dropout.on();
    Index const column_tiles = blocks_for(p.scores.bias_keys, tile::rows),
                row_tiles = blocks_for(positions(), tile::rows);
    Index const head = device.block() / (row_tiles * column_tiles), kv = head / x.group();
    Index const first_position = device.block() / column_tiles % row_tiles * tile::rows;
    int const first_key = static_cast<int>(device.block() % column_tiles * tile::rows);

    auto const left = device.template shared<wide>(0), right = device.template shared<wide>(small_bytes);
    auto const row_statistics = device.template shared<wide>(statistics_at);
    auto const rows = device.template shared<Index>(row_offsets_at);
    auto const cols = rows + tile::rows;
    auto const row_ranges = device.template shared<int>(row_ranges_at);
    using query_rows = plain_rows<T, std::remove_cv_t<decltype(rows)>>;
    query_rows const q{p.q.data, rows, cols, p.q.row_stride, p.q.col_stride};
    query_rows const d_o{p.d_o.data, rows, cols, p.d_o.row_stride, p.d_o.col_stride};
    int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8 * 4;
    wide sum[2][4] = {};
    double blocks[2][4] = {};  // sums over many sequences: see block_terms
    int terms = 0;

    for (Index b = 0; b < x.queries.count; ++b) {
      Index const keys = x.keys.length(b);
      if (first_key >= keys) continue;
      // Row `token_row` of each position. Once no row of the tile sees a key, later rows see none.
      for (Index token_row = 0; token_row < x.rows_per_token; ++token_row) {
        if (int const i = device.thread(); i < tile::rows) {
          query_row const at = row_at(b, head, first_position + i, token_row);
          plain_store_row<Mask>(at, i, keys, rows, cols, row_ranges);
          Index const in_row = at.col / x.head_dim;
          row_statistics[2 * i] = at.row >= 0 ? device.load(statistics.shift(at.row, in_row)) : wide(0);
          row_statistics[2 * i + 1] = at.row >= 0 ? device.load(statistics.delta(at.row, in_row)) : wide(0);
          mask_row_without_scores(row_ranges, i, wide(row_statistics[2 * i]));
        }
        device.sync();
        if (!visible_range_of_rows<Mask>(device, row_ranges, tile::rows).overlaps(first_key, first_key + tile::rows)) {
          device.sync();
          break;
        }
        wide score[2][4], d_score[2][4];
        plain_products(device, score, left, right, q, plain_keys_of(x, p.k, b, kv, first_key), x.head_dim);
        device.sync();
        plain_products(device, d_score, left, right, d_o, plain_keys_of(x, p.v, b, kv, first_key), x.head_dim);
        HEADMIX_UNROLL
        for (int i = 0; i < 2; ++i) {
          int const row = i0 + i, s0 = first_key + j0;
          row_visible_range const row_range = load_visible_range(row_ranges, row);
          plain_scores<wide, T, Map> const score_of(p.scores, scale, row_range.position, head);
          wide factor[4] = {1, 1, 1, 1};
          if (drops && rows[row] >= 0) dropout_factors<wide>(p.dropout, x, rows[row], cols[row]).four(s0, factor);
          HEADMIX_UNROLL
          for (int j = 0; j < 4; ++j) {
            if (!row_range.template sees<Mask>(s0 + j)) continue;
            wide slope = 1;
            wide const probability = exponential(
                device, plain_score(device, score_of, score[i][j], s0 + j, slope) - row_statistics[2 * row]);
            sum[i][j] += through_map<Map>(probability * (factor[j] * d_score[i][j] - row_statistics[2 * row + 1]),
                                          probability, slope);
          }
        }
        if (++terms == block_terms) {
          terms = 0;
          HEADMIX_UNROLL
          for (int i = 0; i < 8; ++i) {
            blocks[i / 4][i % 4] += static_cast<double>(sum[i / 4][i % 4]);
            sum[i / 4][i % 4] = 0;
          }
        }
        device.sync();
      }
    }

    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      HEADMIX_UNROLL
      for (int j = 0; j < 4; ++j) {
        Index const position = first_position + i0 + i, s = first_key + j0 + j;
        if (position >= positions() || s >= p.scores.bias_keys) continue;
        device.store(&d_bias(position * p.scores.bias_keys + s, head),
                     static_cast<T>(static_cast<wide>(blocks[i][j] + static_cast<double>(sum[i][j]))));
      }
    }
  }

 private:
  /// Row `token_row` of a head at a position of a sequence.
  [[nodiscard]] HEADMIX_DEVICE query_row row_at(Index b, Index head, Index position, Index token_row) const {
    attention_extents const& x = p.extents;
    Index const t = position - x.first_position(b);
    if (t < 0 || t >= x.queries.length(b)) return {-1, 0, 0, 0};
    Index const first = (x.queries.begin(b) + t) * x.rows_per_token;
    if (!x.heads_are_chosen()) return {first + token_row, head * x.head_dim, position, head};
    Int const* const offsets = x.chosen.offsets + (b * x.heads + head);
    Index low = offsets[0], high = offsets[1];
    Index const end = high;
    while (low < high) {  // to the list's first slot of this token or a later one
      Index const middle = (low + high) / 2;
      if (x.chosen.slots[middle] < first) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    low += token_row;
    if (low >= end || x.chosen.slots[low] >= first + x.rows_per_token) return {-1, 0, 0, 0};
    return {x.chosen.slots[low], 0, position, head};
  }
};

}  // namespace headmix::cuda_kernels

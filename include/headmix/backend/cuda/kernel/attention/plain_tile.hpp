#pragma once
// SPDX-License-Identifier: MIT
// Common parts of the attention kernels without tensor cores: tiles of 32 rows and 32 keys in shared memory, by 128
// threads.

#include <cstdint>
#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/random.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Thread t has the sums of rows t / 8 * 2 and t / 8 * 2 + 1: in a tile of scores, columns t % 8 * 4 and three more; in
/// a tile of the output, columns t % 8, t % 8 + 8, ...
struct plain_tile {
  static constexpr int threads = 128;
  static constexpr int rows = 32;          ///< query rows, and keys
  static constexpr int depth = 32;         ///< of a step of a product
  static constexpr int pitch = depth + 1;  ///< no bank conflicts when threads read columns
};

/// Output columns per block; wider heads take several blocks.
template <class Wide>
inline constexpr int plain_columns =
    std::is_same_v<Wide, double> ? tuning::plain_double_columns : tuning::plain_columns;

/// Query rows of a tile, with row offsets in shared memory.
template <class T, class Pointer>
struct plain_rows {
  T const* data;
  Pointer rows, cols;  ///< of the matrix; row -1 for none
  Index row_stride, col_stride;

  [[nodiscard]] HEADMIX_DEVICE bool valid(int i) const { return rows[i] >= 0; }
  [[nodiscard]] HEADMIX_DEVICE T const* at(int i, Index col) const {
    Index const r = rows[i], c = cols[i];
    return data + r * row_stride + (c + col) * col_stride;
  }
};
/// Keys of a tile: consecutive rows.
template <class T>
struct plain_keys {
  T const* data;  ///< the tile's first key, at the head's first column
  Index count;    ///< number of keys
  Index row_stride, col_stride;

  [[nodiscard]] HEADMIX_DEVICE bool valid(int i) const { return i < count; }
  [[nodiscard]] HEADMIX_DEVICE T const* at(int i, Index col) const { return data + i * row_stride + col * col_stride; }
};

/// The rows of a matrix from a key of a sequence on, in the columns of a head.
template <class T>
[[nodiscard]] HEADMIX_DEVICE plain_keys<T> plain_keys_of(attention_extents const& x, view<T const> a, Index sequence,
                                                         Index kv_head, Index first) {
  return {&a(x.keys.begin(sequence) + first, kv_head * x.head_dim), x.keys.length(sequence) - first, a.row_stride,
          a.col_stride};
}

/// to[i pitch + j] = row i, column first + j; 0 outside of the matrix.
template <class Wide, int cols, int pitch, class Device, class Pointer, class Rows>
HEADMIX_DEVICE void plain_stage(Device& device, Pointer to, Rows const& from, Index first, Index width) {
  for (int e = device.thread(); e < plain_tile::rows * cols; e += plain_tile::threads) {
    int const i = e / cols, j = e % cols;
    bool const valid = first + j < width && from.valid(i);
    to[i * pitch + j] = valid ? static_cast<Wide>(device.load(from.at(i, first + j))) : Wide(0);
  }
}

/// sum[i][j] = row i of a times row j of b, for this thread's i and j. `left` and `right` are free at the call, and in
/// use by all threads at the return.
template <class Device, class Pointer, class Wide, class A, class B>
HEADMIX_DEVICE void plain_products(Device& device, Wide (&sum)[2][4], Pointer left, Pointer right, A const& a,
                                   B const& b, Index width) {
  constexpr int pitch = plain_tile::pitch;
  int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8 * 4;
  HEADMIX_UNROLL
  for (int i = 0; i < 2; ++i) {
    HEADMIX_UNROLL
    for (int j = 0; j < 4; ++j) sum[i][j] = 0;
  }
  for (Index first = 0; first < width; first += plain_tile::depth) {
    if (first > 0) device.sync();
    plain_stage<Wide, plain_tile::depth, pitch>(device, left, a, first, width);
    plain_stage<Wide, plain_tile::depth, pitch>(device, right, b, first, width);
    device.sync();
    int const n = width - first < plain_tile::depth ? static_cast<int>(width - first) : plain_tile::depth;
    for (int c = 0; c < n; ++c) {
      Wide x[2], y[4];
      HEADMIX_UNROLL
      for (int i = 0; i < 2; ++i) x[i] = left[(i0 + i) * pitch + c];
      HEADMIX_UNROLL
      for (int j = 0; j < 4; ++j) y[j] = right[(j0 + j) * pitch + c];
      HEADMIX_UNROLL
      for (int i = 0; i < 2; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < 4; ++j) sum[i][j] += x[i] * y[j];
      }
    }
  }
}

/// The mask of a tile in which every row sees every key.
struct plain_no_mask {
  [[nodiscard]] HEADMIX_HD bool operator()(int, int) const { return true; }
};
/// Visibility of the 32 keys for each of two rows, or of the rows for each of two keys, one bit each.
struct plain_partial_mask {
  std::uint32_t visible_bits[2] = {};

  /// All visible, or as given by sees(i, s).
  template <class Sees>
  HEADMIX_DEVICE plain_partial_mask(int i0, bool all, Sees const& sees) {
    if (all) visible_bits[0] = visible_bits[1] = 0xFFFFFFFFu;
    if (all) return;
    HEADMIX_NO_UNROLL
    for (int s = 0; s < plain_tile::rows; ++s) {
      HEADMIX_UNROLL
      for (int i = 0; i < 2; ++i) visible_bits[i] |= std::uint32_t{sees(i0 + i, s)} << s;
    }
  }
  [[nodiscard]] HEADMIX_HD bool operator()(int i, int s) const { return (visible_bits[i] >> s & 1) != 0; }
};
/// out[i][j] += the sum over the visible s, sees(i, s), of weights[i][s] values[s][j], for this thread's i and j. A
/// masked s has a weight of 0, but its value may be infinite or NaN.
template <int n, class Device, class Pointer, class Wide, class Sees = plain_no_mask>
HEADMIX_DEVICE void plain_accumulate(Device& device, Wide (&out)[2][n], Pointer weights, Pointer values, Index width,
                                     Sees const& sees = {}) {
  int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8;
  for (int s = 0; s < plain_tile::rows; ++s) {
    Wide const a = weights[i0 * plain_tile::pitch + s], b = weights[(i0 + 1) * plain_tile::pitch + s];
    bool const sees_a = sees(0, s), sees_b = sees(1, s);
    HEADMIX_UNROLL
    for (int j = 0; j < n; ++j) {
      if (8 * j >= width) continue;
      Wide const v = values[s * (8 * n) + j0 + 8 * j];
      if (sees_a) out[0][j] += a * v;
      if (sees_b) out[1][j] += b * v;
    }
  }
}

/// Stores this thread's scores as the weights that plain_accumulate reads.
template <class Device, class Pointer, class Wide>
HEADMIX_DEVICE void plain_store_scores(Device& device, Pointer weights, Wide const (&scores)[2][4]) {
  int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8 * 4;
  HEADMIX_UNROLL
  for (int i = 0; i < 2; ++i) {
    HEADMIX_UNROLL
    for (int j = 0; j < 4; ++j) weights[(i0 + i) * plain_tile::pitch + j0 + j] = scores[i][j];
  }
}

/// A row and its visible keys, in shared memory.
template <AttentionMask Mask, class Pointer, class Ranges>
HEADMIX_DEVICE void plain_store_row(query_row const& at, int i, Index keys, Pointer rows, Pointer cols,
                                    Ranges row_ranges) {
  rows[i] = at.row;
  cols[i] = at.col;
  store_visible_range(row_ranges, i, visible_range_of_row<Mask>(at.row >= 0, at.position, keys));
}
/// Computes the rows `first` ... of a list and their visible keys. Threads 0 .. 31 work, the caller synchronises.
template <AttentionMask Mask, class Device, class Pointer, class Ranges>
HEADMIX_DEVICE void plain_compute_rows(Device& device, attention_extents const& x, attention_tile const& of,
                                       Pointer rows, Pointer cols, Ranges row_ranges) {
  int const i = device.thread();
  if (i >= plain_tile::rows) return;
  query_row at{-1, 0, 0, 0};
  if (i < of.rows_of(x.list_length(of.sequence, of.list))) at = x.row(of.sequence, of.list, of.first + i);
  plain_store_row<Mask>(at, i, x.key_length(of.sequence), rows, cols, row_ranges);
}

/// The scores of a row, in the unit of `exponential`, from its products with keys. A pair for which the bias has no
/// number, possible with ragged sequences only, gets NaN.
template <class Wide, class T, class Map>
struct plain_scores {
  attention_scores<T, Map> const& scores;
  Wide scale;
  T const* bias;  ///< of the row's position and head, at key 0; null: none
  int biased;     ///< number of keys that have a bias in the row
  Index position, head;

  HEADMIX_DEVICE plain_scores(attention_scores<T, Map> const& of, Wide by, Index at_position, Index of_head)
      : scores(of), scale(by), bias(of.bias.data), biased(0), position(at_position), head(of_head) {
    Index const first = at_position * of.bias_keys;
    if (bias == nullptr || first < 0 || first >= of.bias.rows) return;
    bias = &of.bias(first, of_head);
    biased = static_cast<int>(of.bias_keys);
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE Wide operator()(Device& device, Wide product, Index s) const {
    constexpr auto unit = static_cast<Wide>(score_unit<Wide>);
    if constexpr (Map::identity) {
      Wide const score = product * scale;
      return bias == nullptr ? score : score + of_key(device, s) * unit;
    } else {
      return Map::value(scores.row(position, head), before_map(device, product, s), static_cast<Wide>(s)) * unit;
    }
  }
  /// The new score and the derivatives of a map.
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE auto with_slope(Device& device, Wide product, Index s) const {
    auto d = Map::with_slope(scores.row(position, head), before_map(device, product, s), static_cast<Wide>(s));
    d.value *= static_cast<Wide>(score_unit<Wide>);
    return d;
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE auto derivatives(Device& device, Wide product, Index s) const {
    auto d = Map::derivatives(scores.row(position, head), before_map(device, product, s), static_cast<Wide>(s));
    d.value *= static_cast<Wide>(score_unit<Wide>);
    return d;
  }

 private:
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE Wide before_map(Device& device, Wide product, Index s) const {
    Wide const score = product * scale;
    return bias == nullptr ? score : score + of_key(device, s);
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE Wide of_key(Device& device, Index s) const {
    if (s >= biased) return not_a_number<Wide>;
    return static_cast<Wide>(device.load(bias + s * scores.bias.row_stride));
  }
};
/// The score of a key; `slope` is set to the derivative of the map.
template <class Device, class Wide, class T, class Map>
HEADMIX_DEVICE Wide plain_score(Device& device, plain_scores<Wide, T, Map> const& score_of, Wide product, Index s,
                                Wide& slope) {
  if constexpr (Map::identity) {
    return score_of(device, product, s);
  } else {
    auto const mapped = score_of.with_slope(device, product, s);
    slope = mapped.by_score;
    return mapped.value;
  }
}
/// The head of a row of a list, from its first column.
[[nodiscard]] HEADMIX_HD inline Index head_of_row(attention_extents const& x, Index list, Index col) {
  return x.heads_are_chosen() ? list : col / x.head_dim;
}

/// A step of the online softmax: products with the keys `first` ... become exponentials of scores minus the running
/// maximum, and previous sums are rescaled to it.
template <AttentionMask Mask, int n, class Device, class T, class Map, class Wide, class Ranges, class Pointer>
HEADMIX_DEVICE void plain_softmax_step(Device& device, attention_extents const& x,
                                       attention_scores<T, Map> const& scores, Wide scale, Index list,
                                       Ranges row_ranges, Pointer cols, int first, Wide (&score)[2][4],
                                       Wide (&row_max)[2], Wide (&row_sum)[2], Wide (&out)[2][n]) {
  constexpr Wide masked = minus_infinity<Wide>;
  int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8 * 4;
  HEADMIX_UNROLL
  for (int i = 0; i < 2; ++i) {
    row_visible_range const row = load_visible_range(row_ranges, i0 + i);
    plain_scores<Wide, T, Map> const score_of(scores, scale, row.position, head_of_row(x, list, cols[i0 + i]));
    Wide new_max = row_max[i];
    HEADMIX_UNROLL
    for (int j = 0; j < 4; ++j) {
      Index const s = first + j0 + j;
      score[i][j] = row.template sees<Mask>(first + j0 + j) ? score_of(device, score[i][j], s) : masked;
      new_max = score[i][j] > new_max ? score[i][j] : new_max;
    }
    HEADMIX_UNROLL
    for (int step = 1; step < 8; step *= 2) {
      Wide const other = device.shuffle_xor(new_max, step);
      new_max = other > new_max ? other : new_max;
    }
    // While a row has seen nothing its shift is 0: minus infinity minus minus infinity would be NaN.
    Wide const shift = new_max == masked ? Wide(0) : new_max;
    Wide const rescale = exponential(device, row_max[i] - shift);
    row_max[i] = new_max;
    Wide sum = 0;
    HEADMIX_UNROLL
    for (int j = 0; j < 4; ++j) {
      score[i][j] = exponential(device, score[i][j] - shift);
      sum += score[i][j];
    }
    row_sum[i] = row_sum[i] * rescale + sum;
    HEADMIX_UNROLL
    for (int j = 0; j < n; ++j) out[i][j] *= rescale;
  }
}
/// plain_accumulate for the keys `first` ..., of which rows may see some.
template <AttentionMask Mask, int n, class Device, class Pointer, class Wide, class Ranges>
HEADMIX_DEVICE void plain_add_values(Device& device, Wide (&out)[2][n], Pointer weights, Pointer values, Index width,
                                     tile_visible_range const& visible, Ranges row_ranges, int first) {
  if (visible.covers(first, first + plain_tile::rows)) return plain_accumulate(device, out, weights, values, width);
  plain_partial_mask const mask(device.thread() / 8 * 2, false, [&](int i, int s) {
    return load_visible_range(row_ranges, i).template sees<Mask>(first + s);
  });
  plain_accumulate(device, out, weights, values, width, mask);
}

/// The factors of attention_dropout::each_factor, four keys at a time, without arrays that the compiler would keep in
/// memory.
template <class Wide>
struct dropout_factors {
  Random random;
  std::uint64_t row;
  double rate;
  Wide kept;

  HEADMIX_DEVICE dropout_factors(attention_dropout const& dropout, attention_extents const& x, Index at_row,
                                 Index at_col)
      : random(random_stream_of(dropout.key, dropout.stream)),
        row(row_in_batch(dropout.key, at_row, x.rows_per_token) * static_cast<std::uint64_t>(x.heads) +
            static_cast<std::uint64_t>(at_col / x.head_dim)),
        rate(dropout.rate),
        kept(static_cast<Wide>(1 / (1 - dropout.rate))) {}
  /// The factors of keys s .. s + 3, s a multiple of four.
  HEADMIX_DEVICE void four(Index s, Wide (&factor)[4]) const {
    philox_block const drawn = random.block(attention_dropout::block_of(row, static_cast<std::uint64_t>(s) / 4));
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) factor[i] = drawn.word[i] * 0x1p-32 < rate ? Wide(0) : kept;
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS

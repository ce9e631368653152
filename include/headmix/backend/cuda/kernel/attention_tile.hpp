#pragma once
// SPDX-License-Identifier: MIT
// What the attention kernels share: which tile of which sequence and key/value head a block works on, which keys the
// rows of a tile see, and tiles in shared memory for the kernels without tensor cores.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "headmix/backend/cuda/kernel/collective.hpp"
#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/backend/cuda/kernel/matrix_tile.hpp"
#include "headmix/core/random.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"
#include "headmix/expr/attention_problem.hpp"
#include "headmix/expr/mask.hpp"

namespace headmix::cuda {

inline constexpr int largest_int = (std::numeric_limits<int>::max)();

// ---- which part a block has ----

/// A tile of the row list, or of the keys, of one sequence and key/value head.
struct attention_tile {
  Index sequence, kv_head;
  Index first;  ///< its first row or key; behind the last one: nothing to do
};

/// The tiles of all sequences and key/value heads, numbered so that the heavy ones come first: a causal mask makes the
/// last rows and the first keys the heavy ones.
struct attention_tiles {
  segments tokens;
  Index per_token;  ///< rows of the list, or 1
  Index heads;      ///< key/value heads
  Index rows;       ///< of a tile
  Index together;   ///< pairs of sequence and head whose tiles are mixed: as many as the cache holds
  bool last_first;

  [[nodiscard]] HEADMIX_HD Index count() const {
    if (tokens.count == 0) return 0;
    return (tokens.offsets ? tile_bound(tokens.rows * per_token, tokens.count, rows) : tokens.count * per_sequence()) *
           heads;
  }
  [[nodiscard]] HEADMIX_DEVICE attention_tile operator()(Index i) const {
    if (tokens.offsets) {
      Index const head = i % heads, t = last_first ? (count() - 1 - i) / heads : i / heads;
      begin_of const begin{tokens, per_token};
      Index const sequence = segment_of_tile(t, tokens.count, rows, begin);
      return {sequence, head, first_row_of_tile(t, sequence, begin(sequence), rows)};
    }
    Index const tiles = per_sequence(), pairs = tokens.count * heads;
    Index const begin = i / (tiles * together) * together, rest = i % (tiles * together);
    Index const mixed = pairs - begin < together ? pairs - begin : together;
    Index const pair = begin + rest % mixed, t = rest / mixed;
    return {pair / heads, pair % heads, (last_first ? tiles - 1 - t : t) * rows};
  }

 private:
  struct begin_of {
    segments const& tokens;
    Index per_token;
    [[nodiscard]] HEADMIX_HD Index operator()(Index b) const { return tokens.begin(b) * per_token; }
  };
  [[nodiscard]] HEADMIX_HD Index per_sequence() const {
    return blocks_for(tokens.rows / tokens.count * per_token, rows);
  }
};

/// How many pairs of sequence and head have their keys and values (or rows and gradients) in 16 MiB.
[[nodiscard]] inline Index attention_tiles_together(segments const& tokens, Index per_token, Index head_dim,
                                                    std::size_t bytes) {
  if (tokens.count == 0) return 1;
  Index const each = 2 * (tokens.rows / tokens.count) * per_token * head_dim * static_cast<Index>(bytes);
  Index const n = (Index{16} << 20) / (each > 0 ? each : 1);
  return n > 1 ? n : 1;
}
/// Tiles of query rows, and what each of them reads are keys and values.
[[nodiscard]] inline attention_tiles query_tiles(attention_extents const& x, Index rows, std::size_t bytes) {
  return {
      x.queries, x.rows_per_token * x.group(), x.kv_heads, rows, attention_tiles_together(x.keys, 1, x.head_dim, bytes),
      true};
}
/// Tiles of keys, and what each of them reads are rows and their gradients.
[[nodiscard]] inline attention_tiles key_tiles(attention_extents const& x, Index rows, std::size_t bytes) {
  return {
      x.keys, 1, x.kv_heads, rows, attention_tiles_together(x.queries, x.rows_per_token * x.group(), x.head_dim, bytes),
      false};
}

// ---- which keys a row sees ----

/// The keys of a sequence that the position may see; {0, 0} for none.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD constexpr key_range keys_seen(Index position, Index keys) {
  key_range seen = visible_keys<Mask>(position, keys);
  if (seen.begin < 0) seen.begin = 0;
  if (seen.end > keys) seen.end = keys;
  return seen.begin < seen.end ? seen : key_range{0, 0};
}

/// The keys that the rows of a tile see.
struct tile_sight {
  int begin, end;                ///< outside of these, no row sees a key
  int common_begin, common_end;  ///< these, every row sees
  [[nodiscard]] HEADMIX_HD bool touches(int first, int last) const { return first < end && begin < last; }
  [[nodiscard]] HEADMIX_HD bool covers(int first, int last) const {
    return common_begin <= first && last <= common_end;
  }
};
/// Of the rows at positions first, first + step, ... up to the last.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD tile_sight sight_of(Index first, Index last, Index step, Index keys) {
  tile_sight all{largest_int, 0, 0, largest_int};
  for (Index t = first; t <= last; t += step) {
    key_range const seen = keys_seen<Mask>(t, keys);
    int const begin = static_cast<int>(seen.begin), end = static_cast<int>(seen.end);
    if (begin < end) {
      if (begin < all.begin) all.begin = begin;
      if (end > all.end) all.end = end;
    }
    if (begin > all.common_begin) all.common_begin = begin;
    if (end < all.common_end) all.common_end = end;
  }
  if (!dense_mask<Mask>) all.common_end = 0;
  return all;
}
/// The same by the 32 lanes of a warp together.
template <AttentionMask Mask, class Device>
[[nodiscard]] HEADMIX_DEVICE tile_sight sight_by_warp(Device& device, Index first, Index last, Index keys) {
  tile_sight all = sight_of<Mask>(first + device.lane(), last, 32, keys);
  HEADMIX_UNROLL
  for (int step = 16; step > 0; step /= 2) {
    int const begin = device.shuffle_xor(all.begin, step), end = device.shuffle_xor(all.end, step);
    int const common_begin = device.shuffle_xor(all.common_begin, step);
    int const common_end = device.shuffle_xor(all.common_end, step);
    if (begin < all.begin) all.begin = begin;
    if (end > all.end) all.end = end;
    if (common_begin > all.common_begin) all.common_begin = common_begin;
    if (common_end < all.common_end) all.common_end = common_end;
  }
  return all;
}

/// What the mask needs to know of a row: the keys of its range, and its position.
struct row_sight {
  int begin, end, position;

  template <AttentionMask Mask>
  [[nodiscard]] HEADMIX_HD bool sees(int s) const {
    if (s < begin || s >= end) return false;
    if constexpr (dense_mask<Mask>) {
      return true;
    } else {
      return Mask::sees(position, s);
    }
  }
};
/// Of element i of a row list; nothing for one behind its end.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD row_sight sight_of_row(Index i, Index length, Index position, Index keys) {
  if (i >= length) return {0, 0, 0};
  key_range const seen = keys_seen<Mask>(position, keys);
  return {static_cast<int>(seen.begin), static_cast<int>(seen.end), static_cast<int>(position)};
}

/// Rows' sights in shared memory, three numbers each.
template <class Sights>
HEADMIX_DEVICE void put_row_sight(Sights sights, int i, row_sight const& row) {
  sights[3 * i] = row.begin;
  sights[3 * i + 1] = row.end;
  sights[3 * i + 2] = row.position;
}
template <class Sights>
[[nodiscard]] HEADMIX_DEVICE row_sight row_sight_at(Sights sights, int i) {
  return {sights[3 * i], sights[3 * i + 1], sights[3 * i + 2]};
}

// ---- exponentials ----

inline constexpr double log2_of_e = 1.4426950408889634074;

/// Scores are kept in the unit in which this is the exponential: of base 2, where it is the hardware's, else of base e.
template <class Wide>
inline constexpr bool base_2 = !std::is_same_v<Wide, double>;
template <class Device, class Wide>
[[nodiscard]] HEADMIX_DEVICE Wide exponential(Device& device, Wide x) {
  if constexpr (base_2<Wide>) {
    return device.exp2(x);
  } else {
    return std::exp(x);
  }
}
/// What a product q k is multiplied by to become a score in that unit.
template <class Wide>
[[nodiscard]] Wide score_scale(Index head_dim) {
  double const scale = 1 / std::sqrt(static_cast<double>(head_dim));
  return static_cast<Wide>(base_2<Wide> ? scale * log2_of_e : scale);
}
/// The log-sum-exp (base e) of a row from its maximum in that unit and the sum of the exponentials less than it.
template <class Wide>
[[nodiscard]] HEADMIX_DEVICE Wide log_of_sum(Wide top, Wide sum) {
  if (sum == 0) return minus_infinity<Wide>;
  if constexpr (base_2<Wide>) {
    return static_cast<Wide>((top + std::log2(sum)) * static_cast<Wide>(1 / log2_of_e));
  } else {
    return top + std::log(sum);
  }
}

/// The row list of a (sequence, key/value head) in small numbers.
struct small_row_list {
  int row;   ///< of q, of element 0
  int head;  ///< of element 0
  int length;
  int position;  ///< of element 0
  divisor group, per_token;

  HEADMIX_HD small_row_list(int first_row, int first_head, int count, int first_position, divisor by_group,
                            divisor by_token)
      : row(first_row),
        head(first_head),
        length(count),
        position(first_position),
        group(by_group),
        per_token(by_token) {}
  HEADMIX_HD small_row_list(attention_extents const& x, Index sequence, Index kv_head, divisor by_group,
                            divisor by_token)
      : row(static_cast<int>(x.queries.begin(sequence) * x.rows_per_token)),
        head(static_cast<int>(kv_head) * by_group.n),
        length(static_cast<int>(x.queries.length(sequence)) * by_token.n),
        position(static_cast<int>(x.keys.length(sequence) - x.queries.length(sequence))),
        group(by_group),
        per_token(by_token) {}
  /// Where element i of the list lies in a matrix of heads of `width` columns, null for one behind the end.
  template <class T>
  [[nodiscard]] HEADMIX_HD T* of(view<T> const& a, int i, int width) const {
    if (i >= length) return nullptr;
    int const r = i / group;
    return a.data + (row + r) * a.row_stride + (head + (i - r * group.n)) * width;
  }
  [[nodiscard]] HEADMIX_HD int row_of(int i) const { return row + i / group; }
  [[nodiscard]] HEADMIX_HD int head_of(int i) const { return head + (i - i / group * group.n); }
  [[nodiscard]] HEADMIX_HD int position_of(int i) const { return position + i / per_token; }
};
/// The keys of a sequence in small numbers.
struct small_keys {
  int begin, count;  ///< rows of k
  int col;           ///< the head's first column

  HEADMIX_HD small_keys(int first, int n, int first_col) : begin(first), count(n), col(first_col) {}
  HEADMIX_HD small_keys(attention_extents const& x, attention_tile const& of, int width)
      : begin(static_cast<int>(x.keys.begin(of.sequence))),
        count(static_cast<int>(x.keys.length(of.sequence))),
        col(static_cast<int>(of.kv_head) * width) {}
  /// Where key s lies, null for one behind the end.
  template <class T>
  [[nodiscard]] HEADMIX_HD T* of(view<T> const& a, int s) const {
    return s < count ? a.data + (begin + s) * a.row_stride + col : nullptr;
  }
};
/// Whether its numbers are small enough.
[[nodiscard]] inline bool is_small(attention_extents const& x) {
  Index const per_token = x.rows_per_token * x.group();
  return x.queries.rows * per_token < (Index{1} << 32) / per_token && x.queries.rows * per_token < Index{1} << 30 &&
         x.keys.rows < Index{1} << 30 && x.kv_heads * x.head_dim < Index{1} << 30;
}

/// True when 16 bytes at a time can be copied from a head's rows, or there is nothing to copy.
template <class T>
[[nodiscard]] bool heads_are_aligned(view<T> const& a) {
  constexpr Index chunk = 16 / sizeof(T);
  if (a.data == nullptr) return true;
  return a.col_stride == 1 && a.row_stride % chunk == 0 && reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0;
}

// ---- fragments ----

/// Two neighbouring 16 x 8 sums of a warp as the 16 x 16 left operand of a product.
[[nodiscard]] HEADMIX_HD inline words<4> sums_as_left(float const (&a)[4], float const (&b)[4]) {
  return {{pack(a[0], a[1]), pack(a[2], a[3]), pack(b[0], b[1]), pack(b[2], b[3])}};
}

/// c += a b^T with rows of `width` elements: 16 m rows of a from `row` on, 8 n rows of b from `other_row` on.
template <int width, int m, int n, class Device, class Pointer>
HEADMIX_DEVICE void multiply_transposed(Device& device, float (&c)[m][n][4], Pointer a, int row, Pointer b,
                                        int other_row) {
  fragment_position<width, true> const by_row(device.lane(), 0, 0);
  fragment_position<width, false> const by_col(device.lane(), 0, 0);
  HEADMIX_UNROLL
  for (int k = 0; k < width; k += 16) {
    words<4> left[m];
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) left[i] = load_left(device, a, by_row, row + 16 * i, k);
    HEADMIX_UNROLL
    for (int j = 0; j < n; j += 2) {
      words<4> const right = load_right_transposed(device, b, by_col, other_row + 8 * j, k);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        device.multiply_add(c[i][j], left[i], words<2>{{right.word[0], right.word[1]}});
        device.multiply_add(c[i][j + 1], left[i], words<2>{{right.word[2], right.word[3]}});
      }
    }
  }
}
/// c += a b with a in registers, rounded to bfloat16: 8 n columns of a times as many rows of b from `row` on.
template <int width, int m, int n, class Device, class Pointer>
HEADMIX_DEVICE void multiply_sums(Device& device, float (&c)[m][width / 8][4], float const (&a)[m][n][4], Pointer b,
                                  int row) {
  fragment_position<width, true> const by_row(device.lane(), 0, 0);
  HEADMIX_UNROLL
  for (int k = 0; k < n; k += 2) {
    words<4> left[m];
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) left[i] = sums_as_left(a[i][k], a[i][k + 1]);
    HEADMIX_UNROLL
    for (int j = 0; j < width / 8; j += 2) {
      words<4> const right = load_right(device, b, by_row, row + 8 * k, 8 * j);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        device.multiply_add(c[i][j], left[i], words<2>{{right.word[0], right.word[1]}});
        device.multiply_add(c[i][j + 1], left[i], words<2>{{right.word[2], right.word[3]}});
      }
    }
  }
}

/// Makes the scores of 16 m rows from `row` on and of 8 n keys minus infinity where a row does not see the key.
template <AttentionMask Mask, int m, int n, class Sights>
HEADMIX_DEVICE void hide_unseen(float (&score)[m][n][4], Sights sights, int row, int first_key, int lane) {
  HEADMIX_UNROLL
  for (int i = 0; i < m; ++i) {
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      row_sight const sight = row_sight_at(sights, row + 16 * i + 8 * half + lane / 4);
      HEADMIX_UNROLL
      for (int j = 0; j < n; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 2; ++e) {
          if (!sight.template sees<Mask>(first_key + 8 * j + lane % 4 * 2 + e)) {
            score[i][j][2 * half + e] = minus_infinity<float>;
          }
        }
      }
    }
  }
}

/// A warp writes `rows` rows of a tile, from `first` on, to target(row): null for those that there are not.
template <int rows, int cols, class Device, class Pointer, class Target>
HEADMIX_DEVICE void store_tile_rows(Device& device, Pointer tile, int first, Target const& target) {
  constexpr int chunks = cols / 8, at_once = 32 / chunks;
  int const lane = device.lane(), chunk = lane % chunks;
  HEADMIX_UNROLL
  for (int i = 0; i < rows; i += at_once) {
    int const r = first + i + lane / chunks;
    bfloat16* const to = target(r);
    if (to != nullptr) device.store16(to + 8 * chunk, device.load16(tile + tile_layout<cols>::offset(r, chunk)));
  }
}

// ---- plain kernels: 32 rows and 32 keys at a time, by 128 threads ----

/// Thread t has the sums of rows t / 8 * 2 and the next; of a tile of scores columns t % 8 * 4 and three more, of a
/// tile of the output columns t % 8, t % 8 + 8, ...
struct plain_tile {
  static constexpr int threads = 128;
  static constexpr int rows = 32;          ///< and keys
  static constexpr int depth = 32;         ///< of a part of a product
  static constexpr int pitch = depth + 1;  ///< threads read columns without bank conflicts
};

/// Columns of the output that a block makes; wider heads take several blocks. Doubles are as many registers as half of
/// that in floats.
template <class Wide>
inline constexpr int plain_columns = std::is_same_v<Wide, double> ? 64 : 128;

/// Where the rows of a tile lie: those of a list are found once and kept in shared memory.
template <class T, class Pointer>
struct plain_rows {
  T const* data;
  Pointer rows, cols;  ///< of the matrix; row -1 for none
  Index row_stride, col_stride;

  [[nodiscard]] HEADMIX_DEVICE bool real(int i) const { return rows[i] >= 0; }
  [[nodiscard]] HEADMIX_DEVICE T const* at(int i, Index col) const {
    Index const r = rows[i], c = cols[i];
    return data + r * row_stride + (c + col) * col_stride;
  }
};
template <class T>
struct plain_keys {
  T const* data;  ///< of the tile's first key, at the head's first column
  Index count;    ///< of keys
  Index row_stride, col_stride;

  [[nodiscard]] HEADMIX_DEVICE bool real(int i) const { return i < count; }
  [[nodiscard]] HEADMIX_DEVICE T const* at(int i, Index col) const { return data + i * row_stride + col * col_stride; }
};

/// The rest of a matrix from a key of a sequence on, in the columns of a head.
template <class T>
[[nodiscard]] HEADMIX_DEVICE plain_keys<T> plain_keys_of(attention_extents const& x, view<T const> a, Index sequence,
                                                         Index kv_head, Index first) {
  return {&a(x.keys.begin(sequence) + first, kv_head * x.head_dim), x.keys.length(sequence) - first, a.row_stride,
          a.col_stride};
}

/// to[i pitch + j] = row i, column first + j; 0 where there is none.
template <class Wide, int cols, int pitch, class Device, class Pointer, class Rows>
HEADMIX_DEVICE void plain_stage(Device& device, Pointer to, Rows const& from, Index first, Index width) {
  for (int e = device.thread(); e < plain_tile::rows * cols; e += plain_tile::threads) {
    int const i = e / cols, j = e % cols;
    bool const real = first + j < width && from.real(i);
    to[i * pitch + j] = real ? static_cast<Wide>(device.load(from.at(i, first + j))) : Wide(0);
  }
}

/// sum[i][j] = row i of a times row j of b, for this thread's i and j. Everybody may write `left` and `right` when it
/// begins, nobody when it returns.
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

/// out[i][j] += the sum over s of weights[i][s] values[s][j], for this thread's i and j.
template <int n, class Device, class Pointer, class Wide>
HEADMIX_DEVICE void plain_accumulate(Device& device, Wide (&out)[2][n], Pointer weights, Pointer values, Index width) {
  int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8;
  for (int s = 0; s < plain_tile::rows; ++s) {
    Wide const a = weights[i0 * plain_tile::pitch + s], b = weights[(i0 + 1) * plain_tile::pitch + s];
    HEADMIX_UNROLL
    for (int j = 0; j < n; ++j) {
      if (8 * j >= width) continue;
      Wide const v = values[s * (8 * n) + j0 + 8 * j];
      out[0][j] += a * v;
      out[1][j] += b * v;
    }
  }
}

/// Puts this thread's scores where plain_accumulate reads its weights.
template <class Device, class Pointer, class Wide>
HEADMIX_DEVICE void plain_put(Device& device, Pointer weights, Wide const (&scores)[2][4]) {
  int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8 * 4;
  HEADMIX_UNROLL
  for (int i = 0; i < 2; ++i) {
    HEADMIX_UNROLL
    for (int j = 0; j < 4; ++j) weights[(i0 + i) * plain_tile::pitch + j0 + j] = scores[i][j];
  }
}

/// Finds the rows first ... of a list and what they see. Threads 0 .. 31 work, the caller synchronises.
template <AttentionMask Mask, class Device, class Pointer, class Sights>
HEADMIX_DEVICE void plain_find_rows(Device& device, attention_extents const& x, Index sequence, Index kv_head,
                                    Index first, Pointer rows, Pointer cols, Sights sights) {
  int const i = device.thread();
  if (i >= plain_tile::rows) return;
  Index const length = x.list_length(sequence);
  query_row at{-1, 0, 0};
  if (first + i < length) at = x.row(sequence, kv_head, first + i);
  rows[i] = at.row;
  cols[i] = at.col;
  put_row_sight(sights, i, sight_of_row<Mask>(first + i, length, at.position, x.keys.length(sequence)));
}

/// The factors of attention_dropout::each_factor, four keys at a time without arrays that the compiler would keep in
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
  /// Those of keys s .. s + 3, s a multiple of four.
  HEADMIX_DEVICE void four(Index s, Wide (&factor)[4]) const {
    philox_block const drawn = random.block(row << 30 | static_cast<std::uint64_t>(s) / 4);
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) factor[i] = drawn.word[i] * 0x1p-32 < rate ? Wide(0) : kept;
  }
};

}  // namespace headmix::cuda

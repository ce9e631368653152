#pragma once
// SPDX-License-Identifier: MIT
// Common parts of the attention kernels on tensor cores: row offsets of lists whose numbers fit in 32 bits, and
// products, masks and stores of fragments.

#include <cstdint>

#include "headmix/backend/cuda/kernel/attention/tile.hpp"
#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// The rows of a sequence, as ints.
struct small_segment {
  int begin, length;
};
/// Divisors by the heads of a key/value head, by the rows of a token, and, if all sequences have equal length, by that
/// length.
struct row_divisors {
  divisor group, per_token;
  int query_length = 0, key_length = 0;

  row_divisors() = default;
  explicit row_divisors(attention_extents const& x)
      : group(x.heads_are_chosen() ? 1 : x.group()),
        per_token(x.rows_per_token * group.n),
        query_length(length_of(x.queries)),
        key_length(length_of(x.keys)) {}

  [[nodiscard]] HEADMIX_HD small_segment queries(attention_extents const& x, Index sequence) const {
    return segment(x.queries, query_length, static_cast<int>(sequence));
  }
  [[nodiscard]] HEADMIX_HD small_segment keys(attention_extents const& x, Index sequence) const {
    return segment(x.keys, key_length, static_cast<int>(sequence));
  }

 private:
  static int length_of(segments const& s) { return s.offsets || s.count == 0 ? 0 : static_cast<int>(s.rows / s.count); }
  [[nodiscard]] static HEADMIX_HD small_segment segment(segments const& s, int length, int sequence) {
    if (s.offsets == nullptr) return {sequence * length, length};
    return {s.offsets[sequence], s.offsets[sequence + 1] - s.offsets[sequence]};
  }
};
/// A query row as ints: its head begins at (row, col) of q and o. Row -1 is none.
struct row_offset {
  int row, col, position;
};
/// A row list as ints: its elements first ... end - 1, `first` being 0 unless heads are chosen. Rows of chosen heads
/// are read from memory, others are computed by division.
struct small_row_list {
  Int const* slots;  ///< null: rows are computed by division
  int row;           ///< of q, for element 0
  int head;          ///< of element 0
  int first, end;
  int position;  ///< of element 0; if heads are chosen, of slot 0

  HEADMIX_HD small_row_list(Int const* chosen, int first_row, int first_head, int list_begin, int list_end,
                            int at_position)
      : slots(chosen), row(first_row), head(first_head), first(list_begin), end(list_end), position(at_position) {}
  HEADMIX_HD small_row_list(attention_extents const& x, Index sequence, Index list, row_divisors const& divisors)
      : slots(x.chosen.slots), row(0), head(0), first(0), end(0), position(0) {
    small_segment const queries = divisors.queries(x, sequence);
    position = static_cast<int>(first_query_position(x.queries, sequence, queries.length,
                                                     divisors.keys(x, sequence).length, x.separate_positions));
    if (slots) {
      Int const* const begin = x.chosen.offsets + (sequence * x.heads + list);
      first = begin[0];
      end = begin[1];
      position -= queries.begin;
    } else {
      row = queries.begin * static_cast<int>(x.rows_per_token);
      head = static_cast<int>(list) * divisors.group.n;
      end = queries.length * divisors.per_token.n;
    }
  }
  [[nodiscard]] HEADMIX_HD int length() const { return end - first; }
  /// The row offset of element i, for heads of `width` columns.
  [[nodiscard]] HEADMIX_HD row_offset offset_of(int i, int width, row_divisors const& divisors) const {
    if (i >= end) return {-1, 0, 0};
    if (slots) {
      int const slot = slots[i];
      return {slot, 0, position + slot / divisors.per_token};
    }
    int const r = i / divisors.group;
    return {row + r, (head + (i - r * divisors.group.n)) * width, position_of(i, divisors)};
  }
  /// The position of an element, by division.
  [[nodiscard]] HEADMIX_HD int position_of(int i, row_divisors const& divisors) const {
    return position + i / divisors.per_token;
  }
};

/// Row offsets in shared memory, `pitch` numbers each.
template <int pitch, class Ints>
struct shared_row_offsets {
  static_assert(pitch == 2 || pitch == 3, "headmix: the pitch of a tile of attention is 2 or 3");
  Ints at;

  HEADMIX_DEVICE void store(int i, row_offset const& offset) const {
    at[pitch * i] = offset.row;
    at[pitch * i + 1] = offset.col;
    if constexpr (pitch == 3) at[pitch * i + 2] = offset.position;
  }
  [[nodiscard]] HEADMIX_DEVICE int row(int i) const { return at[pitch * i]; }
  [[nodiscard]] HEADMIX_DEVICE int col(int i) const { return at[pitch * i + 1]; }
  [[nodiscard]] HEADMIX_DEVICE int position(int i) const {
    static_assert(pitch == 3, "headmix: this tile of attention has a pitch of 3");
    return at[pitch * i + 2];
  }
  /// The address of row i of the tile in a matrix, null for none.
  template <class T>
  [[nodiscard]] HEADMIX_DEVICE T* of(view<T> const& a, int i) const {
    int const r = row(i);
    return r < 0 ? nullptr : a.data + r * a.row_stride + col(i);
  }
};
/// Writes `count` rows of a list, from `first` on, to shared memory, by `threads` threads; the caller synchronises.
template <AttentionMask Mask, int rows, int width, int threads, class Device, class Offsets, class Ranges>
HEADMIX_DEVICE void compute_row_offsets(Device& device, small_row_list const& list, int first, int count,
                                        row_divisors const& divisors, int keys, Offsets row_offsets,
                                        Ranges row_ranges) {
  for (int i = device.thread(); i < rows; i += threads) {
    // The list's end is no row.
    row_offset const offset = list.offset_of(list.first + (i < count ? first + i : list.length()), width, divisors);
    row_offsets.store(i, offset);
    store_visible_range(row_ranges, i, visible_range_of_row<Mask>(offset.row >= 0, offset.position, keys));
  }
}
/// The keys of a sequence as ints.
struct small_keys {
  int begin, count;  ///< rows of k
  int col;           ///< first column of the head

  HEADMIX_HD small_keys(int first, int n, int first_col) : begin(first), count(n), col(first_col) {}
  HEADMIX_HD small_keys(small_segment const& of, int first_col) : small_keys(of.begin, of.length, first_col) {}
  HEADMIX_HD small_keys(attention_extents const& x, attention_tile const& of, row_divisors const& divisors, int width)
      : small_keys(divisors.keys(x, of.sequence), static_cast<int>(of.kv_head) * width) {}
  /// The address of key s, null after the end.
  template <class T>
  [[nodiscard]] HEADMIX_HD T* of(view<T> const& a, int s) const {
    return s < count ? a.data + (begin + s) * a.row_stride + col : nullptr;
  }
};

// ---- fragments ----

/// A mapped score, in the unit of exp2, and its derivative.
template <class Map, class Row>
[[nodiscard]] HEADMIX_DEVICE float map_score(Row const& row, float score, float key_position) {
  return Map::value(row, score, key_position) * static_cast<float>(log2_of_e);
}
template <class Map, class Row>
[[nodiscard]] HEADMIX_DEVICE float map_score(Row const& row, float score, float key_position, float& slope) {
  auto const mapped = Map::with_slope(row, score, key_position);
  slope = mapped.by_score;
  return mapped.value * static_cast<float>(log2_of_e);
}

/// Two adjacent 16 x 8 accumulators of a warp as a 16 x 16 A fragment in bfloat16.
[[nodiscard]] HEADMIX_HD inline words<4> pack_a_fragment(float const (&a)[4], float const (&b)[4]) {
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
    for (int i = 0; i < m; ++i) left[i] = load_a(device, a, by_row, row + 16 * i, k);
    HEADMIX_UNROLL
    for (int j = 0; j < n; j += 2) {
      words<4> const right = load_b_transposed(device, b, by_col, other_row + 8 * j, k);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        device.mma_m16n8k16(c[i][j], left[i], words<2>{{right.word[0], right.word[1]}});
        device.mma_m16n8k16(c[i][j + 1], left[i], words<2>{{right.word[2], right.word[3]}});
      }
    }
  }
}
/// c += a b with 16 columns of a in registers, and 16 rows of b from `row` on.
template <int width, int m, class Device, class Pointer>
HEADMIX_DEVICE void multiply_rs(Device& device, float (&c)[m][width / 8][4], words<4> const (&a)[m], Pointer b,
                                int row) {
  fragment_position<width, true> const by_row(device.lane(), 0, 0);
  HEADMIX_UNROLL
  for (int j = 0; j < width / 8; j += 2) {
    words<4> const right = load_b(device, b, by_row, row, 8 * j);
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      device.mma_m16n8k16(c[i][j], a[i], words<2>{{right.word[0], right.word[1]}});
      device.mma_m16n8k16(c[i][j + 1], a[i], words<2>{{right.word[2], right.word[3]}});
    }
  }
}
/// c += a b with 8 n columns of a in registers, rounded to bfloat16.
template <int width, int m, int n, class Device, class Pointer>
HEADMIX_DEVICE void multiply_accumulators(Device& device, float (&c)[m][width / 8][4], float const (&a)[m][n][4],
                                          Pointer b, int row) {
  HEADMIX_UNROLL
  for (int k = 0; k < n; k += 2) {
    words<4> left[m];
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) left[i] = pack_a_fragment(a[i][k], a[i][k + 1]);
    multiply_rs<width>(device, c, left, b, row + 8 * k);
  }
}

/// Products of 16 m rows from `row` on and 8 n keys become mapped scores, in the unit of exp2; `slopes` are the
/// derivatives, if any. head_of(i) is the head of row i.
template <class T, class Map, int m, int n, class Ranges, class HeadOf, class... Slopes>
HEADMIX_DEVICE void map_scores(attention_scores<T, Map> const& scores, float (&score)[m][n][4], float scale,
                               Ranges row_ranges, HeadOf const& head_of, int row, int first_key, int lane,
                               Slopes&... slopes) {
  if constexpr (!Map::identity) {
    auto const first_position = static_cast<float>(first_key + lane % 4 * 2);  // sums of whole numbers are exact
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        int const r = row + 16 * i + 8 * half + lane / 4;
        auto const of_row = scores.row(row_ranges[3 * r + 2], head_of(r));
        HEADMIX_UNROLL
        for (int j = 0; j < n; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 2; ++e) {
            float& s = score[i][j][2 * half + e];
            float const key_position = first_position + static_cast<float>(8 * j + e);
            s = map_score<Map>(of_row, s * scale, key_position, slopes[i][j][2 * half + e]...);
          }
        }
      }
    }
  }
}

/// Transposed products of 16 m keys from first_key on and 8 n rows become mapped scores; `rows` has positions and
/// heads.
template <class T, class Map, int m, int n, class Rows>
HEADMIX_DEVICE void map_scores_by_keys(attention_scores<T, Map> const& scores, float (&score)[m][n][4],
                                       float (&slope)[m][n][4], float scale, Rows rows, int first_key, int lane) {
  auto const first_position = static_cast<float>(first_key + lane / 4);
  HEADMIX_UNROLL
  for (int j = 0; j < n; ++j) {
    HEADMIX_UNROLL
    for (int e = 0; e < 2; ++e) {
      int const r = 8 * j + lane % 4 * 2 + e;
      auto const of_row = scores.row(rows[2 * r], rows[2 * r + 1]);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int half = 0; half < 2; ++half) {
          float& s = score[i][j][2 * half + e];
          float const key_position = first_position + static_cast<float>(16 * i + 8 * half);
          s = map_score<Map>(of_row, s * scale, key_position, slope[i][j][2 * half + e]);
        }
      }
    }
  }
}

/// Calls f(score, whether its row sees its key, key number) for the scores of 16 m rows from `row` on and 8 n keys.
template <AttentionMask Mask, int m, int n, class Ranges, class F>
HEADMIX_DEVICE void for_each_score(float (&score)[m][n][4], Ranges row_ranges, int row, int first_key, int lane,
                                   F const& f) {
  HEADMIX_UNROLL
  for (int i = 0; i < m; ++i) {
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      row_visible_range const row_range = load_visible_range(row_ranges, row + 16 * i + 8 * half + lane / 4);
      HEADMIX_UNROLL
      for (int j = 0; j < n; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 2; ++e) {
          int const s = 8 * j + lane % 4 * 2 + e;
          f(score[i][j][2 * half + e], row_range.template sees<Mask>(first_key + s), s);
        }
      }
    }
  }
}
/// Sets scores of masked keys to minus infinity.
template <AttentionMask Mask, int m, int n, class Ranges>
HEADMIX_DEVICE void apply_mask(float (&score)[m][n][4], Ranges row_ranges, int row, int first_key, int lane) {
  for_each_score<Mask>(score, row_ranges, row, first_key, lane, [](float& s, bool sees, int) {
    if (!sees) s = minus_infinity<float>;
  });
}

// The product of a whole tile multiplies masked rows by 0, which is NaN if they are infinite or NaN. In partial tiles
// such rows become 0, and their multipliers become NaN where they are visible.

/// Zeroes non-finite rows of a tile and sets non_finite[row] != 0. By all threads; the caller synchronises before and
/// after.
template <int rows, int width, int threads, class Device, class Pointer, class Ints>
HEADMIX_DEVICE void sanitize_rows(Device& device, Pointer tile, Ints non_finite) {
  constexpr int chunks = width / 8, warps = threads / 32;
  constexpr std::uint32_t high = 0x7F800000u, low = 0x7F80u;  // exponents of infinity
  int const chunk = device.lane() % chunks;
  for (int r = device.warp() * (32 / chunks); r < rows; r += warps * (32 / chunks)) {
    int const row = r + device.lane() / chunks;
    words<4> const values = device.load16(tile + tile_layout<width>::offset(row, chunk));
    bool found = false;
    HEADMIX_UNROLL
    for (std::uint32_t const both : values.word) found = found || (both & high) == high || (both & low) == low;
    std::uint32_t const of_row = device.ballot(found) >> (device.lane() / chunks * chunks) & ((1u << chunks) - 1);
    if (of_row != 0) device.store16(tile + tile_layout<width>::offset(row, chunk), words<4>{});
    if (chunk == 0) non_finite[row] = of_row != 0 ? 1 : 0;
  }
}
/// Sets the multipliers of non-finite keys: 0 where they are masked, NaN where they are visible.
template <AttentionMask Mask, int m, int n, class Ranges, class Ints>
HEADMIX_DEVICE void mask_sanitized_keys(float (&score)[m][n][4], Ranges row_ranges, Ints non_finite, int row,
                                        int first_key, int lane) {
  for_each_score<Mask>(score, row_ranges, row, first_key, lane, [&](float& s, bool sees, int key) {
    s = !sees ? 0.f : non_finite[key] != 0 ? not_a_number<float> : s;
  });
}

struct as_they_are {
  HEADMIX_HD void operator()(int, words<4>&) const {}
};
/// A warp writes `rows` rows of a tile, from `first` on, to target(row), null for none, after applying change(row,
/// eight elements).
template <int rows, int cols, class Device, class Pointer, class Target, class Change = as_they_are>
HEADMIX_DEVICE void store_tile_rows(Device& device, Pointer tile, int first, Target const& target,
                                    Change const& change = {}) {
  constexpr int chunks = cols / 8, at_once = 32 / chunks;
  int const lane = device.lane(), chunk = lane % chunks;
  HEADMIX_UNROLL
  for (int i = 0; i < rows; i += at_once) {
    int const r = first + i + lane / chunks;
    bfloat16* const to = target(r);
    if (to == nullptr) continue;
    words<4> values = device.load16(tile + tile_layout<cols>::offset(r, chunk));
    change(r, values);
    device.store16(to + 8 * chunk, values);
  }
}

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS

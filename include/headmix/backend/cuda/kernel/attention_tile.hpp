#pragma once
// SPDX-License-Identifier: MIT
// What the attention kernels share: which tile of which row list a block works on, where the rows of a list lie and
// which keys they see, and tiles in shared memory for the kernels without tensor cores.

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

/// A tile of a row list, or of the keys of a key/value head.
struct attention_tile {
  Index sequence;
  Index list;     ///< of rows; of a tile of keys the key/value head
  Index kv_head;  ///< that it reads, or is of
  Index first;    ///< its first row or key; behind the last one: nothing to do
};

/// The tiles of all sequences and their row lists or key/value heads, numbered so that the heavy ones come first: a
/// causal mask makes the last rows and the first keys the heavy ones.
struct attention_tiles {
  segments tokens;
  Index per_token;  ///< rows of the list, or 1; where heads are chosen, the rows of all lists
  Index heads;      ///< lists, or key/value heads, of a sequence
  Index rows;       ///< of a tile
  Index together;   ///< pairs of sequence and head whose tiles are mixed: as many as the cache holds
  bool last_first;
  Int const* chosen = nullptr;  ///< where the lists of chosen heads begin; no list has a token twice
  Index lists_per_kv_head = 1;

  [[nodiscard]] HEADMIX_HD Index count() const {
    if (tokens.count == 0) return 0;
    if (tokens.offsets == nullptr) return tokens.count * per_sequence() * heads;
    Index const n = tokens.rows * per_token;
    return chosen ? tile_bound(n, tokens.count * heads, rows) : tile_bound(n, tokens.count, rows) * heads;
  }
  /// All lanes of the warp call.
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE attention_tile operator()(Device& device, Index i) const {
    if (chosen == nullptr) return (*this)(i);
    if (tokens.offsets) {
      Int const* const begins = chosen;
      Index const t = last_first ? count() - 1 - i : i;
      Index const pair =
          segment_of_tile(device, t, tokens.count * heads, rows, [=](Index list) { return Index{begins[list]}; });
      return of_list(pair, first_row_of_tile(t, pair, chosen[pair], rows));
    }
    auto const [pair, t] = mixed(i);
    // Counted from the list's end: whatever the lists' lengths, the last tiles of all of them come first.
    Index const tiles = blocks_for(chosen[pair + 1] - chosen[pair], rows), nothing = largest_int;
    return of_list(pair, t < tiles ? (last_first ? tiles - 1 - t : t) * rows : nothing);
  }
  /// The same where no heads are chosen.
  [[nodiscard]] HEADMIX_DEVICE attention_tile operator()(Index i) const {
    if (tokens.offsets) {
      Index const head = i % heads, t = last_first ? (count() - 1 - i) / heads : i / heads;
      begin_of const begin{tokens, per_token};
      Index const sequence = segment_of_tile(t, tokens.count, rows, begin);
      return {sequence, head, head, first_row_of_tile(t, sequence, begin(sequence), rows)};
    }
    auto const [pair, t] = mixed(i);
    return {pair / heads, pair % heads, pair % heads, (last_first ? per_sequence() - 1 - t : t) * rows};
  }

 private:
  struct tile_of_pair {
    Index pair, t;
  };
  [[nodiscard]] HEADMIX_HD tile_of_pair mixed(Index i) const {
    Index const tiles = per_sequence(), pairs = tokens.count * heads;
    Index const begin = i / (tiles * together) * together, rest = i % (tiles * together);
    Index const n = pairs - begin < together ? pairs - begin : together;
    return {begin + rest % n, rest / n};
  }
  [[nodiscard]] HEADMIX_HD attention_tile of_list(Index pair, Index first) const {
    return {pair / heads, pair % heads, pair % heads / lists_per_kv_head, first};
  }
  struct begin_of {
    segments const& tokens;
    Index per_token;
    [[nodiscard]] HEADMIX_HD Index operator()(Index b) const { return tokens.begin(b) * per_token; }
  };
  [[nodiscard]] HEADMIX_HD Index per_sequence() const {
    return blocks_for(tokens.rows / tokens.count * (chosen ? 1 : per_token), rows);
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
/// Rows of a token that read the same key/value head; where heads are chosen, on average.
[[nodiscard]] inline Index rows_per_kv_head(attention_extents const& x) {
  return x.heads_are_chosen() ? blocks_for(x.rows_per_token, x.kv_heads) : x.rows_per_token * x.group();
}
/// Tiles of query rows, and what each of them reads are keys and values.
[[nodiscard]] inline attention_tiles query_tiles(attention_extents const& x, Index rows, std::size_t bytes) {
  return {x.queries,
          x.rows_per_token * (x.heads_are_chosen() ? 1 : x.group()),
          x.lists(),
          rows,
          attention_tiles_together(x.keys, 1, x.head_dim, bytes) * x.lists_per_kv_head(),
          true,
          x.chosen.slots ? x.chosen.offsets : nullptr,
          x.lists_per_kv_head()};
}
/// Tiles of keys, and what each of them reads are rows and their gradients.
[[nodiscard]] inline attention_tiles key_tiles(attention_extents const& x, Index rows, std::size_t bytes) {
  return {x.keys, 1, x.kv_heads, rows, attention_tiles_together(x.queries, rows_per_kv_head(x), x.head_dim, bytes),
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
/// Of no rows yet; and with the keys begin ... end - 1 of one more row.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD tile_sight sight_of_no_row() {
  return {largest_int, 0, 0, dense_mask<Mask> ? largest_int : 0};
}
HEADMIX_HD inline void add_sight(tile_sight& all, int begin, int end) {
  if (begin < end) {
    if (begin < all.begin) all.begin = begin;
    if (end > all.end) all.end = end;
  }
  if (begin > all.common_begin) all.common_begin = begin;
  if (end < all.common_end) all.common_end = end;
}
/// Of the rows at positions first ... last.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD tile_sight sight_of(Index first, Index last, Index keys) {
  tile_sight all = sight_of_no_row<Mask>();
  for (Index t = first; t <= last; ++t) {
    key_range const seen = keys_seen<Mask>(t, keys);
    add_sight(all, static_cast<int>(seen.begin), static_cast<int>(seen.end));
  }
  return all;
}
/// Of the rows of all 32 lanes of a warp.
template <class Device>
[[nodiscard]] HEADMIX_DEVICE tile_sight sight_by_warp(Device& device, tile_sight all) {
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
/// Of a row; nothing if there is none.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD row_sight sight_of_row(bool real, Index position, Index keys) {
  if (!real) return {0, 0, 0};
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
/// What the first `count` of them see together, by the 32 lanes of a warp.
template <AttentionMask Mask, class Device, class Sights>
[[nodiscard]] HEADMIX_DEVICE tile_sight sight_of_rows(Device& device, Sights sights, int count) {
  tile_sight all = sight_of_no_row<Mask>();
  for (int i = device.lane(); i < count; i += 32) add_sight(all, sights[3 * i], sights[3 * i + 1]);
  return sight_by_warp(device, all);
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
/// What a score is multiplied by to be in that unit.
template <class Wide>
inline constexpr double score_unit = base_2<Wide> ? log2_of_e : 1.0;
/// What a product q k is multiplied by to become a score in that unit.
template <class Wide, class T>
[[nodiscard]] Wide score_scale(attention_scores<T> const& scores) {
  return static_cast<Wide>(scores.scale * score_unit<Wide>);
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

/// Columns of the log-sum-exp: of a row where heads are chosen there is one.
[[nodiscard]] HEADMIX_HD constexpr Index heads_of_row(attention_extents const& x) {
  return x.heads_are_chosen() ? 1 : x.heads;
}

/// What the division by the heads of a key/value head and by the rows of a token takes.
struct row_divisors {
  divisor group, per_token;

  row_divisors() = default;
  explicit row_divisors(attention_extents const& x)
      : group(x.heads_are_chosen() ? 1 : x.group()), per_token(x.rows_per_token * group.n) {}
};
/// A query row in small numbers: its head begins at (row, col) of q and o. Row -1 is none.
struct small_place {
  int row, col, position;
};
/// A row list in small numbers: its elements first ... end - 1, `first` being 0 unless heads are chosen. These are
/// found in memory, others by division.
struct small_row_list {
  Int const* slots;  ///< null: found by division
  int row;           ///< of q, of element 0
  int head;          ///< of element 0
  int first, end;
  int position;  ///< of element 0; where heads are chosen, of slot 0

  HEADMIX_HD small_row_list(Int const* chosen, int first_row, int first_head, int begin, int behind, int at_position)
      : slots(chosen), row(first_row), head(first_head), first(begin), end(behind), position(at_position) {}
  HEADMIX_HD small_row_list(attention_extents const& x, Index sequence, Index list, row_divisors const& by)
      : slots(x.chosen.slots),
        row(0),
        head(0),
        first(0),
        end(0),
        position(static_cast<int>(x.keys.length(sequence) - x.queries.length(sequence))) {
    if (slots) {
      Int const* const begin = x.chosen.offsets + (sequence * x.heads + list);
      first = begin[0];
      end = begin[1];
      position -= static_cast<int>(x.queries.begin(sequence));
    } else {
      row = static_cast<int>(x.queries.begin(sequence) * x.rows_per_token);
      head = static_cast<int>(list) * by.group.n;
      end = static_cast<int>(x.queries.length(sequence)) * by.per_token.n;
    }
  }
  [[nodiscard]] HEADMIX_HD int length() const { return end - first; }
  /// Of element i, where heads have `width` columns.
  [[nodiscard]] HEADMIX_HD small_place place(int i, int width, row_divisors const& by) const {
    if (i >= end) return {-1, 0, 0};
    if (slots) {
      int const slot = slots[i];
      return {slot, 0, position + slot / by.per_token};
    }
    int const r = i / by.group;
    return {row + r, (head + (i - r * by.group.n)) * width, position_of(i, by)};
  }
  /// Of an element that is found by division.
  [[nodiscard]] HEADMIX_HD int position_of(int i, row_divisors const& by) const { return position + i / by.per_token; }
};

/// Places of rows in shared memory, `pitch` numbers each.
template <int pitch, class Ints>
struct shared_places {
  static_assert(pitch == 2 || pitch == 3);
  Ints at;

  HEADMIX_DEVICE void put(int i, small_place const& place) const {
    at[pitch * i] = place.row;
    at[pitch * i + 1] = place.col;
    if constexpr (pitch == 3) at[pitch * i + 2] = place.position;
  }
  [[nodiscard]] HEADMIX_DEVICE int row(int i) const { return at[pitch * i]; }
  [[nodiscard]] HEADMIX_DEVICE int col(int i) const { return at[pitch * i + 1]; }
  [[nodiscard]] HEADMIX_DEVICE int position(int i) const {
    static_assert(pitch == 3);
    return at[pitch * i + 2];
  }
  /// Where row i of the tile begins in a matrix, null for none.
  template <class T>
  [[nodiscard]] HEADMIX_DEVICE T* of(view<T> const& a, int i) const {
    int const r = row(i);
    return r < 0 ? nullptr : a.data + r * a.row_stride + col(i);
  }
};
/// The first rows of a list in shared memory, by `threads` threads; the caller synchronises.
template <AttentionMask Mask, int rows, int width, int threads, class Device, class Places, class Sights>
HEADMIX_DEVICE void find_rows(Device& device, small_row_list const& list, int first, row_divisors const& by, int keys,
                              Places places, Sights sights) {
  for (int i = device.thread(); i < rows; i += threads) {
    small_place const place = list.place(list.first + first + i, width, by);
    places.put(i, place);
    put_row_sight(sights, i, sight_of_row<Mask>(place.row >= 0, place.position, keys));
  }
}
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
  Index const per_token = x.rows_per_token * (x.heads_are_chosen() ? 1 : x.group());
  return x.queries.rows * per_token < (Index{1} << 32) / per_token && x.queries.rows * per_token < Index{1} << 30 &&
         x.keys.rows < Index{1} << 30 && x.kv_heads * x.head_dim < Index{1} << 30;
}

/// Whether kernels on tensor cores do it where rows are aligned. They take the maximum of the products, not of the
/// scores.
template <class T>
[[nodiscard]] bool is_for_tensor_cores(attention_extents const& x, attention_scores<T> const& scores) {
  return is_small(x) && (x.head_dim == 64 || x.head_dim == 128) && scores.bias.data == nullptr && scores.scale > 0;
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

/// A row and what it sees, in shared memory.
template <AttentionMask Mask, class Pointer, class Sights>
HEADMIX_DEVICE void plain_put_row(query_row const& at, int i, Index keys, Pointer rows, Pointer cols, Sights sights) {
  rows[i] = at.row;
  cols[i] = at.col;
  put_row_sight(sights, i, sight_of_row<Mask>(at.row >= 0, at.position, keys));
}
/// Finds the rows first ... of a list and what they see. Threads 0 .. 31 work, the caller synchronises.
template <AttentionMask Mask, class Device, class Pointer, class Sights>
HEADMIX_DEVICE void plain_find_rows(Device& device, attention_extents const& x, Index sequence, Index list, Index first,
                                    Pointer rows, Pointer cols, Sights sights) {
  int const i = device.thread();
  if (i >= plain_tile::rows) return;
  query_row at{-1, 0, 0, 0};
  if (first + i < x.list_length(sequence, list)) at = x.row(sequence, list, first + i);
  plain_put_row<Mask>(at, i, x.keys.length(sequence), rows, cols, sights);
}

/// The scores of a row, in the unit of `exponential`, from its products with keys.
template <class Wide, class T>
struct plain_scores {
  attention_scores<T> const& scores;
  Wide scale;
  T const* bias;  ///< of the row's position and head and key 0; null: none

  HEADMIX_DEVICE plain_scores(attention_scores<T> const& of, Wide by, Index position, Index head)
      : scores(of), scale(by), bias(of.bias.data ? &of.bias(position * of.bias_keys, head) : nullptr) {}
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE Wide operator()(Device& device, Wide product, Index s) const {
    Wide const score = product * scale;
    if (bias == nullptr) return score;
    constexpr auto unit = static_cast<Wide>(score_unit<Wide>);
    return score + static_cast<Wide>(device.load(bias + s * scores.bias.row_stride)) * unit;
  }
};
/// The head of a row of a list, from its first column.
[[nodiscard]] HEADMIX_HD inline Index head_of_row(attention_extents const& x, Index list, Index col) {
  return x.heads_are_chosen() ? list : col / x.head_dim;
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

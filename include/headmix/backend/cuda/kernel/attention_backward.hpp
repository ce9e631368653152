#pragma once
// SPDX-License-Identifier: MIT
// The gradient of attention. Probabilities are recomputed from the log-sum-exp. One kernel owns tiles of keys and walks
// over the rows that see them (d_k, d_v), another one owns tiles of rows and walks over keys (d_q): two products more
// than one kernel for all would make, but no sum is shared between blocks. Where there are few tiles of keys, several
// blocks share the rows of one, and their sums are added in order.

#include <cstddef>
#include <span>
#include <type_traits>

#include "headmix/backend/cuda/kernel/attention_tile.hpp"

/// Before a loop whose copies would need registers that there are not.
#ifdef __CUDACC__
#define HEADMIX_NO_UNROLL _Pragma("unroll 1")
#else
#define HEADMIX_NO_UNROLL
#endif

namespace headmix::cuda {

/// Two floats that are stored together.
struct alignas(8) float_pair {
  float low, high;
};

/// Of each row and head: what its scores are shifted by to make probabilities, and delta = <d_o, o>.
template <class Wide>
struct attention_statistics {
  Wide* data = nullptr;
  Index heads = 1;

  [[nodiscard]] HEADMIX_HD Wide* shift(Index row, Index head) const { return data + 2 * (row * heads + head); }
  [[nodiscard]] HEADMIX_HD Wide* delta(Index row, Index head) const { return shift(row, head) + 1; }
};

/// Eight lanes for each row and head.
template <class T>
struct attention_find_statistics {
  using wide = wide_t<T>;
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;
  static constexpr int together = 8;

  view<T const> o, d_o;
  view<wide const> lse;
  Index head_dim, heads, count;  ///< of rows and heads
  attention_statistics<wide> statistics;
  bool in_chunks;   ///< o and d_o can be read 16 bytes at a time
  view<T> cleared;  ///< its rows that see nothing become 0; null: none

  [[nodiscard]] Index blocks() const { return blocks_for(count, threads / together); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * (threads / together) + device.thread() / together;
    bool const real = i < count;
    Index const row = real ? i / heads : 0, head = real ? i % heads : 0;
    wide const known = real ? lse(row, head) : wide(0);
    wide delta = 0;
    int const first = device.thread() % together;
    if (cleared.data && known == minus_infinity<wide>) {
      for (Index c = first; c < head_dim; c += together) device.store(&cleared(row, head * head_dim + c), T(0));
    }
    bool done = false;
    if constexpr (std::is_same_v<T, bfloat16>) {
      done = in_chunks;
      for (Index c = 8 * first; done && real && c < head_dim; c += 8 * together) {
        words<4> const a = device.load16(&d_o(row, head * head_dim + c)),
                       b = device.load16(&o(row, head * head_dim + c));
        HEADMIX_UNROLL
        for (int w = 0; w < 4; ++w) {
          delta += low_of(a.word[w]) * low_of(b.word[w]) + high_of(a.word[w]) * high_of(b.word[w]);
        }
      }
    }
    for (Index c = first; !done && real && c < head_dim; c += together) {
      delta += static_cast<wide>(d_o(row, head * head_dim + c)) * static_cast<wide>(o(row, head * head_dim + c));
    }
    HEADMIX_UNROLL
    for (int step = 1; step < together; step *= 2) delta += device.shuffle_xor(delta, step);
    if (!real || device.thread() % together != 0) return;
    // A row that sees nothing: every probability is exp(-infinity) = 0.
    wide const shift = known == minus_infinity<wide> ? -known
                       : base_2<wide>                ? known * static_cast<wide>(log2_of_e)
                                                     : known;
    device.store(statistics.shift(row, head), shift);
    device.store(statistics.delta(row, head), delta);
  }
};

/// d_q (`of_keys` false) or d_k and d_v of any type, strides and head width, with dropout. A tile of rows owns its rows
/// and walks over keys, a tile of keys the other way round.
template <AttentionMask Mask, class T, bool of_keys>
struct attention_gradient_plain {
  using wide = wide_t<T>;
  using tile = plain_tile;
  static constexpr int columns = plain_columns<wide>, my_columns = columns / 8;
  static constexpr int threads = tile::threads;
  static constexpr bool cooperative = true;
  static constexpr int wide_bytes = static_cast<int>(sizeof(wide));
  static constexpr int small_bytes = tile::rows * tile::pitch * wide_bytes;
  static constexpr int values_at = 4 * small_bytes;
  static constexpr int statistics_at = values_at + tile::rows * columns * wide_bytes;
  static constexpr int places_at = statistics_at + 2 * tile::rows * wide_bytes;
  static constexpr int sights_at = places_at + 2 * tile::rows * static_cast<int>(sizeof(Index));
  static constexpr int shared_bytes = sights_at + 3 * tile::rows * 4;

  attention_backward<T> p;
  attention_statistics<wide> statistics;
  attention_tiles tiles;
  wide scale;       ///< of the scores
  wide last_scale;  ///< of the gradient
  bool only_dropout;

  [[nodiscard]] Index blocks() const { return tiles.count() * blocks_for(p.extents.head_dim, columns); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    bool const drops = p.dropout.on();
    if (only_dropout && !drops) return;
    attention_extents const& x = p.extents;
    Index const across = blocks_for(x.head_dim, columns);
    Index const col0 = device.block() % across * columns;
    Index const width = x.head_dim - col0 < columns ? x.head_dim - col0 : columns;
    attention_tile const mine = tiles(device, device.block() / across);
    Index const b = mine.sequence, kv = mine.kv_head, keys = x.keys.length(b);
    if (mine.first >= (of_keys ? keys : x.list_length(b, mine.list))) return;

    auto const left = device.template shared<wide>(0), right = device.template shared<wide>(small_bytes);
    auto const weights = device.template shared<wide>(2 * small_bytes);
    auto const d_weights = device.template shared<wide>(3 * small_bytes);
    auto const values = device.template shared<wide>(values_at);
    auto const row_statistics = device.template shared<wide>(statistics_at);
    auto const rows = device.template shared<Index>(places_at);
    auto const cols = rows + tile::rows;
    auto const sights = device.template shared<int>(sights_at);
    using query_rows = plain_rows<T, std::remove_cv_t<decltype(rows)>>;
    query_rows const q{p.q.data, rows, cols, p.q.row_stride, p.q.col_stride};
    query_rows const d_o{p.d_o.data, rows, cols, p.d_o.row_stride, p.d_o.col_stride};
    // Everybody may write where rows are when it begins; it says what the rows see.
    auto const find_rows = [&](Index list, Index first) {
      plain_find_rows<Mask>(device, x, b, list, first, rows, cols, sights);
      int const i = device.thread();
      if (i < tile::rows) {
        Index const row = rows[i], head = cols[i] / x.head_dim;
        row_statistics[2 * i] = row >= 0 ? device.load(statistics.shift(row, head)) : wide(0);
        row_statistics[2 * i + 1] = row >= 0 ? device.load(statistics.delta(row, head)) : wide(0);
      }
      device.sync();
      Index const left_rows = x.list_length(b, list) - first;
      return sight_of_rows<Mask>(device, sights, left_rows < tile::rows ? static_cast<int>(left_rows) : tile::rows);
    };
    int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8 * 4;
    wide out[2][my_columns] = {}, out_v[2][my_columns] = {};

    // With the rows at hand and the keys from first_key on.
    auto const add_products = [&](Index list, int first_key) {
      plain_keys<T> const k = plain_keys_of(x, p.k, b, kv, first_key), v = plain_keys_of(x, p.v, b, kv, first_key);
      wide score[2][4], d_score[2][4];
      if constexpr (of_keys) {
        plain_products(device, score, left, right, k, q, x.head_dim);
        device.sync();
        plain_products(device, d_score, left, right, v, d_o, x.head_dim);
      } else {
        plain_products(device, score, left, right, q, k, x.head_dim);
        device.sync();
        plain_products(device, d_score, left, right, d_o, v, x.head_dim);
      }
      // For the rows of this thread, over its keys.
      constexpr int my_rows = of_keys ? 4 : 2, my_keys = of_keys ? 2 : 4;
      int const row0 = of_keys ? j0 : i0, s0 = first_key + (of_keys ? i0 : j0);
      HEADMIX_UNROLL
      for (int i = 0; i < my_rows; ++i) {
        int const row = row0 + i;
        row_sight const sight = row_sight_at(sights, row);
        // The probability of a single key is 1 whatever its score is: 0, and not 0 but for rounding.
        bool const several = sight.end - sight.begin > 1;
        plain_scores<wide, T> const score_of(p.scores, scale, sight.position, head_of_row(x, list, cols[row]));
        wide factor[4] = {1, 1, 1, 1};
        if (drops && rows[row] >= 0) {
          dropout_factors<wide>(p.dropout, x, rows[row], cols[row]).four(s0 / 4 * 4, factor);
          if (my_keys == 2 && s0 % 4 == 2) {
            factor[0] = factor[2];
            factor[1] = factor[3];
          }
        }
        HEADMIX_UNROLL
        for (int j = 0; j < my_keys; ++j) {
          wide& s = score[of_keys ? j : i][of_keys ? i : j];
          wide& d = d_score[of_keys ? j : i][of_keys ? i : j];
          bool const sees = sight.template sees<Mask>(s0 + j);
          wide const probability =
              sees ? exponential(device, score_of(device, s, s0 + j) - row_statistics[2 * row]) : wide(0);
          d = sees && several ? probability * (factor[j] * d - row_statistics[2 * row + 1]) : wide(0);
          s = probability * factor[j];
        }
      }
      plain_put(device, d_weights, d_score);
      if constexpr (of_keys) {
        plain_put(device, weights, score);
        plain_stage<wide, columns, columns>(device, values, d_o, col0, col0 + width);
        device.sync();
        plain_accumulate(device, out_v, weights, values, width);
        device.sync();
        plain_stage<wide, columns, columns>(device, values, q, col0, col0 + width);
      } else {
        plain_stage<wide, columns, columns>(device, values, k, col0, col0 + width);
      }
      device.sync();
      plain_accumulate(device, out, d_weights, values, width);
      device.sync();
    };
    if constexpr (of_keys) {
      int const first_key = static_cast<int>(mine.first);
      Index const lists = x.lists_per_kv_head();
      for (Index list = kv * lists; list < (kv + 1) * lists; ++list) {
        Index const length = x.list_length(b, list);
        for (Index first = 0; first < length; first += tile::rows) {
          if (find_rows(list, first).touches(first_key, first_key + tile::rows)) {
            add_products(list, first_key);
          } else {
            device.sync();
          }
        }
      }
    } else {
      tile_sight const sight = find_rows(mine.list, mine.first);
      for (int first = sight.begin / tile::rows * tile::rows; first < sight.end; first += tile::rows) {
        add_products(mine.list, first);
      }
    }

    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      Index row = x.keys.begin(b) + mine.first + i0 + i, col = kv * x.head_dim;
      if constexpr (of_keys) {
        if (mine.first + i0 + i >= keys) continue;
      } else {
        row = rows[i0 + i];
        col = cols[i0 + i];
        if (row < 0) continue;
      }
      HEADMIX_UNROLL
      for (int j = 0; j < my_columns; ++j) {
        Index const c = device.thread() % 8 + 8 * j;
        if (c >= width) continue;
        if constexpr (of_keys) {
          if (p.d_k.data) device.store(&p.d_k(row, col + col0 + c), static_cast<T>(out[i][j] * last_scale));
          if (p.d_v.data) device.store(&p.d_v(row, col + col0 + c), static_cast<T>(out_v[i][j]));
        } else {
          device.store(&p.d_q(row, col + col0 + c), static_cast<T>(out[i][j] * last_scale));
        }
      }
    }
  }
};

/// d_q in bfloat16 on tensor cores: 4 warps of 16 `m` rows each, `keys` keys at a time. Rows are aligned, the list is
/// small.
template <AttentionMask Mask, int width, int m, int keys>
struct attention_query_gradient_tensor {
  static constexpr int warps = 4, threads = 32 * warps;
  static constexpr bool cooperative = true;
  static constexpr int rows = 16 * m * warps;
  static constexpr int query_bytes = rows * width * 2, key_bytes = keys * width * 2;
  static constexpr int stages_at = 2 * query_bytes;  // keys and values, two of each
  static constexpr int sights_at = stages_at + 4 * key_bytes;
  static constexpr int places_at = sights_at + 3 * rows * 4;
  static constexpr int shared_bytes = places_at + 2 * rows * 4;

  attention_backward<bfloat16> p;
  attention_statistics<float> statistics;
  attention_tiles tiles;
  row_divisors by;
  float scale, last_scale;

  [[nodiscard]] Index blocks() const { return tiles.count(); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // the plain kernel's
    attention_extents const& x = p.extents;
    attention_tile const mine = tiles(device, device.block());
    small_row_list const list(x, mine.sequence, mine.list, by);
    if (mine.first >= list.length()) return;
    small_keys const all_keys(x, mine, width);
    int const left = list.length() - static_cast<int>(mine.first);
    int const thread = device.thread(), lane = device.lane(), own = device.warp() * (16 * m);

    auto const queries = device.template shared<bfloat16>(0), d_outs = queries + rows * width;
    auto const sights = device.template shared<int>(sights_at);
    auto const numbers = device.template shared<int>(places_at);
    shared_places<2, std::remove_cv_t<decltype(numbers)>> const places{numbers};
    find_rows<Mask, rows, width, threads>(device, list, static_cast<int>(mine.first), by, all_keys.count, places,
                                          sights);
    device.sync();
    using row_copy = tile_copy<rows, width, threads>;
    row_copy::start(device, queries, thread, width, [&](int, int i) { return places.of(p.q, i); });
    row_copy::start(device, d_outs, thread, width, [&](int, int i) { return places.of(p.d_o, i); });
    float shift[m][2], delta[m][2];
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        int const r = own + 16 * i + 8 * half + lane / 4, row = places.row(r), head = places.col(r) / width;
        shift[i][half] = row >= 0 ? device.load(statistics.shift(row, head)) : 0.f;
        delta[i][half] = row >= 0 ? device.load(statistics.delta(row, head)) : 0.f;
      }
    }
    tile_sight const sight = sight_of_rows<Mask>(device, sights, left < rows ? left : rows);

    auto const start = [&](int first, int stage) {
      using copy = tile_copy<keys, width, threads>;
      auto const to = device.template shared<bfloat16>(stages_at + stage * 2 * key_bytes);
      copy::start(device, to, thread, width, [&](int, int s) { return all_keys.of(p.k, first + s); });
      copy::start(device, to + keys * width, thread, width, [&](int, int s) { return all_keys.of(p.v, first + s); });
    };

    constexpr int key_blocks = keys / 8, out_blocks = width / 8;
    float out[m][out_blocks][4] = {};

    int const begin = sight.begin / keys * keys;
    if (begin < sight.end) start(begin, 0);
    device.commit_copies();
    int stage = 0;
    for (int first = begin; first < sight.end; first += keys) {
      device.template wait_copies<0>();
      device.sync();  // this stage is there, and nobody reads the other one any more
      if (first + keys < sight.end) start(first + keys, stage ^ 1);
      device.commit_copies();
      auto const key = device.template shared<bfloat16>(stages_at + stage * 2 * key_bytes);
      auto const value = key + keys * width;
      stage ^= 1;

      float score[m][key_blocks][4] = {}, d_score[m][key_blocks][4] = {};
      multiply_transposed<width>(device, score, queries, own, key, 0);
      if (!sight.covers(first, first + keys)) hide_unseen<Mask>(score, sights, own, first, lane);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 4; ++e) score[i][j][e] = device.exp2(score[i][j][e] * scale - shift[i][e / 2]);
        }
      }
      multiply_transposed<width>(device, d_score, d_outs, own, value, 0);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 4; ++e) d_score[i][j][e] = score[i][j][e] * (d_score[i][j][e] - delta[i][e / 2]);
        }
      }
      multiply_sums<width>(device, out, d_score, key, 0);
    }

    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      HEADMIX_UNROLL
      for (int j = 0; j < out_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 4; ++e) out[i][j][e] *= last_scale;
      }
    }
    device.template wait_copies<0>();
    device.sync();
    put_sums<width>(device.template shared<std::uint32_t>(0), out, lane, own, 0);
    device.sync_warp();
    store_tile_rows<16 * m, width>(device, queries, own, [&](int i) { return places.of(p.d_q, i); });
  }
};

/// A tile of rows of a list of chosen heads, and what they see.
struct listed_tile {
  tile_sight sight;
  int first, count;  ///< places of its rows
  int unused[2];
};
/// All tiles of the lists, which are numbered as segment_of_tile does: those of lists that read the same keys follow
/// each other. Null where no heads are chosen.
struct listed_tiles {
  listed_tile* data = nullptr;

  static Index count(attention_extents const& x, Index rows) {
    if (!x.heads_are_chosen()) return 0;
    return tile_bound(x.queries.rows * x.rows_per_token, x.queries.count * x.heads, rows);
  }
  /// The first tile of a list.
  [[nodiscard]] static HEADMIX_DEVICE int begin(attention_extents const& x, Index list, int rows) {
    return x.chosen.offsets[list] / rows + static_cast<int>(list);
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE tile_sight sight(Device& device, int tile) const {
    words<4> const w = device.load16(&data[tile].sight);
    return __builtin_bit_cast(tile_sight, w);
  }
};
/// Finds them, a warp for each.
template <AttentionMask Mask, int rows>
struct attention_find_tiles {
  static constexpr int threads = 128, warps = threads / 32;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;

  attention_extents x;
  divisor per_token;
  listed_tiles tiles;

  [[nodiscard]] Index blocks() const { return blocks_for(listed_tiles::count(x, rows), warps); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const t = device.block() * warps + device.warp();
    if (t >= tile_bound(x.queries.rows * x.rows_per_token, x.queries.count * x.heads, rows)) return;
    Int const* const begins = x.chosen.offsets;
    Index const list =
        segment_of_tile(device, t, x.queries.count * x.heads, rows, [=](Index of) { return Index{begins[of]}; });
    Index const b = list / x.heads, first = begins[list] + first_row_of_tile(t, list, begins[list], rows);
    Index const end = begins[list + 1] < first + rows ? begins[list + 1] : first + rows;
    int const keys = static_cast<int>(x.keys.length(b));
    int const position = keys - static_cast<int>(x.queries.end(b));
    tile_sight all = sight_of_no_row<Mask>();
    for (Index i = first + device.lane(); i < end; i += 32) {
      key_range const seen = keys_seen<Mask>(position + x.chosen.slots[i] / per_token, keys);
      add_sight(all, static_cast<int>(seen.begin), static_cast<int>(seen.end));
    }
    all = sight_by_warp(device, all);
    if (device.lane() != 0) return;
    listed_tile const made{all, static_cast<int>(first), first < end ? static_cast<int>(end - first) : 0, {}};
    words<8> const all_words = __builtin_bit_cast(words<8>, made);
    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      words<4> half;
      HEADMIX_UNROLL
      for (int w = 0; w < 4; ++w) half.word[w] = all_words.word[4 * i + w];
      device.store16(reinterpret_cast<std::uint32_t*>(tiles.data + t) + 4 * i, half);
    }
  }
};

/// What a block of keys has to know between its products; it lies in shared memory, since registers are short then.
template <class Ints>
struct key_block_facts {
  static constexpr int count = 11;
  Ints at;

  /// The lists that read the keys have `tiles` tiles from `first_tile` on.
  HEADMIX_DEVICE void put(small_row_list const& list, small_keys const& keys, int first_key, int part, int first_tile,
                          int tiles) const {
    int const values[count] = {list.row, list.head, list.end, list.position, keys.begin, keys.count,
                               keys.col, first_key, part,     first_tile,    tiles};
    HEADMIX_UNROLL
    for (int i = 0; i < count; ++i) at[i] = values[i];
  }
  [[nodiscard]] HEADMIX_DEVICE small_row_list list(Int const* slots) const {
    return {slots, at[0], at[1], 0, at[2], at[3]};
  }
  [[nodiscard]] HEADMIX_DEVICE small_keys keys() const { return {at[4], at[5], at[6]}; }
  [[nodiscard]] HEADMIX_DEVICE int key_count() const { return at[5]; }
  [[nodiscard]] HEADMIX_DEVICE int first_key() const { return at[7]; }
  [[nodiscard]] HEADMIX_DEVICE int part() const { return at[8]; }
  [[nodiscard]] HEADMIX_DEVICE int first_tile() const { return at[9]; }
  [[nodiscard]] HEADMIX_DEVICE int tiles() const { return at[10]; }
};

/// The tiles of rows that see a tile of keys, in order, every `parts`-th of them. The 32 lanes of a warp look at 32
/// tiles together.
template <AttentionMask Mask, int rows, int keys>
struct seeing_tiles {
  int base = -32;  ///< of the tiles in the words below
  std::uint32_t seeing = 0, covering = 0;
  bool covers = false;  ///< every row of the latest tile sees every key

  /// The number of the next one; -1 behind the last one.
  template <class Device, class Ints>
  HEADMIX_DEVICE int next(Device& device, key_block_facts<Ints> const& facts, listed_tiles const& listed,
                          row_divisors const& by, int parts) {
    while (seeing == 0) {
      base += 32;
      if (base >= facts.tiles()) return -1;
      int const t = base + device.lane();
      int const first_key = facts.first_key(), count = facts.key_count();
      int const last_key = first_key + keys < count ? first_key + keys : count;
      tile_sight sight{0, 0, 0, 0};
      if (t < facts.tiles() && t % parts == facts.part()) {
        if (listed.data) {
          sight = listed.sight(device, facts.first_tile() + t);
        } else {
          small_row_list const list = facts.list(nullptr);
          int const first = t * rows, last = (list.end < first + rows ? list.end : first + rows) - 1;
          sight = sight_of<Mask>(list.position_of(first, by), list.position_of(last, by), count);
        }
      }
      seeing = device.ballot(sight.touches(first_key, last_key));
      covering = device.ballot(sight.covers(first_key, last_key));
    }
    int bit = 0;
    while ((seeing >> bit & 1) == 0) ++bit;
    seeing &= seeing - 1;
    covers = (covering >> bit & 1) != 0;
    return base + bit;
  }
};

/// Sums of d_k and d_v over parts of the rows, each a contiguous matrix of all keys.
struct attention_parts {
  float* data = nullptr;
  Index count = 1, rows = 0, cols = 0;

  [[nodiscard]] HEADMIX_HD float* of(Index part, bool values) const { return data + (2 * part + values) * rows * cols; }
  [[nodiscard]] std::size_t bytes() const {
    return count == 1 ? 0 : static_cast<std::size_t>(2 * count * rows * cols) * sizeof(float);
  }
};
/// As many as it takes for 1024 blocks, up to eight, unless they become short. The extents alone decide.
[[nodiscard]] inline attention_parts attention_parts_of(attention_extents const& x, Index keys, Index rows) {
  Index const blocks = key_tiles(x, keys, 2).count();
  Index const tiles = x.queries.count == 0 ? 0 : x.queries.rows / x.queries.count * rows_per_kv_head(x) / rows;
  Index parts = blocks == 0 ? 1 : 1024 / blocks;
  if (parts > 8) parts = 8;
  if (parts > tiles / 4) parts = tiles / 4;
  if (parts < 1) parts = 1;
  return {nullptr, parts, x.keys.rows, x.kv_heads * x.head_dim};
}

/// d_k (d_v) = the sum of the parts, in order. Rows are aligned.
struct attention_add_parts {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  attention_parts parts;
  view<bfloat16> to;
  bool values;
  attention_dropout dropout;

  [[nodiscard]] Index blocks() const { return blocks_for(parts.rows * parts.cols / 8, threads); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (dropout.on()) return;  // there are none
    Index const i = device.block() * threads + device.thread(), chunks = parts.cols / 8;
    if (i >= parts.rows * chunks) return;
    Index const row = i / chunks, col = i % chunks * 8;
    float sum[8] = {};
    for (Index part = 0; part < parts.count; ++part) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        words<4> const four = device.load16(parts.of(part, values) + row * parts.cols + col + 4 * half);
        HEADMIX_UNROLL
        for (int w = 0; w < 4; ++w) sum[4 * half + w] += __builtin_bit_cast(float, four.word[w]);
      }
    }
    device.store16(&to(row, col),
                   {{pack(sum[0], sum[1]), pack(sum[2], sum[3]), pack(sum[4], sum[5]), pack(sum[6], sum[7])}});
  }
};

/// d_k and d_v in bfloat16 on tensor cores: 4 warps of 16 `m` keys each, 64 rows at a time in parts of `part`. Rows are
/// aligned, the list is small.
template <AttentionMask Mask, int width, int m, int part>
struct attention_key_gradient_tensor {
  static constexpr int warps = 4, threads = 32 * warps;
  static constexpr bool cooperative = true;
  static constexpr int keys = 16 * m * warps, rows = 64;
  static constexpr int key_bytes = keys * width * 2, query_bytes = rows * width * 2;
  static constexpr int stages_at = 2 * key_bytes;  // queries and gradients of the output, two of each
  static constexpr int statistics_at = stages_at + 4 * query_bytes;
  static constexpr int sights_at = statistics_at + 2 * 2 * rows * 4;
  static constexpr int places_at = sights_at + 2 * 3 * rows * 4;
  static constexpr int facts_at = places_at + 2 * 3 * rows * 4;
  static constexpr int shared_bytes = facts_at + 11 * 4;

  attention_backward<bfloat16> p;
  attention_statistics<float> statistics;
  attention_tiles tiles;
  row_divisors by;
  float scale, last_scale;
  attention_parts parts;
  listed_tiles listed;

  [[nodiscard]] Index blocks() const { return tiles.count() * parts.count; }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // the plain kernel's
    attention_extents const& x = p.extents;
    attention_tile const mine = tiles(device.block() / parts.count);
    int const thread = device.thread(), lane = device.lane(), own = device.warp() * (16 * m);
    auto const ints = device.template shared<int>(facts_at);
    key_block_facts<std::remove_cv_t<decltype(ints)>> const facts{ints};
    small_keys const all_keys(x, mine, width);
    if (mine.first >= all_keys.count) return;
    int const first_key = static_cast<int>(mine.first);
    if (thread == 0) {
      int const part_number = static_cast<int>(device.block() % parts.count);
      Index const lists = x.lists_per_kv_head(), first_list = mine.kv_head * lists;
      small_row_list const list(x, mine.sequence, first_list, by);
      if (listed.data) {
        Index const at = mine.sequence * x.heads + first_list;
        int const first_tile = listed_tiles::begin(x, at, rows);
        facts.put(list, all_keys, first_key, part_number, first_tile,
                  listed_tiles::begin(x, at + lists, rows) - first_tile);
      } else {
        facts.put(list, all_keys, first_key, part_number, 0, (list.end + rows - 1) / rows);
      }
    }
    auto const key = device.template shared<bfloat16>(0), value = key + keys * width;
    tile_copy<keys, width, threads>::start(device, key, thread, width,
                                           [&](int, int s) { return all_keys.of(p.k, first_key + s); });
    tile_copy<keys, width, threads>::start(device, value, thread, width,
                                           [&](int, int s) { return all_keys.of(p.v, first_key + s); });
    float my_shift = 0, my_delta = 0;  // of row `thread` of the next stage, on their way as the copies are
    auto const put_statistics = [&](int stage) {
      if (thread >= rows) return;
      auto const numbers = device.template shared<float>(statistics_at + stage * 2 * rows * 4);
      numbers[thread] = my_shift;
      numbers[rows + thread] = my_delta;
    };
    auto const places_of = [&](int stage) {
      auto const numbers = device.template shared<int>(places_at + stage * 3 * rows * 4);
      return shared_places<3, std::remove_cv_t<decltype(numbers)>>{numbers};
    };
    // Where the rows of a tile lie is found one step before they are copied.
    auto const find = [&](int tile, int stage) {
      if (tile < 0 || thread >= rows) return;
      small_row_list list = facts.list(p.extents.chosen.slots);
      int i = tile * rows + thread;
      if (listed.data) {
        listed_tile const* const at = listed.data + (facts.first_tile() + tile);
        i = device.load(&at->first);
        list.end = i + device.load(&at->count);
        i += thread;
      }
      places_of(stage).put(thread, list.place(i, width, by));
    };
    auto const start = [&](int stage, bool covered) {
      using copy = tile_copy<rows, width, threads>;
      auto const places = places_of(stage);
      auto const to = device.template shared<bfloat16>(stages_at + stage * 2 * query_bytes);
      copy::start(device, to, thread, width, [&](int, int i) { return places.of(p.q, i); });
      copy::start(device, to + rows * width, thread, width, [&](int, int i) { return places.of(p.d_o, i); });
      if (thread >= rows) return;
      int const row = places.row(thread), head = places.col(thread) / width;
      my_shift = row >= 0 ? device.load(statistics.shift(row, head)) : 0.f;
      my_delta = row >= 0 ? device.load(statistics.delta(row, head)) : 0.f;
      if (covered) return;
      auto const sights = device.template shared<int>(sights_at + stage * 3 * rows * 4);
      put_row_sight(sights, thread, sight_of_row<Mask>(row >= 0, places.position(thread), facts.key_count()));
    };

    constexpr int row_blocks = part / 8, out_blocks = width / 8;
    float out_k[m][out_blocks][4] = {}, out_v[m][out_blocks][4] = {};

    device.sync();  // the facts are there
    seeing_tiles<Mask, rows, keys> order;
    // Two bits each for the tile at work and for the next two: that there is one, and that its rows see every key.
    constexpr unsigned real = 1, covered = 2;
    auto const find_next = [&](int to_stage) {
      int const tile = order.next(device, facts, listed, by, static_cast<int>(parts.count));
      find(tile, to_stage);
      return tile < 0 ? 0 : order.covers ? real | covered : real;
    };
    unsigned ahead = find_next(0);
    ahead |= find_next(1) << 2;
    device.sync();  // the places are there
    if (ahead & real) start(0, (ahead & covered) != 0);
    device.commit_copies();
    put_statistics(0);
    int stage = 0;
    while (ahead & real) {
      device.template wait_copies<0>();
      device.sync();  // this stage is there, and nobody reads the other one any more, nor where this one's rows lie
      if (ahead >> 2 & real) start(stage ^ 1, (ahead >> 2 & covered) != 0);
      device.commit_copies();
      ahead |= find_next(stage) << 4;
      auto const query = device.template shared<bfloat16>(stages_at + stage * 2 * query_bytes);
      auto const d_out = query + rows * width;
      auto const shift = device.template shared<float>(statistics_at + stage * 2 * rows * 4), delta = shift + rows;
      auto const sights = device.template shared<int>(sights_at + stage * 3 * rows * 4);

      HEADMIX_NO_UNROLL
      for (int r = 0; r < rows; r += part) {
        float score[m][row_blocks][4] = {}, d_score[m][row_blocks][4] = {};  // transposed: a row for each key
        multiply_transposed<width>(device, score, key, own, query, r);
        if ((ahead & covered) == 0) {
          int const s = facts.first_key() + own + lane / 4;
          HEADMIX_UNROLL
          for (int j = 0; j < row_blocks; ++j) {
            HEADMIX_UNROLL
            for (int e = 0; e < 2; ++e) {
              row_sight const row = row_sight_at(sights, r + 8 * j + lane % 4 * 2 + e);
              HEADMIX_UNROLL
              for (int i = 0; i < m; ++i) {
                HEADMIX_UNROLL
                for (int half = 0; half < 2; ++half) {
                  bool const sees = row.template sees<Mask>(s + 16 * i + 8 * half);
                  if (!sees) score[i][j][2 * half + e] = minus_infinity<float>;
                }
              }
            }
          }
        }
        HEADMIX_UNROLL
        for (int j = 0; j < row_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 2; ++e) {
            float const less = shift[r + 8 * j + lane % 4 * 2 + e];
            HEADMIX_UNROLL
            for (int i = 0; i < m; ++i) {
              HEADMIX_UNROLL
              for (int half = 0; half < 2; ++half) {
                float& s = score[i][j][2 * half + e];
                s = device.exp2(s * scale - less);
              }
            }
          }
        }
        multiply_sums<width>(device, out_v, score, d_out, r);
        multiply_transposed<width>(device, d_score, value, own, d_out, r);
        HEADMIX_UNROLL
        for (int j = 0; j < row_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 2; ++e) {
            float const less = delta[r + 8 * j + lane % 4 * 2 + e];
            HEADMIX_UNROLL
            for (int i = 0; i < m; ++i) {
              HEADMIX_UNROLL
              for (int half = 0; half < 2; ++half) {
                float& d = d_score[i][j][2 * half + e];
                d = score[i][j][2 * half + e] * (d - less);
              }
            }
          }
        }
        multiply_sums<width>(device, out_k, d_score, query, r);
      }
      ahead >>= 2;
      stage ^= 1;
      put_statistics(stage);
    }

    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      HEADMIX_UNROLL
      for (int j = 0; j < out_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 4; ++e) out_k[i][j][e] *= last_scale;
      }
    }
    device.template wait_copies<0>();
    small_keys const my_keys = facts.keys();
    if (parts.count > 1) {
      auto const store = [&](float const(&sums)[m][out_blocks][4], float* to) {
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i) {
          HEADMIX_UNROLL
          for (int half = 0; half < 2; ++half) {
            int const s = facts.first_key() + own + 16 * i + 8 * half + lane / 4;
            if (s >= my_keys.count) continue;
            float* const row = to + (my_keys.begin + s) * parts.cols + my_keys.col + lane % 4 * 2;
            HEADMIX_UNROLL
            for (int j = 0; j < out_blocks; ++j) {
              device.store(reinterpret_cast<float_pair*>(row + 8 * j),
                           float_pair{sums[i][j][2 * half], sums[i][j][2 * half + 1]});
            }
          }
        }
      };
      store(out_k, parts.of(facts.part(), false));
      store(out_v, parts.of(facts.part(), true));
      return;
    }
    device.sync();
    auto const words_of = [&](int byte) { return device.template shared<std::uint32_t>(byte); };
    put_sums<width>(words_of(0), out_k, lane, own, 0);
    put_sums<width>(words_of(key_bytes), out_v, lane, own, 0);
    device.sync_warp();
    auto const store = [&](auto tile, view<bfloat16> const& to) {
      if (to.data == nullptr) return;
      store_tile_rows<16 * m, width>(device, tile, own, [&](int s) { return my_keys.of(to, facts.first_key() + s); });
    };
    store(key, p.d_k);
    store(value, p.d_v);
  }
};

/// Which of the kernels above make d_k and d_v, and d_q, of heads so wide.
template <AttentionMask Mask, int width>
struct attention_gradient_tensor;
template <AttentionMask Mask>
struct attention_gradient_tensor<Mask, 64> {
  using of_keys = attention_key_gradient_tensor<Mask, 64, 1, 64>;
  using of_queries = attention_query_gradient_tensor<Mask, 64, 2, 32>;
};
template <AttentionMask Mask>
struct attention_gradient_tensor<Mask, 128> {
  using of_keys = attention_key_gradient_tensor<Mask, 128, 1, 32>;
  using of_queries = attention_query_gradient_tensor<Mask, 128, 1, 64>;
};
/// The parts of those.
template <int width>
[[nodiscard]] attention_parts attention_gradient_parts(attention_extents const& x) {
  using kernel = typename attention_gradient_tensor<full, width>::of_keys;
  return attention_parts_of(x, kernel::keys, kernel::rows);
}
/// Where the statistics end in the scratch.
template <class Wide>
[[nodiscard]] std::size_t attention_statistics_bytes(attention_extents const& x) {
  auto const bytes = static_cast<std::size_t>(2 * x.queries.rows * x.rows_per_token * heads_of_row(x)) * sizeof(Wide);
  return (bytes + 15) / 16 * 16;
}
/// What lies behind them: the tiles of the lists, then the parts.
template <int width>
[[nodiscard]] std::size_t attention_tiles_bytes(attention_extents const& x) {
  constexpr int rows = attention_gradient_tensor<full, width>::of_keys::rows;
  return static_cast<std::size_t>(listed_tiles::count(x, rows)) * sizeof(listed_tile);
}

/// Scratch that attention_gradient needs, in bytes; it begins at a multiple of 16.
template <class T>
[[nodiscard]] std::size_t attention_gradient_scratch_bytes(attention_backward<T> const& p) {
  attention_extents const& x = p.extents;
  std::size_t bytes = attention_statistics_bytes<wide_t<T>>(x);
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (x.head_dim == 64) bytes += attention_tiles_bytes<64>(x) + attention_gradient_parts<64>(x).bytes();
    if (x.head_dim == 128) bytes += attention_tiles_bytes<128>(x) + attention_gradient_parts<128>(x).bytes();
  }
  return bytes;
}

/// Finds the statistics of all rows; those of `cleared` that see nothing, or are in no list, become 0.
template <class Queue, class T>
attention_statistics<wide_t<T>> find_attention_statistics(Queue& queue, attention_backward<T> const& p, view<T> cleared,
                                                          std::span<std::byte> scratch) {
  attention_extents const& x = p.extents;
  Index const heads = heads_of_row(x);
  attention_statistics<wide_t<T>> const statistics{reinterpret_cast<wide_t<T>*>(scratch.data()), heads};
  attention_find_statistics<T> const find{
      p.o,        p.d_o,
      p.lse,      x.head_dim,
      heads,      x.queries.rows * x.rows_per_token * heads,
      statistics, x.head_dim % 8 == 0 && heads_are_aligned(p.o) && heads_are_aligned(p.d_o),
      cleared};
  queue.launch(find, find.blocks());
  return statistics;
}

/// Overwrites d_q, d_k and d_v; one whose data is null is not computed. Rows that see nothing or are in no list, and
/// keys that nobody sees, get 0.
template <AttentionMask Mask, class Queue, class T>
void attention_gradient(Queue& queue, attention_backward<T> const& p, std::span<std::byte> scratch) {
  using wide = wide_t<T>;
  attention_extents const& x = p.extents;
  if (x.head_dim == 0 || x.queries.count == 0 || !(p.d_q.data || p.d_k.data || p.d_v.data)) return;
  attention_statistics<wide> const statistics =
      find_attention_statistics(queue, p, x.heads_are_chosen() ? p.d_q : view<T>{}, scratch);
  wide const scale = score_scale<wide>(p.scores), last_scale = static_cast<wide>(p.scores.scale);
  bool const of_queries = p.d_q.data && x.queries.rows > 0, of_keys = p.d_k.data || p.d_v.data;
  bool done = false;
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (heads_are_aligned(p.q) && heads_are_aligned(p.k) && heads_are_aligned(p.v) && heads_are_aligned(p.d_o) &&
        heads_are_aligned(p.d_q) && heads_are_aligned(p.d_k) && heads_are_aligned(p.d_v) &&
        is_for_tensor_cores(x, p.scores)) {
      done = true;
      row_divisors const by(x);
      auto const launch = [&]<int width>(std::integral_constant<int, width>) {
        using kernels = attention_gradient_tensor<Mask, width>;
        if (of_keys) {
          using kernel_type = typename kernels::of_keys;
          std::byte* const behind = scratch.data() + attention_statistics_bytes<wide>(x);
          listed_tiles const listed{x.heads_are_chosen() ? reinterpret_cast<listed_tile*>(behind) : nullptr};
          if (listed.data) {
            attention_find_tiles<Mask, kernel_type::rows> const tiles{x, by.per_token, listed};
            queue.launch(tiles, tiles.blocks());
          }
          attention_parts parts = attention_gradient_parts<width>(x);
          parts.data = reinterpret_cast<float*>(behind + attention_tiles_bytes<width>(x));
          kernel_type const kernel{p,     statistics, key_tiles(x, kernel_type::keys, sizeof(T)), by, scale, last_scale,
                                   parts, listed};
          queue.launch(kernel, kernel.blocks());
          if (parts.count > 1) {
            attention_add_parts const keys{parts, p.d_k, false, p.dropout}, values{parts, p.d_v, true, p.dropout};
            if (p.d_k.data) queue.launch(keys, keys.blocks());
            if (p.d_v.data) queue.launch(values, values.blocks());
          }
        }
        if (of_queries) {
          using kernel_type = typename kernels::of_queries;
          kernel_type const kernel{p, statistics, query_tiles(x, kernel_type::rows, sizeof(T)), by, scale, last_scale};
          queue.launch(kernel, kernel.blocks());
        }
      };
      if (x.head_dim == 64) launch(std::integral_constant<int, 64>{});
      if (x.head_dim == 128) launch(std::integral_constant<int, 128>{});
      if (p.dropout.key == nullptr) return;
    }
  }
  if (of_keys) {
    attention_gradient_plain<Mask, T, true> const kernel{p,     statistics, key_tiles(x, plain_tile::rows, sizeof(T)),
                                                         scale, last_scale, done};
    queue.launch(kernel, kernel.blocks());
  }
  if (of_queries) {
    attention_gradient_plain<Mask, T, false> const kernel{
        p, statistics, query_tiles(x, plain_tile::rows, sizeof(T)), scale, last_scale, done};
    queue.launch(kernel, kernel.blocks());
  }
}

}  // namespace headmix::cuda

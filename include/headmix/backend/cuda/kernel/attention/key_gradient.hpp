#pragma once
// SPDX-License-Identifier: MIT
// d_k and d_v of attention on tensor cores: the tiles of rows that see a tile of keys, and their sums.

#include "headmix/backend/cuda/kernel/attention/listed_tiles.hpp"
#include "headmix/backend/cuda/kernel/attention/parts.hpp"
#include "headmix/backend/cuda/kernel/attention/statistics.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::gpu {

/// State of a block of keys between its products; in shared memory, since registers are scarce.
template <class Ints>
struct key_block {
  static constexpr int count = 11;
  Ints at;

  /// Computes the state for a tile of keys, and for the lists that read them, in tiles of `rows` rows, distributed over
  /// the parts.
  HEADMIX_DEVICE void find(attention_extents const& x, attention_tile const& mine, small_keys const& keys, int part,
                           listed_tiles const& listed, row_divisors const& by, int rows) const {
    Index const lists = x.lists_per_kv_head(), first_list = mine.kv_head * lists;
    small_row_list const list(x, mine.sequence, first_list, by);
    int first_tile = 0, tiles = (list.end + rows - 1) / rows;
    if (listed.data) {
      Index const first = mine.sequence * x.heads + first_list;
      first_tile = listed_tiles::begin(x, first, rows);
      tiles = listed_tiles::begin(x, first + lists, rows) - first_tile;
    }
    int const values[count] = {list.row,   list.head,  list.end, list.position,
                               keys.begin, keys.count, keys.col, static_cast<int>(mine.first),
                               part,       first_tile, tiles};
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

/// The tiles of rows that see a tile of keys, in order, every `parts`-th of them. The 32 lanes of a warp test 32 tiles
/// at a time.
template <AttentionMask Mask, int rows, int keys>
struct seeing_tiles {
  int base = -32;  ///< first tile of the words below
  std::uint32_t seeing = 0, covering = 0;
  bool covers = false;  ///< every row of the latest tile sees every key

  /// The number of the next tile; -1 after the last.
  template <class Device, class Ints>
  HEADMIX_DEVICE int next(Device& device, key_block<Ints> const& facts, listed_tiles const& listed,
                          row_divisors const& by, int parts) {
    while (seeing == 0) {
      base += 32;
      if (base >= facts.tiles()) return -1;
      int const t = base + device.lane();
      int const first_key = facts.first_key(), count = facts.key_count();
      int const last_key = first_key + keys < count ? first_key + keys : count;
      tile_sight visible_range{0, 0, 0, 0};
      if (t < facts.tiles() && t % parts == facts.part()) {
        if (listed.data) {
          visible_range = listed.visible_range(device, facts.first_tile() + t);
        } else {
          small_row_list const list = facts.list(nullptr);
          int const first = t * rows, last = (list.end < first + rows ? list.end : first + rows) - 1;
          visible_range = sight_of<Mask>(list.position_of(first, by), list.position_of(last, by), count);
        }
      }
      seeing = device.ballot(visible_range.touches(first_key, last_key));
      covering = device.ballot(visible_range.covers(first_key, last_key));
    }
    int const bit = count_bits((seeing & (0u - seeing)) - 1);  // the lowest set bit
    seeing &= seeing - 1;
    covers = (covering >> bit & 1) != 0;
    return base + bit;
  }
};

/// d_k and d_v in bfloat16 on tensor cores, `row_tile` rows at a time. Two warps share 32 keys: one computes their d_v,
/// the other their d_k. Each computes the probabilities and score gradients of half of the rows, keeps those for its
/// own sums and passes the others to its partner: so a fragment of keys or rows feeds two products, and the sums of 32
/// keys fit in registers. Rows are aligned; the list satisfies is_small.
template <AttentionMask Mask, class Map, int width, int pairs, int row_tile>
struct attention_key_gradient_tensor {
  static constexpr int m = 2, warps = 2 * pairs, threads = 32 * warps;
  static constexpr bool cooperative = true;
  static constexpr int keys = 16 * m * pairs, rows = row_tile, own_rows = rows / 2;
  static constexpr int key_bytes = keys * width * 2, query_bytes = rows * width * 2;
  static constexpr int handed_bytes = 16 * m * own_rows * 2;  // passed by a warp, as fragments
  static constexpr int stages_at = 2 * key_bytes;             // queries and output gradients, two of each
  static constexpr int handed_at = stages_at + 4 * query_bytes;
  static constexpr int statistics_at = handed_at + warps * handed_bytes;
  static constexpr int sights_at = statistics_at + 2 * 2 * rows * 4;
  static constexpr int places_at = sights_at + 2 * 3 * rows * 4;
  static constexpr int facts_at = places_at + 2 * 3 * rows * 4;
  static constexpr int heads_at = facts_at + 11 * 4;
  static constexpr int odd_at = heads_at + (Map::identity ? 0 : 2 * 3 * rows * 4);
  static constexpr int shared_bytes = odd_at + 2 * rows * 4;

  attention_backward<bfloat16, Map> p;
  attention_statistics<float> statistics;
  attention_tiles tiles;
  row_divisors by;
  float scale, last_scale;
  attention_parts parts;
  listed_tiles listed;

  [[nodiscard]] Index blocks() const { return tiles.count() * parts.count; }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // left to the plain kernel
    attention_extents const& x = p.extents;
    attention_tile const mine = tiles(device.block() / parts.count);
    int const thread = device.thread(), lane = device.lane(), own = device.warp() / 2 * (16 * m);
    bool const makes_values = device.warp() % 2 != 0;
    auto const ints = device.template shared<int>(facts_at);
    key_block<std::remove_cv_t<decltype(ints)>> const facts{ints};
    small_keys const all_keys(x, mine, by, width);
    if (mine.first >= all_keys.count) return;
    int const first_key = static_cast<int>(mine.first);
    if (thread == 0) {
      facts.find(x, mine, all_keys, static_cast<int>(device.block() % parts.count), listed, by, rows);
    }
    auto const key = device.template shared<bfloat16>(0), value = key + keys * width;
    tile_copy<keys, width, threads>::start(device, key, thread, width,
                                           [&](int, int s) { return all_keys.of(p.k, first_key + s); });
    tile_copy<keys, width, threads>::start(device, value, thread, width,
                                           [&](int, int s) { return all_keys.of(p.v, first_key + s); });
    float my_shift = 0, my_delta = 0;  // of row `thread` of the next stage, loaded with its copies
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
    // Position and head of the rows, if a map reads them; heads are found with the row offsets.
    auto const mapped_rows_of = [&](int stage) { return device.template shared<int>(heads_at + stage * 2 * rows * 4); };
    auto const found_heads_of = [&](int stage) { return mapped_rows_of(2) + stage * rows; };
    // Row offsets of a tile are found one step before its copies.
    auto const find = [&](int tile, int stage) {
      if (tile < 0 || thread >= rows) return;
      small_row_list list = facts.list(p.extents.chosen.slots);
      int i = tile * rows + thread;
      if (listed.data) {
        listed_tile const* const at = listed.data + (facts.first_tile() + tile);
        i = device.load(&at->first);
        list.end = i + device.load(&at->count);
        i += thread;
        if constexpr (!Map::identity) found_heads_of(stage)[thread] = device.load(&at->head);
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
      if constexpr (!Map::identity) {
        auto const mapped = mapped_rows_of(stage);
        mapped[2 * thread] = places.position(thread);
        mapped[2 * thread + 1] = listed.data ? found_heads_of(stage)[thread] : head;
      }
      if (covered) return;
      auto const sights = device.template shared<int>(sights_at + stage * 3 * rows * 4);
      put_row_sight(sights, thread, sight_of_row<Mask>(row >= 0, places.position(thread), facts.key_count()));
    };

    float const unit = Map::identity ? scale : 1.f;  // of scores in registers
    constexpr int row_blocks = own_rows / 8, out_blocks = width / 8;
    float out[m][out_blocks][4] = {};

    device.sync();  // the state is written
    seeing_tiles<Mask, rows, keys> order;
    // Two bits each for the current tile and for the next two: that it exists, and that its rows see every key.
    constexpr unsigned real = 1, covered = 2;
    auto const find_next = [&](int to_stage) {
      int const tile = order.next(device, facts, listed, by, static_cast<int>(parts.count));
      find(tile, to_stage);
      return tile < 0 ? 0 : order.covers ? real | covered : real;
    };
    unsigned ahead = find_next(0);
    ahead |= find_next(1) << 2;
    device.sync();  // the row offsets are written
    if (ahead & real) start(0, (ahead & covered) != 0);
    device.cp_async_commit();
    put_statistics(0);
    int stage = 0;
    while (ahead & real) {
      device.template cp_async_wait<0>();
      device.sync();  // this stage has arrived, and all have read the other stage and this stage's row offsets
      if (ahead >> 2 & real) start(stage ^ 1, (ahead >> 2 & covered) != 0);
      device.cp_async_commit();
      ahead |= find_next(stage) << 4;
      auto const query = device.template shared<bfloat16>(stages_at + stage * 2 * query_bytes);
      auto const d_out = query + rows * width;
      auto const shift = device.template shared<float>(statistics_at + stage * 2 * rows * 4), delta = shift + rows;
      auto const sights = device.template shared<int>(sights_at + stage * 3 * rows * 4);
      auto const odd = device.template shared<int>(odd_at);  // of queries, then of output gradients
      bool const all_seen = (ahead & covered) != 0;
      if (!all_seen) {
        clear_odd_rows<rows, width, threads>(device, query, odd);
        clear_odd_rows<rows, width, threads>(device, d_out, odd + rows);
        device.sync();
      }
      // The row counterpart of mark_odd_keys.
      auto const mark_odd_rows = [&]<int n>(float(&weights)[m][n][4], int r) {
        int const s = facts.first_key() + own + lane / 4;
        HEADMIX_UNROLL
        for (int j = 0; j < n; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 2; ++e) {
            int const i0 = r + 8 * j + lane % 4 * 2 + e;
            row_sight const row = row_sight_at(sights, i0);
            bool const is_odd = odd[i0] + odd[rows + i0] != 0;
            HEADMIX_UNROLL
            for (int i = 0; i < m; ++i) {
              HEADMIX_UNROLL
              for (int half = 0; half < 2; ++half) {
                float& w = weights[i][j][2 * half + e];
                bool const sees = row.template sees<Mask>(s + 16 * i + 8 * half);
                w = !sees ? 0.f : is_odd ? not_a_number<float> : w;
              }
            }
          }
        }
      };
      int const r = makes_values ? own_rows : 0;
      float score[m][row_blocks][4] = {}, d_score[m][row_blocks][4] = {};  // transposed: a row for each key
      multiply_transposed<width>(device, score, key, own, query, r);
      // Fragments for the partner; before that, a d_v warp stores its own probabilities there.
      auto const handed_by = [&](int warp, int i, int k) {
        return device.template shared<bfloat16>(handed_at + warp * handed_bytes) +
               ((i * (row_blocks / 2) + k) * 256 + lane * 8);
      };
      HEADMIX_UNROLL
      for (int k = 0; k < row_blocks / 2; ++k) {
        float part[m][2][4], slope[m][2][4] = {};  // for 16 rows, since registers for more slopes are lacking
        int const first = r + 16 * k;
        auto const each = [&](auto const& f) {
          HEADMIX_UNROLL
          for (int i = 0; i < m; ++i) {
            HEADMIX_UNROLL
            for (int j = 0; j < 2; ++j) {
              HEADMIX_UNROLL
              for (int e = 0; e < 4; ++e) f(part[i][j][e], score[i][2 * k + j][e], slope[i][j][e], 8 * j + e % 2);
            }
          }
        };
        each([](float& s, float product, float, int) { s = product; });
        if constexpr (!Map::identity) {
          auto const mapped = mapped_rows_of(stage) + 2 * first;
          map_scores_by_keys(p.scores, part, slope, scale, mapped, facts.first_key() + own, lane);
        }
        float less[2][2];
        HEADMIX_UNROLL
        for (int c = 0; c < 4; ++c) less[c / 2][c % 2] = shift[first + c / 2 * 8 + lane % 4 * 2 + c % 2];
        each([&](float& s, float, float, int row) { s = device.exp2(s * unit - less[row / 8][row % 2]); });
        if (!all_seen) mark_odd_rows(part, first);
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i)
          device.store16(handed_by(device.warp(), i, k), sums_as_left(part[i][0], part[i][1]));
        each([](float s, float& scaled, float by_score, int) { scaled = through_map<Map>(s, s, by_score); });
      }
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
      if (!all_seen) mark_odd_rows(d_score, r);

      words<4> kept[row_blocks / 2][m];
      HEADMIX_UNROLL
      for (int k = 0; k < row_blocks / 2; ++k) {
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i) {
          kept[k][i] = sums_as_left(d_score[i][2 * k], d_score[i][2 * k + 1]);
          if (makes_values) {
            words<4> const probabilities = device.load16(handed_by(device.warp(), i, k));
            device.store16(handed_by(device.warp(), i, k), kept[k][i]);
            kept[k][i] = probabilities;
          }
        }
      }
      device.sync();  // the partner's fragments have arrived
      auto const right = makes_values ? d_out : query;
      HEADMIX_UNROLL
      for (int k = 0; k < row_blocks / 2; ++k) multiply_left<width>(device, out, kept[k], right, r + 16 * k);
      HEADMIX_UNROLL
      for (int k = 0; k < row_blocks / 2; ++k) {
        words<4> left[m];
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i) left[i] = device.load16(handed_by(device.warp() ^ 1, i, k));
        multiply_left<width>(device, out, left, right, own_rows - r + 16 * k);
      }
      ahead >>= 2;
      stage ^= 1;
      put_statistics(stage);
    }

    if (!makes_values) {
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < out_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 4; ++e) out[i][j][e] *= last_scale;
        }
      }
    }
    device.template cp_async_wait<0>();
    small_keys const my_keys = facts.keys();
    if (parts.count > 1) {
      float* const to = parts.of(facts.part(), makes_values);
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
                         float_pair{out[i][j][2 * half], out[i][j][2 * half + 1]});
          }
        }
      }
      return;
    }
    device.sync();  // also the copies of all threads, if no row was seen
    view<bfloat16> const to = makes_values ? p.d_v : p.d_k;
    if (to.data == nullptr) return;
    put_sums<width>(device.template shared<std::uint32_t>(makes_values ? key_bytes : 0), out, lane, own, 0);
    device.sync_warp();
    store_tile_rows<16 * m, width>(device, makes_values ? value : key, own,
                                   [&](int s) { return my_keys.of(to, facts.first_key() + s); });
  }
};

}  // namespace headmix::gpu

HEADMIX_END_QUIET_BOUNDS

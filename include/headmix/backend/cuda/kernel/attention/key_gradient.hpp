#pragma once
// SPDX-License-Identifier: MIT
// d_k and d_v of attention on tensor cores: the tiles of rows that see a tile of keys, and their sums.

#include "headmix/backend/cuda/kernel/attention/listed_tiles.hpp"
#include "headmix/backend/cuda/kernel/attention/parts.hpp"
#include "headmix/backend/cuda/kernel/attention/statistics.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// State of a block of keys between its products; in shared memory, since registers are scarce.
template <class Ints>
struct key_block {
  static constexpr int count = 11;
  Ints at;

  /// Computes the state for a tile of keys, and for the lists that read them, in tiles of `rows` rows, distributed over
  /// the parts.
  HEADMIX_DEVICE void init(attention_extents const& x, attention_tile const& block_tile, small_keys const& keys,
                           int part, listed_tiles const& listed, row_divisors const& divisors, int rows) const {
    Index const lists = x.lists_per_kv_head(), first_list = block_tile.kv_head * lists;
    small_row_list const list(x, block_tile.sequence, first_list, divisors);
    int first_tile = 0, tiles = (list.end + rows - 1) / rows;
    if (listed.data) {
      Index const first = block_tile.sequence * x.heads + first_list;
      first_tile = listed_tiles::begin(x, first, rows);
      tiles = listed_tiles::begin(x, first + lists, rows) - first_tile;
    }
    int const values[count] = {list.row,   list.head,  list.end, list.position,
                               keys.begin, keys.count, keys.col, static_cast<int>(block_tile.first),
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
struct visible_tiles {
  int base = -32;  ///< first tile of the words below
  std::uint32_t visible_bits = 0, all_visible_bits = 0;
  bool covers = false;  ///< every row of the latest tile sees every key

  /// The number of the next tile; -1 after the last.
  template <class Device, class Ints>
  HEADMIX_DEVICE int next(Device& device, key_block<Ints> const& block_state, listed_tiles const& listed,
                          row_divisors const& divisors, int parts) {
    while (visible_bits == 0) {
      base += 32;
      if (base >= block_state.tiles()) return -1;
      int const t = base + device.lane();
      int const first_key = block_state.first_key(), count = block_state.key_count();
      int const last_key = first_key + keys < count ? first_key + keys : count;
      tile_visible_range visible_range{0, 0, 0, 0};
      if (t < block_state.tiles() && t % parts == block_state.part()) {
        if (listed.data) {
          visible_range = listed.visible_range(device, block_state.first_tile() + t);
        } else {
          small_row_list const list = block_state.list(nullptr);
          int const first = t * rows, last = (list.end < first + rows ? list.end : first + rows) - 1;
          visible_range = visible_range_of_positions<Mask>(list.position_of(first, divisors),
                                                           list.position_of(last, divisors), count);
        }
      }
      visible_bits = device.ballot(visible_range.overlaps(first_key, last_key));
      all_visible_bits = device.ballot(visible_range.covers(first_key, last_key));
    }
    int const bit = count_bits((visible_bits & (0u - visible_bits)) - 1);  // the lowest set bit
    visible_bits &= visible_bits - 1;
    covers = (all_visible_bits >> bit & 1) != 0;
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
  static constexpr int keys = 16 * m * pairs, rows = row_tile, rows_per_warp = rows / 2;
  static constexpr int key_bytes = keys * width * 2, query_bytes = rows * width * 2;
  static constexpr int exchange_bytes = 16 * m * rows_per_warp * 2;  // passed by a warp, as fragments
  static constexpr int stages_at = 2 * key_bytes;                    // queries and output gradients, two of each
  static constexpr int exchange_at = stages_at + 4 * query_bytes;
  static constexpr int statistics_at = exchange_at + warps * exchange_bytes;
  static constexpr int row_ranges_at = statistics_at + 2 * 2 * rows * 4;
  static constexpr int row_offsets_at = row_ranges_at + 2 * 3 * rows * 4;
  static constexpr int block_state_at = row_offsets_at + 2 * 3 * rows * 4;
  static constexpr int heads_at = block_state_at + 11 * 4;
  static constexpr int non_finite_at = heads_at + (Map::identity ? 0 : 2 * 3 * rows * 4);
  static constexpr int shared_bytes = non_finite_at + 2 * rows * 4;

  attention_backward<bfloat16, Map> p;
  attention_statistics<float> statistics;
  attention_tiles tiles;
  row_divisors divisors;
  float scale, last_scale;
  attention_parts parts;
  listed_tiles listed;

  [[nodiscard]] Index blocks() const { return tiles.count() * parts.count; }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // left to the plain kernel
    attention_extents const& x = p.extents;
    attention_tile const block_tile = tiles(device.block() / parts.count);
    int const thread = device.thread(), lane = device.lane(), warp_key = device.warp() / 2 * (16 * m);
    bool const computes_values = device.warp() % 2 != 0;
    auto const ints = device.template shared<int>(block_state_at);
    key_block<std::remove_cv_t<decltype(ints)>> const block_state{ints};
    small_keys const all_keys(x, block_tile, divisors, width);
    if (block_tile.first >= all_keys.count) return;
    int const first_key = static_cast<int>(block_tile.first);
    if (thread == 0) {
      block_state.init(x, block_tile, all_keys, static_cast<int>(device.block() % parts.count), listed, divisors, rows);
    }
    auto const key = device.template shared<bfloat16>(0), value = key + keys * width;
    tile_copy<keys, width, threads>::start(device, key, thread, width,
                                           [&](int, int s) { return all_keys.of(p.k, first_key + s); });
    tile_copy<keys, width, threads>::start(device, value, thread, width,
                                           [&](int, int s) { return all_keys.of(p.v, first_key + s); });
    float next_shift = 0, next_delta = 0;  // of row `thread` of the next stage, loaded with its copies
    auto const store_statistics = [&](int stage) {
      if (thread >= rows) return;
      auto const numbers = device.template shared<float>(statistics_at + stage * 2 * rows * 4);
      numbers[thread] = next_shift;
      numbers[rows + thread] = next_delta;
    };
    auto const row_offsets_of = [&](int stage) {
      auto const numbers = device.template shared<int>(row_offsets_at + stage * 3 * rows * 4);
      return shared_row_offsets<3, std::remove_cv_t<decltype(numbers)>>{numbers};
    };
    // Position and head of the rows, if a map reads them; heads are found with the row offsets.
    auto const mapped_rows_of = [&](int stage) { return device.template shared<int>(heads_at + stage * 2 * rows * 4); };
    auto const row_heads_of = [&](int stage) { return mapped_rows_of(2) + stage * rows; };
    // Row offsets of a tile are found one step before its copies.
    auto const find = [&](int tile, int stage) {
      if (tile < 0 || thread >= rows) return;
      small_row_list list = block_state.list(p.extents.chosen.slots);
      int i = tile * rows + thread;
      if (listed.data) {
        listed_tile const* const at = listed.data + (block_state.first_tile() + tile);
        i = device.load(&at->first);
        list.end = i + device.load(&at->count);
        i += thread;
        if constexpr (!Map::identity) row_heads_of(stage)[thread] = device.load(&at->head);
      }
      row_offsets_of(stage).store(thread, list.offset_of(i, width, divisors));
    };
    auto const start = [&](int stage, bool covered) {
      using copy = tile_copy<rows, width, threads>;
      auto const row_offsets = row_offsets_of(stage);
      auto const to = device.template shared<bfloat16>(stages_at + stage * 2 * query_bytes);
      copy::start(device, to, thread, width, [&](int, int i) { return row_offsets.of(p.q, i); });
      copy::start(device, to + rows * width, thread, width, [&](int, int i) { return row_offsets.of(p.d_o, i); });
      if (thread >= rows) return;
      int const row = row_offsets.row(thread), head = row_offsets.col(thread) / width;
      next_shift = row >= 0 ? device.load(statistics.shift(row, head)) : 0.f;
      next_delta = row >= 0 ? device.load(statistics.delta(row, head)) : 0.f;
      if constexpr (!Map::identity) {
        auto const mapped = mapped_rows_of(stage);
        mapped[2 * thread] = row_offsets.position(thread);
        mapped[2 * thread + 1] = listed.data ? row_heads_of(stage)[thread] : head;
      }
      if (covered) return;
      auto const row_ranges = device.template shared<int>(row_ranges_at + stage * 3 * rows * 4);
      store_visible_range(row_ranges, thread,
                          visible_range_of_row<Mask>(row >= 0, row_offsets.position(thread), block_state.key_count()));
    };

    float const unit = Map::identity ? scale : 1.f;  // converts scores in registers to the unit of exp2
    constexpr int row_blocks = rows_per_warp / 8, out_blocks = width / 8;
    float out[m][out_blocks][4] = {};

    device.sync();  // the state is written
    visible_tiles<Mask, rows, keys> order;
    // Two bits each for the current tile and for the next two: that it exists, and that its rows see every key.
    constexpr unsigned valid = 1, covered = 2;
    auto const find_next = [&](int to_stage) {
      int const tile = order.next(device, block_state, listed, divisors, static_cast<int>(parts.count));
      find(tile, to_stage);
      return tile < 0 ? 0 : order.covers ? valid | covered : valid;
    };
    unsigned ahead = find_next(0);
    ahead |= find_next(1) << 2;
    device.sync();  // the row offsets are written
    if (ahead & valid) start(0, (ahead & covered) != 0);
    device.cp_async_commit();
    store_statistics(0);
    int stage = 0;
    while (ahead & valid) {
      device.template cp_async_wait<0>();
      device.sync();  // this stage has arrived, and all threads have read the other stage and this stage's row offsets
      if (ahead >> 2 & valid) start(stage ^ 1, (ahead >> 2 & covered) != 0);
      device.cp_async_commit();
      ahead |= find_next(stage) << 4;
      auto const query = device.template shared<bfloat16>(stages_at + stage * 2 * query_bytes);
      auto const d_out = query + rows * width;
      auto const shift = device.template shared<float>(statistics_at + stage * 2 * rows * 4), delta = shift + rows;
      auto const row_ranges = device.template shared<int>(row_ranges_at + stage * 3 * rows * 4);
      auto const non_finite = device.template shared<int>(non_finite_at);  // flags of queries, then of output gradients
      bool const all_visible = (ahead & covered) != 0;
      if (!all_visible) {
        sanitize_rows<rows, width, threads>(device, query, non_finite);
        sanitize_rows<rows, width, threads>(device, d_out, non_finite + rows);
        device.sync();
      }
      // mask_sanitized_keys with the roles of rows and keys exchanged.
      auto const mask_sanitized_rows = [&]<int n>(float(&weights)[m][n][4], int r) {
        int const s = block_state.first_key() + warp_key + lane / 4;
        HEADMIX_UNROLL
        for (int j = 0; j < n; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 2; ++e) {
            int const i0 = r + 8 * j + lane % 4 * 2 + e;
            row_visible_range const row = load_visible_range(row_ranges, i0);
            bool const is_non_finite = non_finite[i0] + non_finite[rows + i0] != 0;
            HEADMIX_UNROLL
            for (int i = 0; i < m; ++i) {
              HEADMIX_UNROLL
              for (int half = 0; half < 2; ++half) {
                float& w = weights[i][j][2 * half + e];
                bool const sees = row.template sees<Mask>(s + 16 * i + 8 * half);
                w = !sees ? 0.f : is_non_finite ? not_a_number<float> : w;
              }
            }
          }
        }
      };
      int const r = computes_values ? rows_per_warp : 0;
      float score[m][row_blocks][4] = {}, d_score[m][row_blocks][4] = {};  // transposed: a row for each key
      multiply_transposed<width>(device, score, key, warp_key, query, r);
      // Fragments for the partner; before that, a d_v warp stores its own probabilities there.
      auto const exchange_of = [&](int warp, int i, int k) {
        return device.template shared<bfloat16>(exchange_at + warp * exchange_bytes) +
               ((i * (row_blocks / 2) + k) * 256 + lane * 8);
      };
      HEADMIX_UNROLL
      for (int k = 0; k < row_blocks / 2; ++k) {
        float part[m][2][4], slope[m][2][4] = {};  // of 16 rows: registers hold no more slopes
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
          map_scores_by_keys(p.scores, part, slope, scale, mapped, block_state.first_key() + warp_key, lane);
        }
        float row_shift[2][2];
        HEADMIX_UNROLL
        for (int c = 0; c < 4; ++c) row_shift[c / 2][c % 2] = shift[first + c / 2 * 8 + lane % 4 * 2 + c % 2];
        each([&](float& s, float, float, int row) { s = device.exp2(s * unit - row_shift[row / 8][row % 2]); });
        if (!all_visible) mask_sanitized_rows(part, first);
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i)
          device.store16(exchange_of(device.warp(), i, k), pack_a_fragment(part[i][0], part[i][1]));
        each([](float s, float& scaled, float by_score, int) { scaled = through_map<Map>(s, s, by_score); });
      }
      multiply_transposed<width>(device, d_score, value, warp_key, d_out, r);
      HEADMIX_UNROLL
      for (int j = 0; j < row_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 2; ++e) {
          float const row_delta = delta[r + 8 * j + lane % 4 * 2 + e];
          HEADMIX_UNROLL
          for (int i = 0; i < m; ++i) {
            HEADMIX_UNROLL
            for (int half = 0; half < 2; ++half) {
              float& d = d_score[i][j][2 * half + e];
              d = score[i][j][2 * half + e] * (d - row_delta);
            }
          }
        }
      }
      if (!all_visible) mask_sanitized_rows(d_score, r);

      words<4> kept[row_blocks / 2][m];
      HEADMIX_UNROLL
      for (int k = 0; k < row_blocks / 2; ++k) {
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i) {
          kept[k][i] = pack_a_fragment(d_score[i][2 * k], d_score[i][2 * k + 1]);
          if (computes_values) {
            words<4> const probabilities = device.load16(exchange_of(device.warp(), i, k));
            device.store16(exchange_of(device.warp(), i, k), kept[k][i]);
            kept[k][i] = probabilities;
          }
        }
      }
      device.sync();  // the partner's fragments have arrived
      auto const right = computes_values ? d_out : query;
      HEADMIX_UNROLL
      for (int k = 0; k < row_blocks / 2; ++k) multiply_rs<width>(device, out, kept[k], right, r + 16 * k);
      HEADMIX_UNROLL
      for (int k = 0; k < row_blocks / 2; ++k) {
        words<4> left[m];
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i) left[i] = device.load16(exchange_of(device.warp() ^ 1, i, k));
        multiply_rs<width>(device, out, left, right, rows_per_warp - r + 16 * k);
      }
      ahead >>= 2;
      stage ^= 1;
      store_statistics(stage);
    }

    if (!computes_values) {
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
    small_keys const block_keys = block_state.keys();
    if (parts.count > 1) {
      float* const to = parts.of(block_state.part(), computes_values);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int half = 0; half < 2; ++half) {
          int const s = block_state.first_key() + warp_key + 16 * i + 8 * half + lane / 4;
          if (s >= block_keys.count) continue;
          float* const row = to + (block_keys.begin + s) * parts.cols + block_keys.col + lane % 4 * 2;
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
    view<bfloat16> const to = computes_values ? p.d_v : p.d_k;
    if (to.data == nullptr) return;
    store_accumulators<width>(device.template shared<std::uint32_t>(computes_values ? key_bytes : 0), out, lane,
                              warp_key, 0);
    device.sync_warp();
    store_tile_rows<16 * m, width>(device, computes_values ? value : key, warp_key,
                                   [&](int s) { return block_keys.of(to, block_state.first_key() + s); });
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS

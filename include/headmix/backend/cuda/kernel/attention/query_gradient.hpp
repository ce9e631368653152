#pragma once
// SPDX-License-Identifier: MIT
// d_q of attention on tensor cores.

#include "headmix/backend/cuda/kernel/attention/statistics.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::gpu {

/// d_q in bfloat16 on tensor cores: 4 warps of 16 `m` rows each, `keys` keys at a time. With two `groups` of warps,
/// each has the same rows and half of the keys, and their sums are added at the end. Rows are aligned; the list
/// satisfies is_small.
template <AttentionMask Mask, class Map, int width, int m, int keys, int groups>
struct attention_query_gradient_tensor {
  static_assert(groups == 1 || groups == 2, "headmix: a block has one or two groups of queries");
  static constexpr int warps = 4 * groups, threads = 32 * warps, own_keys = keys / groups;
  static constexpr bool cooperative = true;
  static constexpr int rows = 16 * m * 4;
  static constexpr int query_bytes = rows * width * 2, key_bytes = keys * width * 2;
  static constexpr int stages_at = 2 * query_bytes;  // keys and values, two of each
  static constexpr int sights_at = stages_at + 4 * key_bytes;
  static constexpr int places_at = sights_at + 3 * rows * 4;
  static constexpr int odd_at = places_at + 2 * rows * 4;
  static constexpr int shared_bytes = odd_at + keys * 4;

  attention_backward<bfloat16, Map> p;
  attention_statistics<float> statistics;
  attention_tiles tiles;
  row_divisors by;
  float scale, last_scale;

  [[nodiscard]] Index blocks() const { return tiles.count(); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // left to the plain kernel
    attention_extents const& x = p.extents;
    attention_tile const mine = tiles(device, device.block());
    small_row_list const list(x, mine.sequence, mine.list, by);
    if (mine.first >= list.length()) return;
    small_keys const all_keys(x, mine, by, width);
    int const left = list.length() - static_cast<int>(mine.first);
    int const thread = device.thread(), lane = device.lane(), own = device.warp() % 4 * (16 * m);
    int const own_key = device.warp() / 4 * own_keys;  // within a step

    auto const queries = device.template shared<bfloat16>(0), d_outs = queries + rows * width;
    auto const sights = device.template shared<int>(sights_at);
    auto const numbers = device.template shared<int>(places_at);
    auto const odd = device.template shared<int>(odd_at);
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
    tile_sight const visible_range = sight_of_rows<Mask>(device, sights, left < rows ? left : rows);

    auto const start = [&](int first, int stage) {
      using copy = tile_copy<keys, width, threads>;
      auto const to = device.template shared<bfloat16>(stages_at + stage * 2 * key_bytes);
      copy::start(device, to, thread, width, [&](int, int s) { return all_keys.of(p.k, first + s); });
      copy::start(device, to + keys * width, thread, width, [&](int, int s) { return all_keys.of(p.v, first + s); });
    };

    auto const head_of = [&](int i) { return list.slots ? static_cast<int>(mine.list) : places.col(i) / width; };
    float const unit = Map::identity ? scale : 1.f;  // of scores in registers
    constexpr int key_blocks = own_keys / 8, out_blocks = width / 8;
    float out[m][out_blocks][4] = {};

    int const begin = visible_range.begin / keys * keys;
    if (begin < visible_range.end) start(begin, 0);
    device.cp_async_commit();
    int stage = 0;
    for (int first = begin; first < visible_range.end; first += keys) {
      device.template cp_async_wait<0>();
      device.sync();  // this stage has arrived, and all have read the other one
      if (first + keys < visible_range.end) start(first + keys, stage ^ 1);
      device.cp_async_commit();
      auto const key = device.template shared<bfloat16>(stages_at + stage * 2 * key_bytes);
      auto const value = key + keys * width;
      stage ^= 1;
      bool const all_seen = visible_range.covers(first, first + keys);
      if (!all_seen) {
        clear_odd_rows<keys, width, threads>(device, key, odd);
        device.sync();
      }

      float score[m][key_blocks][4] = {}, d_score[m][key_blocks][4] = {};
      float slope[m][key_blocks][4] = {};
      multiply_transposed<width>(device, score, queries, own, key, own_key);
      map_scores(p.scores, score, scale, sights, head_of, own, first + own_key, lane, slope);
      if (!all_seen) hide_unseen<Mask>(score, sights, own, first + own_key, lane);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 4; ++e) {
            float const probability = device.exp2(score[i][j][e] * unit - shift[i][e / 2]);
            score[i][j][e] = through_map<Map>(probability, probability, slope[i][j][e]);
          }
        }
      }
      multiply_transposed<width>(device, d_score, d_outs, own, value, own_key);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 4; ++e) d_score[i][j][e] = score[i][j][e] * (d_score[i][j][e] - delta[i][e / 2]);
        }
      }
      if (!all_seen) mark_odd_keys<Mask>(d_score, sights, odd + own_key, own, first + own_key, lane);
      multiply_sums<width>(device, out, d_score, key, own_key);
    }

    device.template cp_async_wait<0>();
    device.sync();
    if constexpr (groups == 2) {
      static_assert(rows * width * 4 <= 4 * key_bytes, "headmix: the result does not fit where keys were");
      auto const others = device.template shared<float>(stages_at) + (device.warp() % 4 * (16 * m) * width + lane * 4);
      auto const each = [&](auto const& f) {
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i) {
          HEADMIX_UNROLL
          for (int j = 0; j < out_blocks; ++j) f(out[i][j], others + (i * out_blocks + j) * 128);
        }
      };
      if (device.warp() >= 4) {
        each([&](float(&sum)[4], auto at) {
          words<4> bits;
          HEADMIX_UNROLL
          for (int e = 0; e < 4; ++e) bits.word[e] = __builtin_bit_cast(std::uint32_t, sum[e]);
          device.store16(at, bits);
        });
      }
      device.sync();
      if (device.warp() >= 4) return;
      each([&](float(&sum)[4], auto at) {
        words<4> const other = device.load16(at);
        HEADMIX_UNROLL
        for (int e = 0; e < 4; ++e) sum[e] += __builtin_bit_cast(float, other.word[e]);
      });
    }
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      HEADMIX_UNROLL
      for (int j = 0; j < out_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 4; ++e) out[i][j][e] *= last_scale;
      }
    }
    put_sums<width>(device.template shared<std::uint32_t>(0), out, lane, own, 0);
    device.sync_warp();
    store_tile_rows<16 * m, width>(device, queries, own, [&](int i) { return places.of(p.d_q, i); });
  }
};

}  // namespace headmix::gpu

HEADMIX_END_QUIET_BOUNDS

#pragma once
// SPDX-License-Identifier: MIT
// d_q of attention with the products of warpgroups. A block has 128 rows of a list. The first of its three warpgroups
// brings keys and values, 128 at a time; the other two have 64 rows each, make their probabilities again and multiply
// the gradients by the scores with the keys. While one computes exponentials, products of the other run.

#include <type_traits>

#include "headmix/backend/cuda/kernel/attention_ring.hpp"
#include "headmix/backend/cuda/kernel/attention_statistics.hpp"
#include "headmix/backend/cuda/kernel/attention_tensor_tile.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::gpu {

/// bfloat16, heads of 64 or 128 columns, no score map, no dropout. Rows are aligned, the list is small, and there are
/// keys.
template <AttentionMask Mask, class Map, int width, class TensorMap>
struct attention_query_gradient_warpgroups {
  static_assert(Map::identity && (width == 64 || width == 128));
  static constexpr int threads = 3 * warpgroup_threads;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int rows = 128, keys = 128;
  static constexpr int own_rows = rows / 2;             ///< of a warpgroup
  static constexpr int query_bytes = rows * width * 2;  ///< also of d_o, which lies behind q
  using ring = attention_ring<keys, width, 2, cleaned_tiles::keys, 8, 2 * query_bytes>;
  static constexpr int sights_at = ring::end, places_at = sights_at + 3 * rows * 4;
  static constexpr int statistics_at = places_at + 2 * rows * 4;  ///< shift, then delta; registers are short
  static constexpr int shared_bytes = statistics_at + 2 * rows * 4;
  static constexpr int own_barrier = 1;  ///< and the next one: of one consumer

  attention_backward<bfloat16, Map> p;
  attention_statistics<float> statistics;
  attention_tiles tiles;
  row_divisors by;
  float scale, last_scale;
  TensorMap map_of_k, map_of_v;  ///< tiles of `keys` rows

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

    auto const sights = device.template shared<int>(sights_at);
    auto const numbers = device.template shared<int>(places_at);
    shared_places<2, std::remove_cv_t<decltype(numbers)>> const places{numbers};
    typename ring::template barriers<Device> const barriers(device);
    if (device.thread() == 0) barriers.init(device);
    find_rows<Mask, rows, width, threads>(device, list, static_cast<int>(mine.first), by, all_keys.count, places,
                                          sights);
    device.sync();
    tile_sight const sight = sight_of_rows<Mask>(device, sights, left < rows ? left : rows);
    int const seen = sight.begin < sight.end ? sight.begin : sight.end;
    int const begin = seen / keys * keys;  // where no row sees a key, the range begins at the largest number
    int const count = (sight.end - begin + keys - 1) / keys;

    if (device.warpgroup() == 0) {
      device.template give_registers<24>();
      ring::fill(device, map_of_k, map_of_v, all_keys, sight, begin, count);
    } else {
      device.template take_registers<240>();
      consume(device, barriers, places, sights, sight, begin, count);
    }
  }

 private:
  /// A warpgroup has 64 rows.
  template <class Device, class Places, class Sights>
  HEADMIX_DEVICE void consume(Device& device, typename ring::template barriers<Device> const& barriers,
                              Places const& places, Sights const& sights, tile_sight const& sight, int begin,
                              int count) const {
    constexpr int key_blocks = keys / 8, out_blocks = width / 8, steps = keys / 16, eight_rows = 8 * panel_row_bytes;
    constexpr int query_panel_bytes = rows * panel_row_bytes;
    int const consumer = device.warpgroup() - 1, lane = device.lane();
    int const first_row = consumer * own_rows, own = first_row + device.warp() % 4 * 16;  // of the group, of the warp
    auto const queries = device.template shared<bfloat16>(0), d_outs = device.template shared<bfloat16>(query_bytes);

    gather_panels<rows, own_rows, width>(device, queries, first_row, [&](int r) { return places.of(p.q, r); });
    gather_panels<rows, own_rows, width>(device, d_outs, first_row, [&](int r) { return places.of(p.d_o, r); });
    device.commit_copies();
    auto const shift = device.template shared<float>(statistics_at), delta = shift + rows;
    if (int const r = device.thread() % warpgroup_threads + first_row; r < first_row + own_rows) {
      int const row = places.row(r), head = places.col(r) / width;
      shift[r] = row >= 0 ? device.load(statistics.shift(row, head)) : 0.f;
      delta[r] = row >= 0 ? device.load(statistics.delta(row, head)) : 0.f;
    }
    device.template wait_copies<0>();
    device.fence_async();
    device.template sync_named<warpgroup_threads>(own_barrier + consumer);

    float score[1][key_blocks][4], d_score[1][key_blocks][4], out[1][out_blocks][4] = {};
    words<4> gradients[steps];
    int cleaned = 0;  // bit i: the parity of the next wait for clean keys in stage i
    matrix_descriptor const query = device.describe(queries + first_row * panel_columns, 16, eight_rows);
    matrix_descriptor const d_out = device.describe(d_outs + first_row * panel_columns, 16, eight_rows);
    // Products of the rows with a tile of keys or values.
    auto const multiply = [&](float(&sums)[key_blocks][4], matrix_descriptor const& of_rows, int at) {
      matrix_descriptor const tile = device.describe(device.template shared<bfloat16>(at), 16, eight_rows);
      HEADMIX_UNROLL
      for (int k = 0; k < width / 16; ++k) {
        device.multiply_tiles(sums, of_rows.after(k / 4 * query_panel_bytes + k % 4 * 32),
                              tile.after(k / 4 * ring::panel_bytes + k % 4 * 32), k > 0);
      }
      device.commit_products();
    };
    auto const release = [&](auto const& empty) {
      device.sync_warp();
      if (lane == 0) device.arrive(empty);
    };

    HEADMIX_NO_UNROLL
    for (int tile = 0; tile < count; ++tile) {
      int const stage = ring::stage_of(tile), first = begin + tile * keys;
      bool const all_seen = sight.covers(first, first + keys);
      device.wait_barrier(barriers.keys_full(stage), ring::parity_of(tile));
      if (!all_seen) {
        device.wait_barrier(barriers.clean(stage), cleaned >> stage & 1);
        cleaned ^= 1 << stage;
      }
      device.wait_barrier(barriers.values_full(stage), ring::parity_of(tile));
      device.fence_products(score[0], d_score[0]);
      multiply(score[0], query, ring::keys_at(stage));
      multiply(d_score[0], d_out, ring::values_at(stage));
      device.template wait_products<1>(score[0]);
      if (!all_seen) hide_unseen<Mask>(score, sights, own, first, lane);
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        float const less = shift[own + 8 * half + lane / 4];
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 2 * half; e < 2 * half + 2; ++e) score[0][j][e] = device.exp2(score[0][j][e] * scale - less);
        }
      }
      device.template wait_products<0>(d_score[0]);
      release(barriers.values_empty(stage));
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        float const less = delta[own + 8 * half + lane / 4];
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 2 * half; e < 2 * half + 2; ++e) d_score[0][j][e] = score[0][j][e] * (d_score[0][j][e] - less);
        }
      }
      if (!all_seen) mark_odd_keys<Mask>(d_score, sights, ring::odd_rows(device, stage), own, first, lane);
      HEADMIX_UNROLL
      for (int k = 0; k < steps; ++k) gradients[k] = sums_as_left(d_score[0][2 * k], d_score[0][2 * k + 1]);
      device.fence_products(out[0], gradients);
      matrix_descriptor const key =
          device.describe(device.template shared<bfloat16>(ring::keys_at(stage)), ring::panel_bytes, eight_rows);
      HEADMIX_UNROLL
      for (int k = 0; k < steps; ++k) {
        device.multiply_across(out[0], gradients[k], key.after(k * 16 * panel_row_bytes), true);
      }
      device.commit_products();
      device.template wait_products<0>(out[0], gradients);
      release(barriers.keys_empty(stage));
    }

    // The rows go where the queries were, which the products of all four warps have read.
    device.template sync_named<warpgroup_threads>(own_barrier + consumer);
    auto const pairs = device.template shared<std::uint32_t>(0);
    HEADMIX_UNROLL
    for (int j = 0; j < out_blocks; ++j) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        pairs[panel_offset<rows>(own + 8 * half + lane / 4, j) / 2 + lane % 4] =
            pack(out[0][j][2 * half] * last_scale, out[0][j][2 * half + 1] * last_scale);
      }
    }
    device.sync_warp();
    constexpr int chunks = width / 8, at_once = 32 / chunks;
    int const chunk = lane % chunks;
    HEADMIX_UNROLL
    for (int i = 0; i < 16; i += at_once) {
      int const r = own + i + lane / chunks;
      if (places.row(r) < 0) continue;
      device.store16(places.of(p.d_q, r) + 8 * chunk, device.load16(queries + panel_offset<rows>(r, chunk)));
    }
  }
};

}  // namespace headmix::gpu

HEADMIX_END_QUIET_BOUNDS

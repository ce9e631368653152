#pragma once
// SPDX-License-Identifier: MIT
// One weight matrix per expert, summed over the slots of a row, with the products of warpgroups: the sums stay on chip.
// A block has 256 rows of y and 128 columns, whose sums in float fill half of its shared memory, and goes through the
// experts. Slots ascend within an expert, so those of its rows are neighbours there: binary searches find them. The
// first warpgroup gathers their rows of x, and brings half of the expert's weights to both blocks of a cluster, which
// have the same columns and neighbouring rows. The other two warpgroups take turns: while one adds its products to the
// sums, the other one multiplies. They add in the order of experts, so that results are the same bits every time. Slots
// of one expert are those of different rows, so that no two threads add to one sum; a router that gives a row the same
// expert again costs a round for each time.

#include <algorithm>
#include <cstdint>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/grouped_gemm_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/stage_ring.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::gpu {

/// What a block has.
struct sums_on_chip {
  static constexpr int rows = 256, columns = 128;
  static constexpr int most_experts = 112;  ///< whose ranges find room in shared memory
  static constexpr int cluster = 2;         ///< blocks that share weights
};

/// bfloat16. Rows of x and y, and of w or of its transpose, are aligned; w has a multiple of 64 rows. Row r of y has
/// the slots whose slots.row_of is r, and slot s has row s of x. Blocks go through works, tiles of y, until there are
/// none.
template <bool transposed, class TensorMap>
struct grouped_sum_warpgroups {
  static constexpr int threads = 3 * warpgroup_threads;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int cluster = sums_on_chip::cluster;
  static constexpr int rows = sums_on_chip::rows, columns = sums_on_chip::columns, depth = panel_columns, stages = 3;
  static constexpr int item_rows = 128, group_rows = 64;  ///< slots of an expert at a time; of a product
  static constexpr int left_bytes = item_rows * panel_row_bytes, right_bytes = depth * columns * 2;
  static constexpr int panel_rows = 64, panel_bytes = right_bytes / cluster;  ///< a block's part of a tile of weights
  static constexpr int rights_at = stages * left_bytes, sums_at = rights_at + stages * right_bytes;
  using ring = stage_ring<stages, sums_at + rows * columns * 4, 2>;
  /// What consumers have to know of an item, with its first stage: its slots, and -1 for those that are not there; how
  /// many there are, or `ended`; the work whose last item it is, or -1; for each 32 slots, whether some have the row of
  /// the slot before.
  static constexpr int count_at = item_rows, finished_at = count_at + 1, repeats_at = count_at + 4;
  static constexpr int item_bytes = (repeats_at + item_rows / 32) * 4, ended = -1;
  static constexpr int items_at = (ring::end + 15) / 16 * 16, ranges_at = items_at + stages * item_bytes;
  static constexpr int shared_bytes = ranges_at + (cluster + 1) * sums_on_chip::most_experts * 4;
  static constexpr int producers = 4, consumers = 4;  ///< warps: a step is for one warpgroup, of each block
  static constexpr int bring_barrier = 1, own_barrier = 2, turn_barrier = 4;  ///< the last two for each consumer
  static constexpr int row_quads = columns / 4;

  view<bfloat16> y;
  view<bfloat16 const> x;
  slot_lists slots;
  int inner;                     ///< rows of a weight
  int expert_rows, expert_cols;  ///< from one weight to the next in the map
  TensorMap weights;             ///< tiles of `panel_rows` rows
  bool accumulate;

  [[nodiscard]] HEADMIX_HD int across() const { return static_cast<int>(blocks_for(y.cols, columns)); }
  /// Of clusters.
  [[nodiscard]] HEADMIX_HD int works() const { return static_cast<int>(blocks_for(y.rows, cluster * rows)) * across(); }
  [[nodiscard]] Index blocks(int processors) const {
    return cluster * (std::min)((std::max)(processors / cluster, 1), works());
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const sums = device.template shared<float_quad>(sums_at);
    for (int i = device.thread(); i < rows * row_quads; i += threads) sums[i] = float_quad{};
    if (device.thread() == 0) {
      ring::init(device, producers + 1, cluster * consumers);
      device.fence_async();  // copies see them
    }
    device.sync_cluster();
    if (device.warpgroup() == 0) {
      device.template give_registers<72>();
      produce(device);
    } else {
      device.template take_registers<216>();
      consume(device);
    }
    device.sync_cluster();  // the other block copies to this one, and arrives at its barriers
  }

 private:
  using position = typename ring::position;

  [[nodiscard]] static HEADMIX_HD constexpr int item_at(int stage) { return items_at + stage * item_bytes; }

  // ---- the first warpgroup ----

  // Works are those of the cluster: `cluster` tiles of rows, from the row on that first_row(work) says.
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE int first_work(Device& device) const {
    return static_cast<int>(device.block()) / cluster;
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE int step_of_works(Device& device) const {
    return static_cast<int>(device.blocks()) / cluster;
  }
  [[nodiscard]] HEADMIX_DEVICE Index first_row(int work) const { return Index{work / across()} * (cluster * rows); }

  /// Where each expert's slots begin, in the tile of each block of the cluster, and where they end.
  template <class Device>
  HEADMIX_DEVICE void find_ranges(Device& device, Index row0) const {
    constexpr int each = cluster + 1;
    auto const ranges = device.template shared<Int>(ranges_at);
    device.template sync_named<warpgroup_threads>(bring_barrier);  // nobody reads the last ones any more
    for (int i = device.thread(); i < each * static_cast<int>(slots.experts()); i += warpgroup_threads) {
      Index const row = row0 + i % each * rows, least = (row < y.rows ? row : y.rows) * slots.per_row.n;
      Index low = slots.begin(i / each), high = slots.end(i / each);
      while (low < high) {
        Index const middle = (low + high) / 2;
        if (slots.slot(middle) < least) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      ranges[i] = static_cast<Int>(low);
    }
    device.template sync_named<warpgroup_threads>(bring_barrier);
  }

  /// Slots of an expert: the thread's own, or -1, how many there are, and the expert, or -1 where no block has slots.
  struct item {
    Int slot;
    int count, expert;
  };

  template <class Device>
  HEADMIX_DEVICE void produce(Device& device) const {
    int const thread = device.thread(), steps = inner / depth, experts = static_cast<int>(slots.experts());
    auto const ranges = device.template shared<Int>(ranges_at);
    int reader = 0, reader_before = 0;  // of this step, of the one before
    position at, before;
    HEADMIX_NO_UNROLL
    for (int work = first_work(device); work < works(); work += step_of_works(device)) {
      int const col0 = work % across() * columns;
      find_ranges(device, first_row(work));
      // The item's slots are from `place` to `end` among all; `longest` is how many there are in the block that has the
      // most, since blocks go through the same items.
      int expert = -1;
      Int place = 0, end = 0, longest = 0;
      auto const go_on = [&] {
        place += item_rows;
        longest -= item_rows;
        while (longest <= 0 && ++expert < experts) {
          auto const of = ranges + expert * (cluster + 1);
          place = of[device.rank()];
          end = of[device.rank() + 1];
          for (int block = 0; block < cluster; ++block) {
            Int const length = of[block + 1] - of[block];
            longest = longest < length ? length : longest;
          }
        }
      };
      auto const read_slot = [&] { return thread < end - place ? slots.slot(place + thread) : Int{-1}; };
      go_on();
      Int slot = read_slot();
      bool last, first = true;
      do {
        item const now{slot,
                       end <= place              ? 0
                       : end - place < item_rows ? end - place
                                                 : item_rows,
                       longest > 0 ? expert : -1};
        go_on();
        last = longest <= 0;
        slot = read_slot();  // while this item is brought
        found_rows found;
        int const item_stage = at.stage;
        HEADMIX_NO_UNROLL
        for (int s = 0; s < steps; ++s) {
          bring(device, now, found, last ? work : -1, item_stage, at, reader, s * depth, col0);
          if (!first) {
            device.template wait_copies<1>();
            ring::arrive_full(device, before, reader_before);
          }
          first = false;
          reader_before = reader;
          before = at;
          at.advance();
        }
        reader = 1 - reader;
      } while (!last);
      device.template wait_copies<0>();
      ring::arrive_full(device, before, reader_before);
    }
    // For the warpgroup that does not know yet that there is nothing more.
    ring::wait_empty(device, at);
    if (thread == 0) {
      device.template shared<int>(item_at(at.stage))[count_at] = ended;
      device.arrive(ring::full_at(device, at.stage, reader));
    }
    ring::arrive_full(device, at, reader);
  }

  using row_copy = tile_copy<group_rows, depth, warpgroup_threads>;
  /// Where the thread's part of its rows of an item begins in x, in chunks of 16 bytes; -1: 0 instead of it.
  struct found_rows {
    int chunk[item_rows / group_rows][row_copy::count];
  };

  /// A step of the depth, from k0 on: begins to bring rows of x and the expert's weights. The first one finds the rows.
  template <class Device>
  HEADMIX_DEVICE void bring(Device& device, item const& now, found_rows& found, int finished, int item_stage,
                            position const& at, int reader, int k0, int col0) const {
    int const thread = device.thread(), stage = at.stage;
    auto const full = ring::full_at(device, stage, reader);
    auto const rows_of = device.template shared<int>(item_at(item_stage));
    ring::wait_empty(device, at);
    if (thread == 0) {
      if (now.expert < 0) {
        device.arrive(full);
      } else {
        int const n = col0 + device.rank() * panel_rows;
        device.arrive_expecting(full, right_bytes);
        device.copy_tile_to_all(
            device.template shared<bfloat16>(rights_at + stage * right_bytes + device.rank() * panel_bytes), weights,
            now.expert * expert_rows + (transposed ? n : k0), now.expert * expert_cols + (transposed ? k0 : n), full);
      }
    }
    if (k0 == 0) {
      rows_of[thread] = now.slot;
      if (thread == 0) {
        rows_of[count_at] = now.count;
        rows_of[finished_at] = finished;
      }
      device.template sync_named<warpgroup_threads>(bring_barrier);
      Int const before = thread > 0 ? rows_of[thread - 1] : Int{-1};
      bool const repeats = before >= 0 && now.slot >= 0 && slots.row_of(before) == slots.row_of(now.slot);
      auto const votes = static_cast<int>(device.ballot(repeats));
      if (device.lane() == 0) rows_of[repeats_at + device.warp()] = votes;
      int const chunks_of_row = static_cast<int>(x.row_stride / 8);
      HEADMIX_UNROLL
      for (int group = 0; group < item_rows / group_rows; ++group) {
        HEADMIX_UNROLL
        for (int n = 0; n < row_copy::count; ++n) {
          Int const row = rows_of[group * group_rows + row_copy::row(thread, n)];
          found.chunk[group][n] = row < 0 ? -1 : row * chunks_of_row + row_copy::col(thread) / 8;
        }
      }
    }
    bfloat16 const* const from = x.data + k0;
    HEADMIX_UNROLL
    for (int group = 0; group < item_rows / group_rows; ++group) {
      if (group * group_rows >= now.count) break;
      auto const to = device.template shared<bfloat16>(stage * left_bytes + group * group_rows * panel_row_bytes);
      HEADMIX_UNROLL
      for (int n = 0; n < row_copy::count; ++n) {
        int const chunk = found.chunk[group][n];
        device.copy_async16(to + row_copy::layout::offset(row_copy::row(thread, n), row_copy::col(thread) / 8),
                            from + Index{chunk < 0 ? 0 : chunk} * 8, chunk >= 0);
      }
    }
    device.commit_copies();
  }

  // ---- the other two ----

  template <class Device>
  HEADMIX_DEVICE void consume(Device& device) const {
    int const consumer = device.warpgroup() - 1, steps = inner / depth;
    auto const take_turn = [&] { device.template sync_named<2 * warpgroup_threads>(turn_barrier + consumer); };
    auto const give_turn = [&] { device.template arrive_named<2 * warpgroup_threads>(turn_barrier + 1 - consumer); };
    if (consumer == 1) give_turn();  // to the first one
    float sum[item_rows / group_rows][columns / 8][4] = {};
    int odd = 0;
    position at;
    at.advance(consumer * steps);
    HEADMIX_NO_UNROLL
    for (;; at.advance(steps)) {
      ring::wait_next(device, at, consumer, odd);
      auto const of_item = device.template shared<int>(item_at(at.stage));
      int const count = of_item[count_at];
      if (count == ended) {
        take_turn();
        return;
      }
      int const finished = of_item[finished_at];
      if (count > group_rows) {
        add_products<2>(device, sum, of_item, at, odd, take_turn);
      } else if (count > 0) {
        add_products<1>(device, sum, of_item, at, odd, take_turn);
      } else {
        for (int s = 0; s < steps; ++s, at.advance()) {
          if (s > 0) ring::wait_next(device, at, consumer, odd);
          release(device, at);
        }
        take_turn();
      }
      if (finished >= 0) {
        device.template sync_named<warpgroup_threads>(own_barrier + consumer);
        write(device, finished);
      }
      give_turn();
      if (finished >= 0 && finished + step_of_works(device) >= works()) return;
    }
  }

  /// By all lanes of a warp, for both blocks: either brings weights to both.
  template <class Device>
  static HEADMIX_DEVICE void release(Device& device, position const& at) {
    device.sync_warp();
    if (device.lane() < cluster) device.arrive_at(ring::empty_at(device, at.stage), device.lane());
  }

  /// Of an item, whose rows are one or two groups; `at` goes from its first step to the one behind it.
  template <int groups, class Device, class Slots, class TakeTurn>
  HEADMIX_DEVICE void add_products(Device& device, float (&sum)[2][columns / 8][4], Slots const& slot_of, position& at,
                                   int& odd, TakeTurn const& take_turn) const {
    constexpr int eight_rows = 8 * panel_row_bytes;
    int const lane = device.lane(), steps = inner / depth, consumer = device.warpgroup() - 1;
    int repeats = 0;
    HEADMIX_UNROLL
    for (int i = 0; i < item_rows / 32; ++i) repeats |= slot_of[repeats_at + i];
    int const rounds = repeats == 0 ? 1 : slots.per_row.n;
    int place[groups][2];  // row of the tile, and `rows` for each slot before that has the same one; -1: no slot
    HEADMIX_UNROLL
    for (int i = 0; i < 2 * groups; ++i) {
      int const n = i / 2 * group_rows + device.warp() % 4 * 16 + i % 2 * 8 + lane / 4;
      Int const slot = slot_of[n], row = slot < 0 ? -1 : slots.row_of(slot);
      int before = 0;
      if (repeats != 0) {
        while (row >= 0 && before < n && slots.row_of(slot_of[n - before - 1]) == row) ++before;
      }
      place[i / 2][i % 2] = row < 0 ? -1 : static_cast<int>(row) % rows + before * rows;
    }
    position before;
    HEADMIX_NO_UNROLL
    for (int s = 0; s < steps; ++s) {
      int const stage = at.stage;
      matrix_descriptor const left =
          device.describe(device.template shared<bfloat16>(stage * left_bytes), 16, eight_rows);
      matrix_descriptor const right =
          device.describe(device.template shared<bfloat16>(rights_at + stage * right_bytes), panel_bytes, eight_rows);
      if (s > 0) ring::wait_next(device, at, consumer, odd);
      device.fence_products(sum[0], sum[groups - 1]);
      HEADMIX_UNROLL
      for (int k = 0; k < depth / 16; ++k) {
        HEADMIX_UNROLL
        for (int group = 0; group < groups; ++group) {
          matrix_descriptor const a = left.after(group * group_rows * panel_row_bytes + 32 * k);
          if constexpr (transposed) {
            device.multiply_tiles(sum[group], a, right.after(32 * k), s > 0 || k > 0);
          } else {
            device.multiply_across(sum[group], a, right.after(16 * panel_row_bytes * k), s > 0 || k > 0);
          }
        }
      }
      device.commit_products();
      device.template wait_products<1>();
      if (s > 0) release(device, before);
      before = at;
      at.advance();
    }
    device.template wait_products<0>(sum[0], sum[groups - 1]);
    release(device, before);

    take_turn();
    HEADMIX_NO_UNROLL
    for (int round = 0; round < rounds; ++round) {
      if (round > 0) device.template sync_named<warpgroup_threads>(own_barrier + consumer);
      each_two_quads(device, [&](auto const& quads, int i, int one, int other, bool swapped) {
        HEADMIX_UNROLL
        for (int group = 0; group < groups; ++group) {
          HEADMIX_UNROLL
          for (int below = 0; below < 2; ++below) {
            int const r = place[group][below];
            if (r < round * rows || r >= (round + 1) * rows) continue;
            auto const quad = [&](int j) {
              auto const& of = sum[group];
              return float_quad{of[j][2 * below], of[j][2 * below + 1], of[j + 1][2 * below], of[j + 1][2 * below + 1]};
            };
            float_quad const low = quad(4 * i), high = quad(4 * i + 2);
            auto const to = quads + r % rows * row_quads;
            to[one] = to[one] + (swapped ? high : low);
            to[other] = to[other] + (swapped ? low : high);
          }
        }
      });
    }
  }

  /// How sums lie in shared memory: 16 columns of a row are four quads, and lane l has the l % 4-th, the sums that a
  /// product gives it. Lanes read quads of 32 columns, f(quads, number of the 32, its first quad, its second one,
  /// swapped): rows of odd lanes / 4 have the two in the other order, for else eight lanes that read together would
  /// meet in the same banks.
  template <class Device, class F>
  static HEADMIX_DEVICE void each_two_quads(Device& device, F const& f) {
    auto const quads = device.template shared<float_quad>(sums_at);
    int const lane = device.lane();
    bool const swapped = lane / 4 % 2 != 0;
    HEADMIX_UNROLL
    for (int i = 0; i < columns / 32; ++i) {
      int const low = 8 * i + lane % 4, high = low + 4;
      f(quads, i, swapped ? high : low, swapped ? low : high, swapped);
    }
  }

  /// The tile of y, by one warpgroup; the sums are 0 again.
  template <class Device>
  HEADMIX_DEVICE void write(Device& device, int work) const {
    int const lane = device.lane(), width = static_cast<int>(y.cols);
    Index const row0 = first_row(work) + device.rank() * rows;
    int const col0 = work % across() * columns;
    HEADMIX_NO_UNROLL
    for (int r = device.warp() % 4 * (rows / 4) + lane / 4, end = r + rows / 4; r < end; r += 8) {
      bool const real = row0 + r < y.rows;
      bfloat16* const to = y.data + (real ? row0 + r : 0) * y.row_stride;
      each_two_quads(device, [&](auto const& quads, int i, int one, int other, bool swapped) {
        auto const from = quads + r * row_quads;
        float_quad const first = from[one], second = from[other];
        from[one] = from[other] = float_quad{};
        float_quad const low = swapped ? second : first, high = swapped ? first : second;
        float pair[4][2] = {{low.a, low.b}, {low.c, low.d}, {high.a, high.b}, {high.c, high.d}};
        int const col = col0 + 32 * i;
        if (accumulate) {
          HEADMIX_UNROLL
          for (int n = 0; n < 4; ++n) {
            if (!real || col + 8 * n >= width) continue;
            std::uint32_t const old =
                device.load(reinterpret_cast<std::uint32_t const*>(to + col + 8 * n + lane % 4 * 2));
            pair[n][0] += low_of(old);
            pair[n][1] += high_of(old);
          }
          device.sync_warp();  // other lanes write it
        }
        words<4> eight;  // of four lanes' eight columns, from pairs of each
        HEADMIX_UNROLL
        for (int n = 0; n < 4; ++n) eight.word[n] = pack(pair[n][0], pair[n][1]);
        transpose_words(device, eight);
        int const own = col + lane % 4 * 8;
        if (real && own < width) device.store16(to + own, eight);
      });
    }
  }
};

}  // namespace headmix::gpu

HEADMIX_END_QUIET_BOUNDS

#pragma once
// SPDX-License-Identifier: MIT
// A stable sort of slots by key: by expert, by sequence and expert, or by row of a table. Counting sort by digits,
// three launches each: blocks count the digits of their chunks, warps scan the counts of a digit, and the slots are
// scattered to their positions. Slots with choice -1 come last. Experts take one digit; a large table takes two or
// three.
//
// cub::DeviceRadixSort needs more launches: at 16384 x 8 slots 8 for 32 experts and 10 for 1023 or 1024 (kernels and
// memsets, one for the keys and one for the begins, CUDA 13.0), where these kernels take 3, 3 and 7
// (tests/cuda/runtime/cub_test.cu). Scans over warps and blocks are CUB's.

#include <cstdint>

#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/kernel/rows/sequence.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// The sort keys of the slots of an index, row by row: the choices of the first sequence, then those of the second,
/// with equally many keys for each. Choice -1 is one more key.
struct slot_keys {
  view<Int const> index;
  Int choices;
  segments sequences;
  Int each;  ///< keys of a sequence
  divisor cols, rows_each;

  slot_keys(view<Int const> chosen, Index of_each) : slot_keys(chosen, of_each, uniform(1, chosen.rows)) {}
  slot_keys(view<Int const> chosen, Index of_each, segments rows)
      : index(chosen),
        choices(static_cast<Int>(of_each * rows.count)),
        sequences(rows),
        each(static_cast<Int>(of_each)),
        cols(chosen.cols > 0 ? chosen.cols : 1),
        rows_each(rows.count > 0 && rows.rows >= rows.count ? rows.rows / rows.count : 1) {}

  [[nodiscard]] HEADMIX_HD Index slots() const { return index.rows * index.cols; }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE Int key(Device& device, Int slot) const {
    Int const row = slot / cols;
    Int const k = device.load(&index(row, slot - row * cols.n));
    if (k < 0 || k >= each) return choices;
    return (sequences.offsets ? static_cast<Int>(sequence_of(sequences, row)) : row / rows_each) * each + k;
  }
};

/// A pass of the sort: orders the slots, given in the order `from` (numerical if null), by one digit of their keys.
struct digit_pass {
  static constexpr int threads = tuning::sort_slots.threads, warps = threads / 32;
  static constexpr int max_bits = tuning::sort_slots.max_bits;  ///< of a digit
  static constexpr Int max_digits = Int{1} << max_bits;
  static constexpr int counter_bytes = warps * max_digits * static_cast<int>(sizeof(Int));
  static constexpr Index max_chunks = tuning::sort_slots.max_chunks;
  static constexpr int lane_chunks = tuning::sort_slots.lane_chunks;

  slot_keys keys;
  view<Int const> from;  ///< [1, slots]; null: 0, 1, ...
  view<Int> to;          ///< [1, slots]
  int shift, bits;       ///< digit = (key >> shift) & (2^bits - 1)
  Int digits;            ///< number of digits that occur
  Index chunks, slots_per_warp;
  Int* counts;       ///< [digits, chunks]: slots of each chunk; after the scan those of the chunks before it
  Int* totals;       ///< [digits]: slots of all chunks, after the scan
  view<Int> begins;  ///< [1, digits]: slots with smaller digits; null: not computed

  /// The slots of the calling thread's warp are elements begin .. end - 1.
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE Index begin(Device& device) const {
    return (device.block() * warps + device.warp()) * slots_per_warp;
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE Index end(Device& device) const {
    Index const end = begin(device) + slots_per_warp, n = keys.slots();
    return end < n ? end : n;
  }
  /// Sets the counters of all warps to zero.
  template <class Device, class Counters>
  HEADMIX_DEVICE void clear(Device& device, Counters counters) const {
    for (int d = device.thread(); d < warps * digits; d += threads) counters[d] = 0;
    device.sync();
  }
  /// Counts the digits of the warp's slots, starting from the content of its counters. Calls f(slot, count) with the
  /// number of preceding slots with the same digit.
  template <class Device, class Counters, class F>
  HEADMIX_DEVICE void count(Device& device, Counters counters, F const& f) const {
    Index const last = end(device);
    Int const mask = (Int{1} << bits) - 1;
    for (Index base = begin(device); base < last; base += 32) {
      Index const i = base + device.lane();
      bool const valid = i < last;
      Int slot = 0, digit = 0;
      if (valid) {
        slot = from.data == nullptr ? static_cast<Int>(i) : device.load(&from(0, i));
        digit = keys.key(device, slot) >> shift & mask;
      }
      std::uint32_t same = device.ballot(valid);  // lanes with this lane's digit
      for (int b = 0; b < bits; ++b) {
        bool const set = (digit >> b & 1) != 0;
        std::uint32_t const others = device.ballot(set);
        same &= set ? others : ~others;
      }
      Int const rank = count_bits(same & ((std::uint32_t{1} << device.lane()) - 1));
      Int before = 0;
      if (valid) {
        before = counters[digit];
        f(slot, before + rank);
      }
      device.sync_warp();
      if (valid && rank == 0) counters[digit] = before + count_bits(same);
      device.sync_warp();
    }
  }
  /// Replaces the counts of a digit by exclusive sums over the chunks. Returns the total.
  template <class Device>
  HEADMIX_DEVICE Int scan_chunks(Device& device, Int digit) const {
    Int* const of_chunk = counts + digit * chunks;
    Int total = 0;
    for (Index all = 0; all < chunks; all += 32 * lane_chunks) {
      Index const first = all + lane_chunks * device.lane();
      Int count[lane_chunks], sum = 0, of_all = 0;
      HEADMIX_UNROLL
      for (int i = 0; i < lane_chunks; ++i) {
        count[i] = first + i < chunks ? device.load(of_chunk + first + i) : 0;
        sum += count[i];
      }
      Int before = total + device.warp_exclusive_sum(sum, of_all);
      HEADMIX_UNROLL
      for (int i = 0; i < lane_chunks; ++i) {
        if (first + i < chunks) device.store(of_chunk + first + i, before);
        before += count[i];
      }
      total += of_all;
    }
    return total;
  }
};

/// Counts the digits of chunks of slots, one block per chunk.
struct count_digits {
  static constexpr int threads = digit_pass::threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = digit_pass::counter_bytes;

  digit_pass pass;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const counters = device.template shared<Int>(0);
    pass.clear(device, counters);
    pass.count(device, counters + device.warp() * pass.digits, [](Int, Int) {});
    device.sync();
    for (int d = device.thread(); d < pass.digits; d += threads) {
      Int sum = 0;
      for (int w = 0; w < digit_pass::warps; ++w) sum += static_cast<Int>(counters[w * pass.digits + d]);
      device.store(pass.counts + d * pass.chunks + device.block(), sum);
    }
  }
};

/// Scans the counts, one warp per digit.
struct scan_digits {
  static constexpr int threads = digit_pass::threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;

  digit_pass pass;

  [[nodiscard]] Index blocks() const { return blocks_for(pass.digits, digit_pass::warps); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Int const digit = static_cast<Int>(device.block()) * digit_pass::warps + device.warp();
    if (digit >= pass.digits) return;
    Int const total = pass.scan_chunks(device, digit);
    if (device.lane() == 0) device.store(pass.totals + digit, total);
  }
};

/// Scatters the slots of chunks to their sorted positions.
struct scatter_slots {
  static constexpr int threads = digit_pass::threads;
  static constexpr bool cooperative = true;
  static constexpr int begins_at = digit_pass::counter_bytes;
  static constexpr int shared_bytes = begins_at + digit_pass::max_digits * static_cast<int>(sizeof(Int));

  digit_pass pass;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const counters = device.template shared<Int>(0), begins = device.template shared<Int>(begins_at);
    auto const warp_counters = counters + device.warp() * pass.digits;
    scan_totals(device, begins);
    pass.clear(device, counters);
    pass.count(device, warp_counters, [](Int, Int) {});
    device.sync();
    for (int d = device.thread(); d < pass.digits; d += threads) {
      Int offset = begins[d];
      if (pass.begins.data && device.block() == 0) device.store(&pass.begins(0, d), offset);
      offset += device.load(pass.counts + d * pass.chunks + device.block());
      for (int w = 0; w < digit_pass::warps; ++w) {
        Int const count = counters[w * pass.digits + d];
        counters[w * pass.digits + d] = offset;
        offset += count;
      }
    }
    device.sync();
    if (pass.to.data == nullptr) return;
    pass.count(device, warp_counters, [&](Int slot, Int offset) { device.store(&pass.to(0, offset), slot); });
  }

 private:
  /// The exclusive sums of the digits' totals.
  template <class Device, class Begins>
  HEADMIX_DEVICE void scan_totals(Device& device, Begins begins) const {
    constexpr int each = digit_pass::max_digits / threads;
    Int const first = each * device.thread();
    Int begin[each];
    HEADMIX_UNROLL
    for (int i = 0; i < each; ++i) begin[i] = first + i < pass.digits ? device.load(pass.totals + first + i) : 0;
    device.template block_exclusive_sum<threads>(begin);
    HEADMIX_UNROLL
    for (int i = 0; i < each; ++i) {
      if (first + i < pass.digits) begins[first + i] = begin[i];
    }
  }
};

/// The first slot of every choice in the sorted order, and the end of the last.
struct find_begins {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  slot_keys keys;
  view<Int const> order;
  view<Int> begins;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const choice = device.block() * threads + device.thread();
    if (choice > keys.choices) return;
    Index low = 0, high = keys.slots();  // the first element of this choice or a later one
    while (low < high) {
      Index const middle = (low + high) / 2;
      if (keys.key(device, device.load(&order(0, middle))) < choice) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    device.store(&begins(0, choice), static_cast<Int>(low));
  }
};

}  // namespace headmix::cuda_kernels

#pragma once
// SPDX-License-Identifier: MIT
// Emulated TMA copies of tiles. A tile arrives when no thread can continue without it, the latest copy first. Its
// target may not be accessed before, and afterwards only by threads that have waited at its barrier. The asynchronous
// proxy sees writes of threads only after a fence.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/testing/emulator/barriers.hpp"
#include "headmix/testing/emulator/machine.hpp"

namespace headmix::cuda_kernels::emulator {

/// A matrix of which tiles are copied.
struct tensor_map {
  bfloat16 const* data = nullptr;
  Index rows = 0, cols = 0, row_stride = 0;
  int box_rows = 0;  ///< of a tile, which has one panel of columns
  tile_swizzle swizzle = tile_swizzle::bytes_128;
};

class tile_copies {
 public:
  tile_copies(machine& m, barriers& b) : m_(m), barriers_(b) {}

  void begin_block() {
    tiles_.clear();
    unswizzled_.assign(index((m_.running_.shared_end() + 15) / 16), false);
  }
  void end_block() const {
    if (!tiles_.empty()) m_.running_.report(tiles_.front().thread, "ends while a tile that it copies is on its way");
  }

  void fence_proxy_async(int thread) {
    m_.require_cooperative(thread, "fence_proxy_async");
    m_.order_.fence(thread, m_.epochs_);
  }

  void tma_load(int thread, Index to, tensor_map const& from, Index row, Index col, Index at) {
    tma_load(thread, m_.rank(thread), to, from, row, col, at);
  }
  /// Copies a tile to all blocks of the cluster; `to` and `at` are places in the thread's block.
  void tma_load_multicast(int thread, Index to, tensor_map const& from, Index row, Index col, Index at) {
    Index const own = m_.shared_begin(m_.rank(thread));
    for (int rank = 0; rank < m_.running_.kernel.cluster; ++rank) {
      Index const there = m_.shared_begin(rank) - own;
      tma_load(thread, rank, to + there, from, row, col, at + there);
    }
  }

  // ---- for MMAs and the machine ----

  /// Checks that writes of threads to a byte were fenced before the asynchronous proxy uses it.
  void check_fence(int thread, Index byte, char const* does) {
    shadow_state const& s = last_access(byte);
    if (s.written < m_.epochs_.block || s.writer >= first_agent) return;
    if (m_.order_.is_fenced(thread, s.writer, s.written)) return;
    m_.running_.report(thread, does, " byte ", byte, " of shared memory, which thread ", int{s.writer},
                       " has written, with no fence_proxy_async between");
  }
  /// True if the 16 bytes at `address` belong to a tile without swizzle.
  [[nodiscard]] bool is_unswizzled(Index address) const { return unswizzled_[index(address / 16)]; }
  /// The last accesses of a byte.
  [[nodiscard]] shadow_state const& last_access(Index byte) {
    shadow_state const& word = m_.shared_shadow_.words()[byte / 4];
    return word.writer == each_byte ? m_.shared_shadow_.bytes()[byte] : word;
  }
  /// Called when no thread can continue: a tile arrives. False if none is in flight.
  bool stalled() {
    if (tiles_.empty()) return false;
    tile const t = tiles_.back();
    tiles_.pop_back();
    complete_copy(t);
    return true;
  }

 private:
  struct tile {
    int thread, rank;
    Index to;
    tensor_map from;
    Index row, col, barrier;
  };

  static std::size_t index(Index i) { return static_cast<std::size_t>(i); }

  /// Copies a tile to the rank-th block of the cluster.
  void tma_load(int thread, int rank, Index to, tensor_map const& from, Index row, Index col, Index at) {
    barriers_.begin_copy(thread, at);
    Index const alignment = from.swizzle == tile_swizzle::none ? 128 : panel_alignment;
    Index const bytes = Index{from.box_rows} * panel_row_bytes;
    Index const of_block = to - m_.shared_begin(rank);
    if (to % alignment != 0) {
      m_.running_.report(thread, "copies a tile to byte ", of_block, " of shared memory, not a multiple of ",
                         alignment);
    }
    if (of_block < 0 || of_block + bytes > m_.running_.kernel.shared_bytes) {
      m_.running_.report(thread, "copies a tile of ", bytes, " bytes to byte ", of_block,
                         " of shared memory, which has ", m_.running_.kernel.shared_bytes);
    }
    for (Index byte = to; byte < to + bytes; byte += 16) {
      m_.check_shared(thread, byte, 16, 16, true, rank);
      for (Index i = byte; i < byte + 16; ++i) check_fence(thread, i, "copies a tile to");
      m_.record_shared(thread, thread, byte, 16, true);
      m_.in_flight_[index(byte / 16)] = static_cast<std::uint16_t>(thread + 1);
    }
    tiles_.push_back({thread, rank, to, from, row, col, at});
  }
  void complete_copy(tile const& t) {
    m_.require_running(t.thread, t.rank, "copies a tile to");
    auto* const to = reinterpret_cast<std::byte*>(m_.shared_memory_.data());
    stamp const when = ++m_.epochs_.now;
    party const agent = barriers_.agent_of(t.barrier);
    for (int i = 0; i < t.from.box_rows; ++i) {
      for (int c = 0; c < panel_columns / 8; ++c) {
        auto const linear = static_cast<std::uint32_t>(t.to + i * panel_row_bytes + c * 16);
        Index const at = t.from.swizzle == tile_swizzle::none ? linear : swizzle_128(linear);
        std::array<bfloat16, 8> values{};
        Index const row = t.row + i;
        for (Index e = 0; e < 8; ++e) {
          Index const col = t.col + 8 * c + e;
          if (row < 0 || row >= t.from.rows || col < 0 || col >= t.from.cols) continue;
          bfloat16 const* const from = t.from.data + row * t.from.row_stride + col;
          m_.global(t.thread, from, 2, 2, false);
          values[index(e)] = *from;
        }
        std::memcpy(to + at, values.data(), 16);
        for (Index w = at / 4; w < at / 4 + 4; ++w) m_.shared_shadow_.words()[w] = {when, 0, agent, 0};
        m_.in_flight_[index(at / 16)] = 0;
        unswizzled_[index(at / 16)] = t.from.swizzle == tile_swizzle::none;
      }
    }
    barriers_.end_copy(t.barrier, Index{t.from.box_rows} * panel_row_bytes, when);
  }

  machine& m_;
  barriers& barriers_;
  std::vector<tile> tiles_;       // in flight
  std::vector<bool> unswizzled_;  // for each 16 bytes
};

}  // namespace headmix::cuda_kernels::emulator

#pragma once
// SPDX-License-Identifier: MIT
// Shadow memory: the last accesses of each byte, and whether a barrier orders them before a new access. Independent of
// the order in which the emulator runs the threads.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "headmix/core/config.hpp"

namespace headmix::cuda_kernels::emulator {

/// A logical time, incremented at every barrier, block and launch.
using stamp = std::uint32_t;

/// The party of an access: the number of a thread in its block, or one of the groups below.
using party = std::uint16_t;
inline constexpr party first_agent = 0x400;  // + the barrier: its copies
inline constexpr int max_agents = 64;
inline constexpr party lanes_of_warp = 0x4000;  // + the warp: two or more of its lanes
inline constexpr party several_warps = 0x8000;
inline constexpr party several_blocks = 0x8001;

[[nodiscard]] constexpr bool is_agent(party who) { return who >= first_agent && who < lanes_of_warp; }

/// The last accesses of a byte, or of the four bytes of a word while they share them.
struct shadow_state {
  stamp written = 0, read = 0;  // 0: never
  party writer = 0, reader = 0;
};
/// In place of a word's writer: its bytes have separate states.
inline constexpr party each_byte = 0x8002;

/// The times of the latest barriers of the running threads.
struct epochs {
  static constexpr int max_warps = 32;

  stamp now = 0;
  stamp launch = 0;  // accesses of the launch have this stamp or later ones
  stamp block = 0;
  stamp barrier = 0;                    // the latest of the block
  std::array<stamp, max_warps> warp{};  // the latest barrier or warp function of each warp, not before `barrier`
  std::vector<stamp> blocks;            // of this launch: the beginning of each

  void begin_launch() {
    launch = ++now;
    blocks.clear();
  }
  void begin_block() {
    pass_barrier();
    block = barrier;
    blocks.push_back(block);
  }
  void pass_barrier() {
    barrier = ++now;
    warp.fill(now);
  }
  void pass_warp_barrier(int w) { warp[static_cast<std::size_t>(w)] = ++now; }

  /// The block that was running at a time.
  [[nodiscard]] Index block_at(stamp when) const {
    return std::upper_bound(blocks.begin(), blocks.end(), when) - blocks.begin() - 1;
  }
};

/// A fault of an access, and the byte.
struct finding {
  enum what { nothing, uninitialised, after_write, after_read };

  what problem = nothing;
  int byte = 0;
  shadow_state before{};
};

/// Checks one access against the state of its bytes and records it. `who` is a thread, or lanes of `warp`. Global
/// memory outlives the block and may have been written before the launch; shared memory neither. Order is that of
/// order.hpp, or null if only barriers of the block and of warps order accesses.
template <bool global, class Order = void>
class access_check {
 public:
  access_check(epochs const& e, int who, int warp) requires(std::is_void_v<Order>)
      : epochs_(e),
        warp_epoch_(e.warp[static_cast<std::size_t>(warp)]),
        own_(warp_epoch_),
        who_(static_cast<party>(who)),
        warp_(static_cast<party>(warp)) {}
  access_check(epochs const& e, Order const* partial, int thread, int who)
      : epochs_(e),
        partial_(partial),
        warp_epoch_(e.warp[static_cast<std::size_t>(thread / 32)]),
        own_(partial ? partial->own(thread) : warp_epoch_),
        thread_(thread),
        who_(static_cast<party>(who)),
        warp_(static_cast<party>(thread / 32)) {}

  /// Checks `count` bytes from `first` on. Shadow is global_shadow::page or similar.
  template <class Shadow>
  [[nodiscard]] finding access(Shadow& shadow, std::size_t first, int count, bool write) const {
    for (int done = 0; done < count;) {
      std::size_t const byte = first + static_cast<std::size_t>(done);
      shadow_state& word = shadow.words()[byte / 4];
      bool const whole = byte % 4 == 0 && count - done >= 4;
      if (whole && word.writer != each_byte) {
        if (auto const problem = write ? enter_write(word) : enter_read(word)) return {problem, done, word};
        done += 4;
        continue;
      }
      shadow_state* const bytes = shadow.bytes() + byte / 4 * 4;
      if (word.writer != each_byte) {
        for (int i = 0; i < 4; ++i) bytes[i] = word;
        word.writer = each_byte;
      }
      std::size_t i = byte % 4;
      for (; i < 4 && done < count; ++i, ++done) {
        if (auto const problem = write ? enter_write(bytes[i]) : enter_read(bytes[i])) return {problem, done, bytes[i]};
      }
      if (whole && write) word = bytes[0];
    }
    return {};
  }

 private:
  [[nodiscard]] bool is_of_other_block(party other, stamp when) const {
    return global && when >= epochs_.launch && (when < epochs_.block || other == several_blocks);
  }
  [[nodiscard]] bool unordered(party other, stamp when) const {
    if (is_of_other_block(other, when)) return true;
    if (when < (is_agent(other) ? epochs_.block : epochs_.barrier)) return false;
    if (other == who_) return false;
    if (is_of_this_warp(other) && when < warp_epoch_) return false;
    if constexpr (!std::is_void_v<Order>) return partial_ == nullptr || !partial_->knows(thread_, other, when);
    return true;
  }
  [[nodiscard]] bool is_of_this_warp(party other) const {
    return other < lanes_of_warp ? other / 32 == warp_ : other == lanes_of_warp + warp_;
  }
  [[nodiscard]] finding::what enter_write(shadow_state& b) const {
    if (unordered(b.writer, b.written)) return finding::after_write;
    if (unordered(b.reader, b.read)) return finding::after_read;
    b = {own_, 0, who_, 0};  // an access unordered with an earlier one is unordered with this one too
    return finding::nothing;
  }
  [[nodiscard]] finding::what enter_read(shadow_state& b) const {
    if (!global && b.written < epochs_.block) return finding::uninitialised;
    if (unordered(b.writer, b.written)) return finding::after_write;
    if (is_of_other_block(b.reader, b.read)) {
      b.reader = several_blocks;
    } else if (b.read < epochs_.barrier) {
      b.reader = who_;
    } else if (is_of_this_warp(b.reader)) {
      // An access unordered with a reader before the warp's latest barrier is also unordered with this one.
      b.reader = b.reader == who_ || b.read < warp_epoch_ ? who_ : static_cast<party>(lanes_of_warp + warp_);
    } else {
      b.reader = several_warps;  // also for a writer that is one of them: it is unordered with the other
    }
    b.read = b.read < own_ ? own_ : b.read;
    return finding::nothing;
  }

  epochs const& epochs_;
  Order const* partial_ = nullptr;
  stamp warp_epoch_, own_;
  int thread_ = 0;
  party who_, warp_;
};

/// The shadow of the shared memory of a block.
class shared_shadow {
 public:
  void reserve(std::size_t bytes) {
    if (bytes > bytes_.size()) words_.resize(bytes / 4), bytes_.resize(bytes);
  }
  void forget() {
    words_.assign(words_.size(), {});
    bytes_.assign(bytes_.size(), {});
  }
  shadow_state* words() { return words_.data(); }
  shadow_state* bytes() { return bytes_.data(); }

 private:
  std::vector<shadow_state> words_, bytes_;
};

/// The shadow of all accessed global memory.
class global_shadow {
 public:
  static constexpr std::uintptr_t page_bytes = 4096;

  class page {
   public:
    shadow_state* words() { return words_.data(); }
    shadow_state* bytes() {
      if (bytes_.empty()) bytes_.resize(page_bytes);
      return bytes_.data();
    }

   private:
    std::array<shadow_state, page_bytes / 4> words_{};
    std::vector<shadow_state> bytes_;
  };

  page& page_of(std::uintptr_t address) {
    std::uintptr_t const number = address / page_bytes;
    recent& r = recent_[number % recent_.size()];
    if (r.number != number || !r.found) {
      auto& found = pages_[number];
      if (!found) found = std::make_unique<page>();
      r = {number, found.get()};
    }
    return *r.found;
  }
  void forget() {
    pages_.clear();
    recent_.fill({});
  }
  [[nodiscard]] std::size_t pages() const { return pages_.size(); }

 private:
  struct recent {
    std::uintptr_t number = 0;
    page* found = nullptr;
  };

  std::unordered_map<std::uintptr_t, std::unique_ptr<page>> pages_;
  std::array<recent, 256> recent_{};
};

}  // namespace headmix::cuda_kernels::emulator

#pragma once
// SPDX-License-Identifier: MIT
// A planner of addresses: gives each block the lowest offset that no live block overlaps. It runs before execution and
// allocates nothing; `peak()` is the memory that its plan needs.

#include <array>
#include <limits>
#include <span>

#include "headmix/core/checked.hpp"
#include "headmix/core/config.hpp"

namespace headmix {

/// Alignment of every block, in bytes.
inline constexpr std::size_t alignment = 64;

/// The next multiple of `alignment`; an error where no Index can hold it.
[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t most = static_cast<std::size_t>((std::numeric_limits<Index>::max)()) - alignment;
  if (bytes > most) fail("sizes are too large: ", bytes, " bytes are more than ", most);
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Plans in memory of the caller.
class AddressPlanner {
 public:
  struct block {
    std::size_t id, begin, end;
  };
  /// `blocks` has room for one block more than the largest number of live blocks.
  constexpr explicit AddressPlanner(std::span<block> blocks) : blocks_(blocks) {}

  /// Reserves bytes for block `id` and returns its offset; an error if its end exceeds the range of Index.
  constexpr std::size_t acquire(std::size_t id, std::size_t bytes) {
    std::size_t const need = aligned(bytes);
    std::size_t offset = 0, place = 0;
    for (; place < live_; ++place) {
      if (offset + need <= blocks_[place].begin) break;
      offset = larger(offset, blocks_[place].end);
    }
    for (std::size_t i = live_; i > place; --i) blocks_[i] = blocks_[i - 1];
    auto const end = static_cast<std::size_t>((checked(static_cast<Index>(offset)) + static_cast<Index>(need)).value);
    blocks_[place] = {id, offset, end};
    ++live_;
    peak_ = larger(peak_, end);
    return offset;
  }
  constexpr void release(std::size_t id) {
    std::size_t place = 0;
    while (place < live_ && blocks_[place].id != id) ++place;
    if (place == live_) return;
    --live_;
    for (std::size_t i = place; i < live_; ++i) blocks_[i] = blocks_[i + 1];
  }
  /// Renames the block `id` to `to`; its bytes and offset are unchanged.
  constexpr void hand_on(std::size_t id, std::size_t to) {
    for (std::size_t i = 0; i < live_; ++i)
      if (blocks_[i].id == id) blocks_[i].id = to;
  }
  /// Bytes of memory that all blocks need.
  [[nodiscard]] constexpr std::size_t peak() const { return peak_; }

 private:
  /// std::max without <algorithm>, which would be a third of the compile time of this folder's headers.
  static constexpr std::size_t larger(std::size_t a, std::size_t b) { return a > b ? a : b; }

  std::span<block> blocks_;  // sorted by begin
  std::size_t live_ = 0, peak_ = 0;
};

namespace detail {
template <std::size_t MaxBlocks>
struct planner_memory {
  std::array<AddressPlanner::block, MaxBlocks + 1> blocks{};
};
}  // namespace detail

/// An AddressPlanner with memory of its own.
template <std::size_t MaxBlocks>
class OffsetPlanner : detail::planner_memory<MaxBlocks>, public AddressPlanner {
 public:
  constexpr OffsetPlanner() : AddressPlanner(detail::planner_memory<MaxBlocks>::blocks) {}
  OffsetPlanner(OffsetPlanner const&) = delete;
  OffsetPlanner& operator=(OffsetPlanner const&) = delete;
};

}  // namespace headmix

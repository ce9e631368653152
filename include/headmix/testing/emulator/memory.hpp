#pragma once
// SPDX-License-Identifier: MIT
// The allocations of Emulated::memory, by address, for detecting accesses beside them.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "headmix/testing/emulator/fiber.hpp"

namespace headmix::cuda_kernels::emulator {

/// The addresses begin .. end - 1 of global memory. Up to `gap` bytes on both sides are unowned.
struct address_range {
  static constexpr std::size_t gap = 256;

  std::uintptr_t begin = 0, end = 0;
};

/// All allocated memory, in ascending order of addresses.
class memory_list {
 public:
  static memory_list& instance() {
    static memory_list list;
    return list;
  }
  void add(address_range range) {
    std::lock_guard const lock(mutex_);
    ranges_.insert(std::upper_bound(ranges_.begin(), ranges_.end(), range, before), range);
    ++changes_;
  }
  void remove(address_range range) {
    std::lock_guard const lock(mutex_);
    ranges_.erase(std::lower_bound(ranges_.begin(), ranges_.end(), range, before));
    ++changes_;
  }
  /// Updates a copy that was taken after `changes` changes.
  void copy_to(std::vector<address_range>& ranges, std::uint64_t& changes) {
    std::lock_guard const lock(mutex_);
    if (changes == changes_) return;
    ranges = ranges_;
    changes = changes_;
  }

  static bool before(address_range a, address_range b) { return a.begin < b.begin; }

  std::atomic<int> strict = 0;

 private:
  std::mutex mutex_;
  std::vector<address_range> ranges_;
  std::uint64_t changes_ = 1;
};

/// Owned, zeroed memory like AlignedBuffer, with an unowned gap on both sides.
class memory {
 public:
  static constexpr std::size_t alignment = 256;  // as of cudaMalloc

  memory() = default;
  explicit memory(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    auto* const whole = static_cast<std::byte*>(::operator new (whole_bytes(), std::align_val_t{alignment}));
    data_ = whole + address_range::gap;
    std::memset(data_, 0, bytes);
    poison_memory(whole, address_range::gap);
    poison_memory(data_ + bytes, whole_bytes() - address_range::gap - bytes);
    memory_list::instance().add(range());
  }
  memory(memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  memory& operator=(memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~memory() {
    if (!data_) return;
    memory_list::instance().remove(range());
    std::byte* const whole = data_ - address_range::gap;
    unpoison_memory(whole, whole_bytes());
    ::operator delete (whole, std::align_val_t{alignment});
  }

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, bytes_}; }
  template <class T>
  [[nodiscard]] T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(data_ + offset);
  }

 private:
  static_assert(address_range::gap % alignment == 0, "headmix: the gap between buffers keeps their alignment");

  [[nodiscard]] std::size_t whole_bytes() const {
    return (bytes_ + 3 * address_range::gap - 1) / address_range::gap * address_range::gap;
  }
  [[nodiscard]] address_range range() const {
    auto const begin = reinterpret_cast<std::uintptr_t>(data_);
    return {begin, begin + bytes_};
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// While an object lives, kernels may access Emulated::memory only.
class strict_memory {
 public:
  strict_memory() { ++memory_list::instance().strict; }
  strict_memory(strict_memory const&) = delete;
  strict_memory& operator=(strict_memory const&) = delete;
  ~strict_memory() { --memory_list::instance().strict; }
};

}  // namespace headmix::cuda_kernels::emulator

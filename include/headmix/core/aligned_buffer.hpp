#pragma once
// SPDX-License-Identifier: MIT
// Owned memory at the alignment that a workspace needs. The only place of the library that allocates for numbers.

#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "headmix/core/arena.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace headmix {

/// Zero-initialised bytes; movable, not copyable. Where the system has huge pages for those who ask, large buffers lie
/// in them: rows of matrices are often pages apart, and with small pages most of them would first have to be looked up.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Zeros; an error for more bytes than an Index can count.
  explicit AlignedBuffer(std::size_t bytes) : data_(bytes ? allocate(bytes) : nullptr), bytes_(bytes) {
#if defined(MADV_HUGEPAGE)
    if (bytes >= large) madvise(data_, bytes, MADV_HUGEPAGE);  // if it is refused, nothing is lost
#endif
    if (bytes) std::memset(data_, 0, bytes);
  }
  /// Leaves the other one empty.
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  /// Takes over what the other one has.
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~AlignedBuffer() {
    if (data_) ::operator delete(data_, alignment_of(bytes_));
  }

  /// What it owns.
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, bytes_}; }
  /// The memory from `offset` on, as numbers.
  template <class T>
  [[nodiscard]] T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(data_ + offset);
  }

 private:
  static constexpr std::size_t huge_page = std::size_t{1} << 21, large = 2 * huge_page;
  [[nodiscard]] static constexpr std::align_val_t alignment_of(std::size_t bytes) {
    return std::align_val_t{bytes >= large ? huge_page : alignment};
  }
  [[nodiscard]] static std::byte* allocate(std::size_t bytes) {
    static_cast<void>(aligned(bytes));  // the operator new of libstdc++ rounds sizes up, to 0 where they wrap around
    return static_cast<std::byte*>(::operator new(bytes, alignment_of(bytes)));
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace headmix

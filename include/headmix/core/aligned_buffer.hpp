#pragma once
// SPDX-License-Identifier: MIT
// Owned memory with the alignment of a workspace. All numeric memory of the library is allocated here.

#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "headmix/core/arena.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace headmix {

/// Zero-initialised bytes; movable, not copyable. Large buffers use transparent huge pages where the system offers them
/// on request (madvise): rows of matrices are often pages apart, and small pages would miss the TLB.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Zero-initialised; an error for more bytes than an Index can count.
  explicit AlignedBuffer(std::size_t bytes) : data_(bytes ? allocate(bytes) : nullptr), bytes_(bytes) {
#if defined(MADV_HUGEPAGE)
    if (bytes >= large) madvise(data_, bytes, MADV_HUGEPAGE);  // a refusal is harmless
#endif
    if (bytes) std::memset(data_, 0, bytes);
  }
  /// The moved-from buffer is empty.
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  /// Releases its own memory and takes the other's.
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~AlignedBuffer() {
    if (data_) ::operator delete(data_, alignment_of(bytes_));
  }

  /// All bytes of the buffer.
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
    static_cast<void>(aligned(bytes));  // libstdc++'s operator new rounds sizes up, and may wrap around to 0
    return static_cast<std::byte*>(::operator new(bytes, alignment_of(bytes)));
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// Owned memory at the alignment that a workspace needs. The only place of the library that allocates for numbers.

#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "headmix/core/arena.hpp"

namespace headmix {

/// Zero-initialised bytes; movable, not copyable.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes)
      : data_(bytes ? static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment})) : nullptr),
        bytes_(bytes) {
    if (bytes) std::memset(data_, 0, bytes);
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~AlignedBuffer() {
    if (data_) ::operator delete (data_, std::align_val_t{alignment});
  }

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, bytes_}; }
  /// The memory from `offset` on, as numbers.
  template <class T>
  [[nodiscard]] T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(data_ + offset);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// Memory of a backend. A backend whose kernels work outside the host's memory has the owning type `memory`, upload(to,
// from, bytes) and download(to, from, bytes).

#include <algorithm>
#include <cstring>
#include <vector>

#include "headmix/core/aligned_buffer.hpp"

namespace headmix {

namespace detail {
template <class Backend>
struct backend_memory {
  using type = AlignedBuffer;
};
template <class Backend>
requires requires { typename Backend::memory; }
struct backend_memory<Backend> {
  using type = typename Backend::memory;
};
}  // namespace detail

/// Owned bytes in the backend's memory; zero-initialised, movable.
template <class Backend>
using backend_memory = typename detail::backend_memory<Backend>::type;

/// Copies n elements from the host's memory to the backend's.
template <class Backend, class T>
void upload(Backend const& backend, T* to, T const* from, std::size_t n) {
  if constexpr (!Backend::host_memory) {
    backend.upload(to, from, n * sizeof(T));
  } else if (n > 0) {
    std::memcpy(to, from, n * sizeof(T));
  }
}
/// Copies n elements from the backend's memory to the host's, after all work that was queued before.
template <class Backend, class T>
void download(Backend const& backend, T* to, T const* from, std::size_t n) {
  if constexpr (!Backend::host_memory) {
    backend.download(to, from, n * sizeof(T));
  } else if (n > 0) {
    std::memcpy(to, from, n * sizeof(T));
  }
}

/// Grows `memory` to at least this size; growing discards the content.
template <class Memory>
void reserve(Memory& memory, std::size_t bytes) {
  if (memory.bytes().size() < bytes) memory = Memory(bytes);
}

/// A copy of the caller's host integers in the backend's memory, updated only when they change.
template <class Backend>
class HostInts {
 public:
  /// The copy of n integers, updated if they differ from the previous ones or the previous update failed.
  Int const* assign(Backend& backend, Int const* from, std::size_t n) {
    bool const same = complete_ && host_.size() == n && std::equal(from, from + n, host_.begin());
    if (!same) {
      complete_ = false;
      host_.assign(from, from + n);
      if constexpr (!Backend::host_memory) {
        reserve(memory_, n * sizeof(Int));
        upload(backend, memory_.template as<Int>(), host_.data(), n);
      }
      complete_ = true;
    }
    if constexpr (Backend::host_memory) {
      return host_.data();
    } else {
      return memory_.template as<Int>();
    }
  }

 private:
  bool complete_ = false;
  std::vector<Int> host_;
  backend_memory<Backend> memory_;
};

}  // namespace headmix

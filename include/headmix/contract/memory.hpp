#pragma once
// SPDX-License-Identifier: MIT
// Memory of a backend. A backend whose kernels work elsewhere than in the host's memory names the type `memory` of what
// it owns there, and has upload(to, from, bytes) and download(to, from, bytes).

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

/// Owned bytes that the kernels of a backend work on; zero at first, movable.
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
/// Copies n elements from the backend's memory to the host's, after all work before it.
template <class Backend, class T>
void download(Backend const& backend, T* to, T const* from, std::size_t n) {
  if constexpr (!Backend::host_memory) {
    backend.download(to, from, n * sizeof(T));
  } else if (n > 0) {
    std::memcpy(to, from, n * sizeof(T));
  }
}

/// Makes `memory` at least so large; what was in it is lost if it grows.
template <class Memory>
void reserve(Memory& memory, std::size_t bytes) {
  if (memory.bytes().size() < bytes) memory = Memory(bytes);
}

/// A copy, in the backend's memory, of integers that the caller has on the host: made again only when they change.
template <class Backend>
class HostInts {
 public:
  /// The copy of n integers, made again if they differ from those before, or if an error kept it from being made.
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

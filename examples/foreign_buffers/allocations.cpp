// SPDX-License-Identifier: MIT
// Counting operator new. Not inlined: otherwise g++ warns of memory from malloc in operator delete.
#include "allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> count{0};
}

long allocations() { return count; }

[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
  ++count;
  auto const a = static_cast<std::size_t>(align);
  void* const p = std::aligned_alloc(a, (bytes / a + 1) * a);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return operator new (bytes, std::align_val_t{alignof(std::max_align_t)});
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

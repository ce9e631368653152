// SPDX-License-Identifier: MIT
#include "memory.hpp"

#include <cstddef>

#if defined(__GLIBC__)

#include <errno.h>
#include <malloc.h>

#include <atomic>

namespace {
std::atomic<long> calls{0};
}

// Replacements of glibc's functions, which the linker finds first.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) noexcept {
  ++calls;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) noexcept {
  ++calls;
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, std::size_t bytes) noexcept {
  ++calls;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t align, std::size_t bytes) noexcept {
  ++calls;
  return __libc_memalign(align, bytes);
}
int posix_memalign(void** result, std::size_t align, std::size_t bytes) noexcept {
  ++calls;
  void* const p = __libc_memalign(align, bytes);
  if (!p) return ENOMEM;
  *result = p;
  return 0;
}
}

namespace bench {

long allocations() { return calls; }

double bytes_in_use() {
  struct mallinfo2 const info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

}  // namespace bench

#else

namespace bench {

long allocations() { return 0; }
double bytes_in_use() { return 0; }

}  // namespace bench

#endif

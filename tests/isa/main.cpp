// SPDX-License-Identifier: MIT
// Prints the results of the linked units: WITH_BASE, WITH_WIDE, or both. NEEDED is the CPU feature of the wide one.

#include <cinttypes>
#include <cstdint>
#include <cstdio>

std::uint64_t base();
std::uint64_t wide();

int main() {
  if (!__builtin_cpu_supports(NEEDED)) {
    std::puts("skipped: this CPU has no " NEEDED);
    return 0;
  }
#ifdef WITH_BASE
  std::printf("base %016" PRIx64 "\n", base());
#endif
#ifdef WITH_WIDE
  std::printf("wide %016" PRIx64 "\n", wide());
#endif
}

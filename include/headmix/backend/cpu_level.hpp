#pragma once
// SPDX-License-Identifier: MIT
// The instruction sets of headmix::compiled, and those that this machine runs.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "headmix/backend/cpu/simd/isa.hpp"
#include "headmix/core/error.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace headmix {

/// Instruction sets in ascending order. The kernels of a level give equal bits on every machine; those of two levels
/// differ by rounding. avx512_bf16 and amx have kernels of bfloat16; for other scalars they have those of avx512.
enum class cpu_level {
  baseline,     ///< the flags of the program, SSE2 by default
  avx2,         ///< with FMA
  avx512,       ///< F, BW, DQ, VL and VNNI: Intel since 2019 (Cascade Lake), AMD since 2022 (Zen 4)
  avx512_bf16,  ///< with dot products of bfloat16s: AMD since 2022. Intel's are slower than multiply-adds of float
  amx,  ///< with tiles of bfloat16s: Intel since 2023 (Sapphire Rapids), on Linux, where the process may use them
};

/// The names of the levels, as in HEADMIX_CPU_LEVEL.
inline constexpr std::array<char const*, 5> cpu_level_names{"baseline", "avx2", "avx512", "avx512_bf16", "amx"};

/// The name of a level.
[[nodiscard]] constexpr char const* name_of(cpu_level level) {
  auto const i = static_cast<std::size_t>(level);
  if (i >= cpu_level_names.size()) fail("cpu_level: expected one of its enumerators, found ", static_cast<int>(level));
  return cpu_level_names[i];
}

namespace detail {

/// Requests the tile registers from the system; false where the processor or the system has no tiles of bfloat16s.
/// Always inlined, so that no unit calls code compiled with another unit's flags.
[[nodiscard, gnu::always_inline]] inline bool grant_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned bfloat16_tiles = 1u << 22, tiles = 1u << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & bfloat16_tiles) == 0 || (d & tiles) == 0) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace detail

/// True if this machine and its operating system run a level's instructions, at full speed.
[[nodiscard]] inline bool cpu_supports(cpu_level level) {
#if defined(__x86_64__)
  bool const avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool const avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  bool const dots = avx512 && __builtin_cpu_supports("avx512bf16");
  switch (level) {
    case cpu_level::baseline:
      return true;
    case cpu_level::avx2:
      return avx2;
    case cpu_level::avx512:
      return avx512;
    case cpu_level::avx512_bf16:
      return dots && __builtin_cpu_is("amd");
    case cpu_level::amx:
      return dots && detail::grant_tiles();
  }
#endif
  return level == cpu_level::baseline;
}

/// The highest level that this machine runs.
[[nodiscard]] inline cpu_level highest_cpu_level() {
  for (auto i = cpu_level_names.size() - 1; i > 0; --i)
    if (cpu_supports(static_cast<cpu_level>(i))) return static_cast<cpu_level>(i);
  return cpu_level::baseline;
}

/// The level of a name.
/// @param what  the source of the name, for messages
/// @throws Error when no level has the name, or the machine does not run it
[[nodiscard]] inline cpu_level cpu_level_of(std::string_view name, std::string_view what) {
  auto const found = std::find(cpu_level_names.begin(), cpu_level_names.end(), name);
  if (found == cpu_level_names.end()) fail(what, ": expected baseline, avx2, avx512, avx512_bf16 or amx, found ", name);
  auto const level = static_cast<cpu_level>(found - cpu_level_names.begin());
  if (!cpu_supports(level)) fail(what, ": ", name, " is not what this machine runs");
  return level;
}

}  // namespace headmix

namespace headmix::inline HEADMIX_ISA {

/// The highest level that the program has kernels of: without HEADMIX_COMPILED the baseline, the flags of the unit.
#ifdef HEADMIX_COMPILED
inline constexpr cpu_level highest_compiled_level = cpu_level::HEADMIX_HIGHEST_CPU_LEVEL;
#else
inline constexpr cpu_level highest_compiled_level = cpu_level::baseline;
#endif

/// The level, if the program has its kernels and the machine runs them.
/// @param what  the source of the level, for messages
/// @throws Error otherwise
inline cpu_level checked_cpu_level(cpu_level level, std::string_view what) {
  if (level > highest_compiled_level) {
    fail(what, ": expected a level that kernels are compiled for, at most ", name_of(highest_compiled_level),
         ", found ", name_of(level), "; headmix::compiled has higher ones");
  }
  if (!cpu_supports(level)) fail(what, ": expected a level that this machine runs, found ", name_of(level));
  return level;
}

/// The default level of Cpu: the highest level that the program has kernels of and the machine runs, or that of the
/// environment variable HEADMIX_CPU_LEVEL. Without HEADMIX_COMPILED, the baseline.
/// @throws Error when the variable has no such level
[[nodiscard]] inline cpu_level default_cpu_level() {
#ifdef HEADMIX_COMPILED
  if (char const* const name = std::getenv("HEADMIX_CPU_LEVEL"))
    return checked_cpu_level(cpu_level_of(name, "HEADMIX_CPU_LEVEL"), "HEADMIX_CPU_LEVEL");
  static cpu_level const highest = [] {
    int level = static_cast<int>(highest_compiled_level);
    while (!cpu_supports(static_cast<cpu_level>(level))) --level;
    return static_cast<cpu_level>(level);
  }();
  return highest;
#else
  return cpu_level::baseline;
#endif
}

}  // namespace headmix::inline HEADMIX_ISA

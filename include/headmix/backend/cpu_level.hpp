#pragma once
// SPDX-License-Identifier: MIT
// The instruction sets that DispatchedCpu has kernels for, and which of them this machine runs.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "headmix/core/error.hpp"

namespace headmix {

/// Instruction sets in ascending order. Kernels of one give the same bits on every machine; those of two differ by
/// rounding.
enum class cpu_level {
  baseline,  ///< what the program is compiled for, SSE2 unless flags say more
  avx2,      ///< with FMA
  avx512,    ///< F, BW, DQ, VL and VNNI: Intel since 2019 (Cascade Lake), AMD since 2022 (Zen 4)
};

/// Their names, as HEADMIX_CPU_LEVEL has them.
inline constexpr std::array<char const*, 3> cpu_level_names{"baseline", "avx2", "avx512"};

/// "baseline", "avx2" or "avx512".
[[nodiscard]] constexpr char const* name_of(cpu_level level) {
  return cpu_level_names[static_cast<std::size_t>(level)];
}

/// Whether this machine, and its operating system, run a level's instructions.
[[nodiscard]] inline bool runs(cpu_level level) {
#if defined(__x86_64__)
  bool const avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool const avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  return level == cpu_level::baseline || (avx2 && (level == cpu_level::avx2 || avx512));
#else
  return level == cpu_level::baseline;
#endif
}

/// The highest level that this machine runs.
[[nodiscard]] inline cpu_level highest_cpu_level() {
  return runs(cpu_level::avx512) ? cpu_level::avx512 : runs(cpu_level::avx2) ? cpu_level::avx2 : cpu_level::baseline;
}

/// The level of that name.
/// @throws Error when there is none, or the machine does not run it; `what` says where the name comes from
[[nodiscard]] inline cpu_level cpu_level_of(std::string_view name, std::string_view what) {
  auto const found = std::find(cpu_level_names.begin(), cpu_level_names.end(), name);
  if (found == cpu_level_names.end()) fail(what, ": expected baseline, avx2 or avx512, found ", name);
  auto const level = static_cast<cpu_level>(found - cpu_level_names.begin());
  if (!runs(level)) fail(what, ": ", name, " is not what this machine runs");
  return level;
}

/// highest_cpu_level(), or the one that the environment variable HEADMIX_CPU_LEVEL names.
/// @throws Error when it names none that this machine runs
[[nodiscard]] inline cpu_level default_cpu_level() {
  if (char const* const name = std::getenv("HEADMIX_CPU_LEVEL")) return cpu_level_of(name, "HEADMIX_CPU_LEVEL");
  return highest_cpu_level();
}

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// What was compiled and what runs, for logs and reports of defects.

#include <string>
#include <string_view>

#include "headmix/backend/cpu/isa.hpp"
#include "headmix/backend/cpu_level.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/version.hpp"

namespace headmix::inline HEADMIX_ISA {

/// Of the unit that calls build_info(), and of the machine that it runs on.
struct build_information {
  int version;                       ///< HEADMIX_VERSION
  std::string_view compiler;         ///< "GCC 12.2.0", "Clang 14.0.6"
  std::string_view instruction_set;  ///< what Cpu is compiled for: "sse2", "avx512_fma_vnni"
  bool compiled_kernels;             ///< whether kernels come from headmix::compiled
  cpu_level machine;                 ///< the highest level that the machine runs
  cpu_level level;                   ///< what DispatchedCpu takes: that, or what HEADMIX_CPU_LEVEL names

  /// In a line.
  [[nodiscard]] std::string text() const {
    return message("headmix ", version / 10000, '.', version / 100 % 100, '.', version % 100, "; ", compiler,
                   "; Cpu: ", instruction_set, compiled_kernels ? " (headmix::compiled)" : "",
                   "; DispatchedCpu: ", name_of(level), level == machine ? "" : " (HEADMIX_CPU_LEVEL)",
                   "; machine: ", name_of(machine));
  }
};

/// @cond
#define HEADMIX_TEXT_OF_EXPANDED(x) #x
#define HEADMIX_TEXT_OF(x) HEADMIX_TEXT_OF_EXPANDED(x)
/// @endcond

/// What was compiled, and what runs.
/// @throws Error when HEADMIX_CPU_LEVEL names no level of this machine
[[nodiscard]] inline build_information build_info() {
  constexpr std::string_view isa = HEADMIX_TEXT_OF(HEADMIX_ISA);
#ifdef HEADMIX_COMPILED
  constexpr bool compiled = true;
#else
  constexpr bool compiled = false;
#endif
#ifdef __clang__
  constexpr std::string_view compiler = __VERSION__;
#else
  constexpr std::string_view compiler = "GCC " __VERSION__;
#endif
  return {HEADMIX_VERSION,     compiler,           isa.substr(std::string_view("isa_").size()), compiled,
          highest_cpu_level(), default_cpu_level()};
}

#undef HEADMIX_TEXT_OF
#undef HEADMIX_TEXT_OF_EXPANDED

}  // namespace headmix::inline HEADMIX_ISA

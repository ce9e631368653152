#pragma once
// SPDX-License-Identifier: MIT
// Compiler, instruction sets and levels of a program, for logs and bug reports.

#include <string>
#include <string_view>

#include "headmix/backend/cpu/simd/isa.hpp"
#include "headmix/backend/cpu_level.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/version.hpp"

namespace headmix::inline HEADMIX_ISA {

/// The build of the unit that calls build_info(), and the machine that it runs on.
struct build_information {
  int version;                       ///< HEADMIX_VERSION
  std::string_view compiler;         ///< "GCC 12.2.0", "Clang 14.0.6"
  std::string_view instruction_set;  ///< of the unit: "sse2", "avx512_fma_vnni"
  bool compiled_kernels;             ///< whether kernels come from headmix::compiled
  cpu_level machine;                 ///< the highest level that the machine runs
  cpu_level level;                   ///< the level of Cpu's kernels: default_cpu_level()

  /// All members in a line.
  [[nodiscard]] std::string text() const {
    return message("headmix ", version / 10000, ".", version / 100 % 100, ".", version % 100, "; ", compiler,
                   "; unit: ", instruction_set, compiled_kernels ? "; headmix::compiled: " : "",
                   compiled_kernels ? name_of(level) : "", "; machine: ", name_of(machine));
  }
};

/// @cond
#define HEADMIX_TEXT_OF_EXPANDED(x) #x
#define HEADMIX_TEXT_OF(x) HEADMIX_TEXT_OF_EXPANDED(x)
/// @endcond

/// The build of this unit.
/// @throws Error as default_cpu_level() does
[[nodiscard]] inline build_information build_info() {
  constexpr std::string_view name = HEADMIX_TEXT_OF(HEADMIX_ISA), suffix = HEADMIX_TEXT_OF(HEADMIX_ISA_TABLE);
  constexpr std::string_view isa = name.substr(0, name.size() - suffix.size()).substr(std::string_view("isa_").size());
  constexpr bool compiled = !suffix.empty();
#ifdef __clang__
  constexpr std::string_view compiler = __VERSION__;
#else
  constexpr std::string_view compiler = "GCC " __VERSION__;
#endif
  return {HEADMIX_VERSION, compiler, isa, compiled, highest_cpu_level(), default_cpu_level()};
}

#undef HEADMIX_TEXT_OF
#undef HEADMIX_TEXT_OF_EXPANDED

}  // namespace headmix::inline HEADMIX_ISA

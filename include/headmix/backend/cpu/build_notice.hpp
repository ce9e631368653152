#pragma once
// SPDX-License-Identifier: MIT
// A notice on stderr, once in a process, that the kernels of Cpu are compiled without optimisation or without AVX on a
// CPU that has it: the first backend of the process prints it when it is made. The macro HEADMIX_NO_BUILD_NOTICE, in
// all units, and the environment variable of that name silence it. Kernels of headmix::compiled are optimised and
// chosen for the machine, so programs with it have no notice.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "headmix/backend/cpu_level.hpp"

namespace headmix::detail {

/// The notice, a line; empty if there is nothing to say.
/// @param optimised  whether the kernels are compiled with optimisation
/// @param misses_avx  whether they are compiled without AVX, and the CPU has it
[[nodiscard]] inline std::string build_notice(bool optimised, bool misses_avx) {
  if (optimised && !misses_avx) return "";
  return message("headmix: the kernels of Cpu are compiled ", optimised ? "" : "without optimisation",
                 optimised || !misses_avx ? "" : " and ", misses_avx ? "without AVX, which this CPU has," : "",
                 " and are many times slower than with -O3 -march=native; use these flags, or link to "
                 "headmix::compiled (HEADMIX_NO_BUILD_NOTICE, a macro or a variable of the environment, silences "
                 "this line)\n");
}

/// Prints the notice, unless one was printed before.
inline void print_build_notice(bool optimised, bool misses_avx) {
  static std::atomic<bool> printed{false};
  std::string const line = build_notice(optimised, misses_avx);
  if (line.empty() || std::getenv("HEADMIX_NO_BUILD_NOTICE") != nullptr || printed.exchange(true)) return;
  std::fputs(line.c_str(), stderr);
}

}  // namespace headmix::detail

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// Prints the notice of this unit.
inline void notify_build() {
#if !defined(HEADMIX_COMPILED) && !defined(HEADMIX_NO_BUILD_NOTICE)
#ifdef __OPTIMIZE__
  constexpr bool optimised = true;
#else
  constexpr bool optimised = false;
#endif
#if defined(__x86_64__) && !defined(__AVX__)
  headmix::detail::print_build_notice(optimised, __builtin_cpu_supports("avx2"));
#else
  headmix::detail::print_build_notice(optimised, false);
#endif
#endif
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

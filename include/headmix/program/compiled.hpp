#pragma once
// SPDX-License-Identifier: MIT
// What programs of all layers share, and what modules on one backend do: with HEADMIX_COMPILED it is compiled once, as
// the kernels of the CPU are (backend/cpu/kernels.hpp).

#include "headmix/backend/reference.hpp"
#include "headmix/program/module/memory.hpp"
#include "headmix/program/run/plain_tables.hpp"
#include "headmix/program/run/runner.hpp"
#include "headmix/program/run/unroll.hpp"

/// Instances of the classes of modules on a backend: `PREFIX` is empty where they are compiled, `extern` elsewhere.
// clang-format off
#define HEADMIX_MODULES(PREFIX, ...)                                                                                \
  PREFIX template struct headmix::detail::module_memory<__VA_ARGS__>;                                               \
  PREFIX template class headmix::detail::Runner<                                                                    \
      headmix::run_context<headmix::detail::builtin_sizes, __VA_ARGS__>, headmix::detail::PlainTables>;
// clang-format on

/// At namespace scope of one unit: what programs share, for units that are compiled with HEADMIX_COMPILED, and modules
/// on the reference, which gradients are checked with.
#define HEADMIX_COMPILE_PROGRAMS                    \
  template class headmix::detail::basic_binding<>;  \
  template class headmix::detail::basic_plan<>;     \
  template class headmix::detail::basic_unrolled<>; \
  HEADMIX_MODULES(, headmix::Reference<double>)

/// The same of what modules on a backend share, for units that include headmix/headmix.hpp.
#define HEADMIX_COMPILE_MODULES(...) HEADMIX_MODULES(, __VA_ARGS__)

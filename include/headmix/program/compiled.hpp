#pragma once
// SPDX-License-Identifier: MIT
// What programs of all layers share, and what modules on one backend do: with HEADMIX_COMPILED it is compiled once, as
// the kernels of the CPU are (backend/cpu/kernels.hpp).

#include "headmix/program/module_memory.hpp"
#include "headmix/program/unroll.hpp"

/// At namespace scope of one unit: what programs share, for units that are compiled with HEADMIX_COMPILED.
#define HEADMIX_COMPILE_PROGRAMS                   \
  template class headmix::detail::basic_binding<>; \
  template class headmix::detail::basic_plan<>;    \
  template class headmix::detail::basic_unrolled<>;

/// The same of what modules on a backend share, for units that include headmix/headmix.hpp.
#define HEADMIX_COMPILE_MODULES(...) template struct headmix::detail::module_memory<__VA_ARGS__>;

#pragma once
// SPDX-License-Identifier: MIT
// Classes that modules of all layers on one backend share. With HEADMIX_COMPILED they are compiled once, as the kernels
// of the CPU are (backend/cpu/kernels.hpp).

#include "headmix/backend/reference.hpp"
#include "headmix/program/module/memory.hpp"
#include "headmix/program/run/runner.hpp"

/// Instances of the classes of modules on a backend: `PREFIX` is empty where they are compiled, `extern` elsewhere.
#define HEADMIX_MODULES(PREFIX, ...)                                  \
  PREFIX template struct headmix::detail::module_memory<__VA_ARGS__>; \
  PREFIX template class headmix::detail::Runner<__VA_ARGS__>;

/// At namespace scope of one unit that includes headmix/headmix.hpp: the classes of modules on a backend, for units
/// that are compiled with HEADMIX_COMPILED.
#define HEADMIX_COMPILE_MODULES(...) HEADMIX_MODULES(, __VA_ARGS__)

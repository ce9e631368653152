#pragma once
// SPDX-License-Identifier: MIT
// What every header starts from: the language check, the index type, the host/device marker.

#include <cstddef>
#include <cstdint>

#include "headmix/core/math_flags.hpp"

#if __cplusplus < 202002L
#error "headmix needs C++20: add -std=c++20 (or newer) to the compiler's flags"
#endif

#ifdef __CUDACC__
#define HEADMIX_HD __host__ __device__
// Before a function template for both that calls what it is given, which may be for one only.
#define HEADMIX_CALLS_GIVEN _Pragma("nv_exec_check_disable")
#else
/// Marks functions that also run on a GPU.
#define HEADMIX_HD
/// Comes before such a function that calls what it is given.
#define HEADMIX_CALLS_GIVEN
#endif

namespace headmix {

/// Rows, columns, strides and counts: signed, in elements.
using Index = std::ptrdiff_t;

/// The storage type of selections, identifiers and sequence offsets.
using Int = std::int32_t;

}  // namespace headmix

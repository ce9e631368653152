#pragma once
// SPDX-License-Identifier: MIT
// What every header starts from: the language check, the index type, the host/device marker.

#include <cstddef>
#include <cstdint>

#include "headmix/core/math_flags.hpp"

#if __cplusplus < 202002L
#error "headmix needs C++20: add -std=c++20 (or newer) to the compiler's flags"
#endif

// Without exceptions every error is reported by `on_error` (core/error.hpp), after which the program ends. A program's
// units must agree on it.
#if !defined(__cpp_exceptions) && !defined(HEADMIX_NO_EXCEPTIONS)
/// Errors are reported by headmix::on_error.
#define HEADMIX_NO_EXCEPTIONS
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

// Between these two GCC says nothing about bounds of arrays that are numbers of a template: with -Wsign-conversion it
// takes every one that is an int for a conversion. Clang, which does not, looks at the same lines.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define HEADMIX_QUIET_BOUNDS _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"")
#define HEADMIX_END_QUIET_BOUNDS _Pragma("GCC diagnostic pop")
#else
/// Comes before arrays whose bounds are ints of a template.
#define HEADMIX_QUIET_BOUNDS
/// Comes after them.
#define HEADMIX_END_QUIET_BOUNDS
#endif

namespace headmix {

/// Rows, columns, strides and counts: signed, in elements.
using Index = std::ptrdiff_t;

/// The storage type of selections, identifiers and sequence offsets.
using Int = std::int32_t;

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// The base of every header: the language check, the index type, the host/device marker.

#include <cstddef>
#include <cstdint>

#include "headmix/core/math_flags.hpp"

#if __cplusplus < 202002L
#error "headmix needs C++20: add -std=c++20 (or newer) to the compiler's flags"
#endif

// Without exceptions every error is reported by `on_error` (core/error.hpp), after which the program ends. All units of
// a program must agree on this setting.
#if !defined(__cpp_exceptions) && !defined(HEADMIX_NO_EXCEPTIONS)
/// Errors are reported by headmix::on_error.
#define HEADMIX_NO_EXCEPTIONS
#endif

#ifdef __CUDACC__
#define HEADMIX_HD __host__ __device__
// Precedes a host/device function template that calls its argument, which may be for one side only.
#define HEADMIX_CALLS_GIVEN _Pragma("nv_exec_check_disable")
#else
/// Marks functions that also run on a GPU.
#define HEADMIX_HD
/// Precedes a host/device function that calls its argument.
#define HEADMIX_CALLS_GIVEN
#endif

// Between these two macros GCC does not warn about array bounds that are template parameters: with -Wsign-conversion it
// reports every bound of type int as a conversion. Clang does not, and still checks the same lines.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define HEADMIX_QUIET_BOUNDS _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"")
#define HEADMIX_END_QUIET_BOUNDS _Pragma("GCC diagnostic pop")
#else
/// Precedes arrays whose bounds are template parameters of type int.
#define HEADMIX_QUIET_BOUNDS
/// Ends the region of HEADMIX_QUIET_BOUNDS.
#define HEADMIX_END_QUIET_BOUNDS
#endif

// Functions that are no templates and run once for each pass are defined in *.ipp files: inline functions of every
// unit, or, with HEADMIX_COMPILED, functions of the one unit with HEADMIX_IMPLEMENTATION.
#ifdef HEADMIX_COMPILED
#define HEADMIX_INLINE
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define HEADMIX_INLINE [[gnu::cold]] inline
#else
/// Precedes the definition of a function in an *.ipp file, which GCC and Clang optimise for size.
#define HEADMIX_INLINE inline
#endif

namespace headmix {

/// Rows, columns, strides and counts: signed, in elements.
using Index = std::ptrdiff_t;

/// The storage type of selections, identifiers and sequence offsets.
using Int = std::int32_t;

}  // namespace headmix

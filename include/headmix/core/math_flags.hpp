#pragma once
// SPDX-License-Identifier: MIT
// The compiler flags for inexact arithmetic that a unit may be compiled with.
//
// Refused, since the compiler may then assume that no number is infinite or NaN:
//   -ffinite-math-only, and with it -ffast-math and -Ofast. Masks make scores minus infinity, a row that sees nothing
//   has a log-sum-exp of minus infinity, routers rank NaN last, and a NaN in the input must be one in the output.
// Allowed: they change rounding of sums and products only, and the library relies on the order of a sum only for bits.
//   -funsafe-math-optimizations, -fassociative-math, -freciprocal-math, -fno-signed-zeros, -fno-trapping-math,
//   -fno-math-errno. Rounding by adding and subtracting a large number is hidden from the compiler
//   (cpu_kernels::detail::opaque). Results then differ in their last bits from those without the flag.
//
// GCC and clang always define __FINITE_MATH_ONLY__, as 1 with the flag; clang has no macro for the other flags. A
// pragma or an attribute that sets a flag for some functions is not detected.

#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#if defined(__FAST_MATH__)
#error \
    "headmix: -ffast-math (-Ofast has it, too) lets the compiler assume that there are no infinities and no NaN, of which masks are made; use -O3 -funsafe-math-optimizations, or add -fno-finite-math-only behind it"
#else
#error \
    "headmix: -ffinite-math-only lets the compiler assume that there are no infinities and no NaN, of which masks are made; leave it out, or add -fno-finite-math-only behind it"
#endif
#endif

#pragma once
// SPDX-License-Identifier: MIT
// The one include of Eigen: g++ 12's AVX-512 intrinsics raise -W(maybe-)uninitialized wherever they are inlined (GCC
// bug 105593), and a pragma silences them only around the first include.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <Eigen/Core>
#include <unsupported/Eigen/SpecialFunctions>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#pragma once
// SPDX-License-Identifier: MIT
// Eigen, included in one place: g++ 12's AVX-512 intrinsics set off -W(maybe-)uninitialized wherever they are inlined
// (GCC bug 105593), and the pragma reaches them only from around the first include of Eigen.

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

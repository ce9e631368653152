#pragma once
// SPDX-License-Identifier: MIT
// Dense products by cuBLAS. For nvcc.

#include <cublas_v2.h>

#include <limits>
#include <type_traits>

#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// An error if a cuBLAS call failed; the parts describe the call.
template <class... Part>
void check(cublasStatus_t status, Part const&... doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(doing..., ": ", cublasGetStatusString(status));
}

/// The cuBLAS type of a storage type; `known` is false for types that are not passed to cuBLAS.
template <class T>
struct blas_type {
  static constexpr bool known = false;
};
template <>
struct blas_type<float> {
  static constexpr bool known = true;
  static constexpr cudaDataType_t type = CUDA_R_32F;
};
template <>
struct blas_type<double> {
  static constexpr bool known = true;
  static constexpr cudaDataType_t type = CUDA_R_64F;
};
template <>
struct blas_type<bfloat16> {
  static constexpr bool known = true;
  static constexpr cudaDataType_t type = CUDA_R_16BF;
};

/// A matrix in cuBLAS terms: its rows (or, transposed, its columns) are contiguous and `stride` apart.
struct blas_layout {
  bool possible = false, transposed = false;
  int stride = 0;
};
/// The layout of a view; strides of a single row or column are irrelevant.
template <class T>
[[nodiscard]] blas_layout layout_of(view<T> const& v) {
  constexpr Index most = (std::numeric_limits<int>::max)();
  auto const fits = [](Index stride, Index length) { return stride >= length && stride >= 1 && stride <= most; };
  if (v.col_stride == 1 || v.cols == 1) {
    Index const stride = v.rows == 1 ? v.cols : v.row_stride;
    if (fits(stride, v.cols)) return {true, false, static_cast<int>(stride)};
  }
  if (v.row_stride == 1 || v.rows == 1) {
    Index const stride = v.cols == 1 ? v.rows : v.col_stride;
    if (fits(stride, v.rows)) return {true, true, static_cast<int>(stride)};
  }
  return {};
}

/// y (+)= a b, or y_e (+)= a b_e for stacks of matrices; false if the caller must compute it: other types, unsupported
/// strides, and empty sums.
template <class T, class A, class B>
bool blas_gemm(cublasHandle_t blas, view<T> y, view<A const> a, view<B const> b, bool accumulate) {
  constexpr bool same = std::is_same_v<A, B> && blas_type<A>::known;
  if constexpr (same && (std::is_same_v<T, A> || (std::is_same_v<T, float> && Half<A>))) {
    if (y.count != b.count || a.count != 1 || a.cols == 0) return false;
    if (y.rows == 0 || y.cols == 0) return true;
    constexpr Index most = (std::numeric_limits<int>::max)();
    if (y.rows > most || y.cols > most || a.cols > most || y.count > most) return false;
    blas_layout const of_y = layout_of(y), of_a = layout_of(a), of_b = layout_of(b);
    if (!of_y.possible || !of_a.possible || !of_b.possible) return false;
    // cuBLAS matrices are column-major: ours transposed. y' = b' a', or y = a b for a transposed y.
    auto const operation = [&](blas_layout const& l) {
      return l.transposed == of_y.transposed ? CUBLAS_OP_N : CUBLAS_OP_T;
    };
    int const rows = static_cast<int>(y.rows), cols = static_cast<int>(y.cols), inner = static_cast<int>(a.cols);
    accumulator_t<T> const one = 1, keep = accumulate ? 1 : 0;
    constexpr auto type = blas_type<A>::type;
    constexpr auto compute = std::is_same_v<A, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    auto const multiply = [&](auto const& left, blas_layout const& of_left, int m, auto const& right,
                              blas_layout const& of_right, int n) {
      if (y.count == 1) {
        return cublasGemmEx(blas, operation(of_left), operation(of_right), m, n, inner, &one, left.data, type,
                            of_left.stride, right.data, type, of_right.stride, &keep, y.data, blas_type<T>::type,
                            of_y.stride, compute, CUBLAS_GEMM_DEFAULT);
      }
      // A single a is multiplied with every matrix of the stack.
      auto const step = [](auto const& v) { return static_cast<long long>(v.count == 1 ? 0 : v.stack_stride); };
      return cublasGemmStridedBatchedEx(blas, operation(of_left), operation(of_right), m, n, inner, &one, left.data,
                                        type, of_left.stride, step(left), right.data, type, of_right.stride,
                                        step(right), &keep, y.data, blas_type<T>::type, of_y.stride, step(y),
                                        static_cast<int>(y.count), compute, CUBLAS_GEMM_DEFAULT);
    };
    auto const status =
        of_y.transposed ? multiply(a, of_a, rows, b, of_b, cols) : multiply(b, of_b, cols, a, of_a, rows);
    check(status, "cuBLAS, ", y.count, " x ", y.rows, " x ", a.cols, " times ", a.cols, " x ", y.cols);
    return true;
  } else {
    return false;
  }
}

}  // namespace headmix::cuda_kernels

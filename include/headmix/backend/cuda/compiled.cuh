#pragma once
// SPDX-License-Identifier: MIT
// The kernels of Cuda that no layer has a part in, compiled once: products, products with experts, attention with the
// masks `full` and `causal`, routers, choices and roundings. Units that are compiled with HEADMIX_CUDA_COMPILED have
// trees, row functions, other masks and score maps, and take half of the time of nvcc.
//
// The CMake function headmix_add_cuda_compiled makes such a library. Without CMake, compile all units with
// -DHEADMIX_COMPILED -DHEADMIX_CUDA_COMPILED and the same -arch, one of them with
//
//   #include <headmix/headmix.cuh>
//   HEADMIX_COMPILE_CUDA(headmix::Sm90a)
//   HEADMIX_COMPILE_CUDA_SCALAR(headmix::Sm90a, headmix::bfloat16)
//
// and the last line for each further scalar, and one, which may be compiled by the host's compiler, with
//
//   #define HEADMIX_IMPLEMENTATION
//   #include <headmix/program/module.hpp>
//
// Units with another -arch than the library's do not link.

#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/sm80.cuh"
#include "headmix/program/compiled.hpp"

/// Kernels without a scalar on the queue of a device: `PREFIX` is empty where they are compiled, `extern` elsewhere.
// clang-format off
#define HEADMIX_CUDA_KERNELS(PREFIX, DEVICE)                                                                        \
  namespace headmix::cuda_kernels {                                                                                 \
  PREFIX template void sequence_numbers(DEVICE::queue&, view<Int>, segments);                                       \
  PREFIX template void sort_by_expert(DEVICE::queue&, view<Int>, view<Int>, view<Int const>, segments);             \
  PREFIX template void apply_capacity(DEVICE::queue&, view<Int>, view<Int const>, view<Int const>, view<Int const>, \
                                      Index);                                                                       \
  }

/// Attention with a mask, of a scalar.
#define HEADMIX_CUDA_ATTENTION(PREFIX, DEVICE, T, MASK)                                                             \
  PREFIX template void attention<MASK>(DEVICE::queue&, attention_forward<T> const&, attention_gated<T> const&,      \
                                       std::span<std::byte>);                                                       \
  PREFIX template void attention_gradient<MASK>(DEVICE::queue&, attention_backward<T> const&, std::span<std::byte>, \
                                                attention_gated_gradient<T> const&);                                \
  PREFIX template void attention_bias_gradient<MASK>(DEVICE::queue&, view<T>, attention_backward<T> const&,         \
                                                     std::span<std::byte>);                                         \
  PREFIX template void cached_attention<MASK>(DEVICE::queue&, attention_forward<T> const&,                          \
                                              attention_cache<T> const&, std::span<std::byte>);

/// Kernels of a scalar, and the classes of modules on it.
#define HEADMIX_CUDA_SCALAR_KERNELS(PREFIX, DEVICE, T)                                                              \
  namespace headmix::cuda_kernels {                                                                                 \
  PREFIX template void gemm<accumulator_t<T>>(DEVICE::queue&, view<T>, view<T const>, view<T const>, bool);         \
  PREFIX template void softmax<accumulator_t<T>>(DEVICE::queue&, view<accumulator_t<T>>,                            \
                                                 view<accumulator_t<T> const>);                                     \
  PREFIX template void log_sum_exp<accumulator_t<T>>(DEVICE::queue&, view<accumulator_t<T>>,                        \
                                                     view<accumulator_t<T> const>);                                 \
  PREFIX template void top_k(DEVICE::queue&, view<Int>, view<accumulator_t<T> const>);                              \
  PREFIX template bool route_on_tensor_cores(DEVICE::queue&, route_problem<T> const&, std::span<std::byte>);        \
  PREFIX template void softmax_top_k(DEVICE::queue&, view<accumulator_t<T>>, view<Int>,                             \
                                     view<accumulator_t<T> const>);                                                 \
  PREFIX template void scatter_rows<accumulator_t<T>>(DEVICE::queue&, view<T>, view<T const>, view<Int const>,      \
                                                      bool);                                                        \
  PREFIX template void window_mean(DEVICE::queue&, view<T>, view<T const>, segments, Index, bool);                  \
  PREFIX template void cached_window_mean(DEVICE::queue&, view<T>, view<T const>, segments, view<T>, cache_pages,   \
                                          Index);                                                                   \
  PREFIX template void rotary<accumulator_t<T>>(DEVICE::queue&, view<T>, view<T const>,                             \
                                                view<accumulator_t<T> const>, row_positions, Index, rotation);      \
  PREFIX template void absmax_int8(DEVICE::queue&, view<T>, view<T const>);                                         \
  PREFIX template void absmean_ternary(DEVICE::queue&, view<T>, view<T const>);                                     \
  PREFIX template void grouped_gemm(DEVICE::queue&, view<T>, view<T const>, view<T const>, view<Int const>,         \
                                    view<Int const>, Index, std::span<std::byte>);                                  \
  PREFIX template void grouped_sum(DEVICE::queue&, view<T>, view<T const>, view<T const>, view<Int const>,          \
                                   view<Int const>, Index, bool, std::span<std::byte>);                             \
  PREFIX template void grouped_sum_pair(DEVICE::queue&, view<T>, std::array<view<T const>, 2> const&,               \
                                        std::array<view<T const>, 2> const&, view<Int const>, view<Int const>,      \
                                        Index, bool, std::span<std::byte>);                                         \
  PREFIX template void grouped_outer(DEVICE::queue&, view<T>, view<T const>, view<T const>, view<Int const>,        \
                                     view<Int const>, Index, Index, bool, std::span<std::byte>);                    \
  HEADMIX_CUDA_ATTENTION(PREFIX, DEVICE, T, full)                                                                   \
  HEADMIX_CUDA_ATTENTION(PREFIX, DEVICE, T, causal)                                                                 \
  }                                                                                                                 \
  HEADMIX_MODULES(PREFIX, headmix::Cuda<T, DEVICE>)
// clang-format on

/// At namespace scope of one unit: kernels without a scalar, for units that are compiled with HEADMIX_CUDA_COMPILED.
#define HEADMIX_COMPILE_CUDA(DEVICE) HEADMIX_CUDA_KERNELS(, DEVICE)
/// The kernels of Cuda<T, DEVICE>.
#define HEADMIX_COMPILE_CUDA_SCALAR(DEVICE, T) HEADMIX_CUDA_SCALAR_KERNELS(, DEVICE, T)

#ifdef HEADMIX_CUDA_COMPILED
HEADMIX_CUDA_KERNELS(extern, headmix::Sm80)
HEADMIX_CUDA_SCALAR_KERNELS(extern, headmix::Sm80, float)
HEADMIX_CUDA_SCALAR_KERNELS(extern, headmix::Sm80, double)
HEADMIX_CUDA_SCALAR_KERNELS(extern, headmix::Sm80, headmix::bfloat16)
HEADMIX_CUDA_KERNELS(extern, headmix::Sm90a)
HEADMIX_CUDA_SCALAR_KERNELS(extern, headmix::Sm90a, float)
HEADMIX_CUDA_SCALAR_KERNELS(extern, headmix::Sm90a, double)
HEADMIX_CUDA_SCALAR_KERNELS(extern, headmix::Sm90a, headmix::bfloat16)
#endif

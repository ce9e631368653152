#pragma once
// SPDX-License-Identifier: MIT
// The kernels of the CPU, and of the reference, that no layer has a part in, by name: with HEADMIX_COMPILED they are
// compiled once, in a library or a unit of the program's own, and every other unit only calls them. What depends on a
// layer, as fused trees and scores of the user's do, is compiled where it is used.
//
// The CMake target headmix::compiled is that library. Without CMake, one unit has
//
//   #include <headmix/headmix.hpp>
//   HEADMIX_COMPILE_PROGRAMS
//   HEADMIX_COMPILE_CPU(float)
//   HEADMIX_COMPILE_MODULES(headmix::Cpu<float>)
//
// and the last two lines for double and headmix::bfloat16, too; and all units are compiled with -DHEADMIX_COMPILED. The
// instruction set is in the names of the kernels (cpu/isa.hpp): a unit with another -march than the library's is not
// linked. Compile it without HEADMIX_COMPILED.

#include "headmix/backend/cpu/attention.hpp"
#include "headmix/backend/cpu/attention_backward.hpp"
#include "headmix/backend/cpu/attention_cached.hpp"
#include "headmix/backend/cpu/gemm.hpp"
#include "headmix/backend/cpu/grouped_gemm.hpp"
#include "headmix/backend/cpu/grouped_outer.hpp"
#include "headmix/backend/cpu/grouped_sum.hpp"
#include "headmix/backend/cpu/map_reduce.hpp"
#include "headmix/backend/cpu/quantize.hpp"
#include "headmix/backend/cpu/sequence.hpp"
#include "headmix/backend/cpu/softmax.hpp"
#include "headmix/backend/cpu/ternary_gemm.hpp"
#include "headmix/backend/cpu/weight_panels.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/contract/mask.hpp"

// clang-format off
#define HEADMIX_CPU_TREES(PREFIX, T)                                                                                \
  namespace headmix::cpu::inline HEADMIX_ISA {                                                                      \
  PREFIX template void map(executor_ref, view<T>, tree_number<accumulator_t<T>> const&, bool);                      \
  PREFIX template void map(executor_ref, view<T>, tree_numbers<accumulator_t<T>> const&, bool);                     \
  PREFIX template void map(executor_ref, view<T>, tree_leaf<T, false, false> const&, bool);                         \
  PREFIX template void row_sum(executor_ref, view<T>, lazy<tree_leaf<T, false, false>> const&, bool);               \
  PREFIX template void col_sum(executor_ref, view<T>, lazy<tree_leaf<T, false, false>> const&, bool);               \
  }

#define HEADMIX_CPU_PRODUCTS(PREFIX, T)                                                                             \
  namespace headmix::cpu::inline HEADMIX_ISA {                                                                      \
  PREFIX template class detail::weight_panels<T>;                                                                   \
  PREFIX template class prepared_weights<T>;                                                                        \
  PREFIX template void gemm(executor_ref, view<T>, view<T const>, view<T const>, bool);                             \
  PREFIX template void grouped_gemm<T>(executor_ref, view<T>, view<T const>, view<T const>, view<Int const>,        \
                                       view<Int const>, Index, std::span<std::byte>,                                \
                                       accumulator_t<T>*);                                                          \
  PREFIX template void grouped_outer<T>(executor_ref, view<T>, view<T const>, view<T const>, view<Int const>,       \
                                        view<Int const>, Index, Index, bool, std::span<std::byte>);                 \
  PREFIX template void grouped_sum<T>(executor_ref, view<T>, view<T const>, view<T const>, view<Int const>,         \
                                      view<Int const>, Index, bool, std::span<std::byte>,                           \
                                      accumulator_t<T>*);                                                           \
  PREFIX template void packed_gemm<detail::best_dots, T>(executor_ref, view<T>, view<T const>, view<Int const>,     \
                                                         view<Int const>, view<Int const>, Index,                   \
                                                         std::span<std::byte>);                                     \
  PREFIX template void absmax_int8(executor_ref, view<T>, view<T const>);                                           \
  PREFIX template void absmean_ternary(executor_ref, view<T>, view<T const>);                                       \
  PREFIX template void window_mean(executor_ref, view<T>, view<T const>, segments, Index, bool);                    \
  PREFIX template void softmax(executor_ref, view<T>, view<T const>);                                               \
  PREFIX template void log_sum_exp(executor_ref, view<T>, view<T const>);                                           \
  }

#define HEADMIX_CPU_ATTENTION(PREFIX, T, MASK)                                                                      \
  namespace headmix::cpu::inline HEADMIX_ISA {                                                                      \
  PREFIX template void attention<MASK>(executor_ref, attention_forward<T> const&, std::span<std::byte>);            \
  PREFIX template void attention_gradient<MASK>(executor_ref, attention_backward<T> const&, std::span<std::byte>);  \
  PREFIX template void cached_attention<MASK>(executor_ref, attention_forward<T> const&, attention_cache<T> const&, \
                                              std::span<std::byte>);                                                \
  }

#define HEADMIX_REFERENCE_ATTENTION(PREFIX, T, MASK)                                                                \
  PREFIX template void Reference<T>::attention<MASK>(attention_forward<T> const&, std::span<std::byte>) const;      \
  PREFIX template void Reference<T>::attention_gradient<MASK>(attention_backward<T> const&, std::span<std::byte>)   \
      const;

#define HEADMIX_REFERENCE(PREFIX, T)                                                                                \
  namespace headmix {                                                                                               \
  PREFIX template void Reference<T>::gemm(view<T>, view<T const>, view<T const>, bool) const;                       \
  PREFIX template void Reference<T>::softmax(view<T>, view<T const>) const;                                         \
  PREFIX template void Reference<T>::log_sum_exp(view<T>, view<T const>) const;                                     \
  PREFIX template void Reference<T>::top_k(view<Int>, view<T const>) const;                                         \
  PREFIX template void Reference<T>::gather_cols(view<T>, view<T const>, view<Int const>) const;                    \
  PREFIX template void Reference<T>::scatter_cols(view<T>, view<T const>, view<Int const>) const;                   \
  PREFIX template void Reference<T>::one_hot(view<T>, view<Int const>) const;                                       \
  PREFIX template void Reference<T>::gather_rows(view<T>, view<T const>, view<Int const>) const;                    \
  PREFIX template void Reference<T>::scatter_rows(view<T>, view<T const>, view<Int const>, bool) const;             \
  PREFIX template void Reference<T>::window_mean(view<T>, view<T const>, segments, Index, bool) const;              \
  PREFIX template void Reference<T>::grouped_gemm(view<T>, view<T const>, view<T const>, view<Int const>,           \
                                                  view<Int const>, Index, std::span<std::byte>) const;              \
  PREFIX template void Reference<T>::grouped_sum(view<T>, view<T const>, view<T const>, view<Int const>,            \
                                                 view<Int const>, Index, bool, std::span<std::byte>) const;         \
  PREFIX template void Reference<T>::grouped_outer(view<T>, view<T const>, view<T const>, view<Int const>,          \
                                                   view<Int const>, Index, Index, bool, std::span<std::byte>) const;\
  PREFIX template void Reference<T>::rotary(view<T>, view<T const>, view<accumulator_t<T> const>, row_positions,    \
                                            Index, bool) const;                                                     \
  HEADMIX_REFERENCE_ATTENTION(PREFIX, T, full)                                                                      \
  HEADMIX_REFERENCE_ATTENTION(PREFIX, T, causal)                                                                    \
  }

#define HEADMIX_CPU_KERNELS(PREFIX, T)              \
  HEADMIX_REFERENCE(PREFIX, T)                      \
  HEADMIX_CPU_TREES(PREFIX, T)                      \
  HEADMIX_CPU_PRODUCTS(PREFIX, T)                   \
  HEADMIX_CPU_ATTENTION(PREFIX, T, headmix::full)   \
  HEADMIX_CPU_ATTENTION(PREFIX, T, headmix::causal)
// clang-format on

/// At namespace scope of one unit: the kernels of Cpu<T>, for units that are compiled with HEADMIX_COMPILED.
#define HEADMIX_COMPILE_CPU(T) HEADMIX_CPU_KERNELS(, T)

#ifdef HEADMIX_COMPILED
HEADMIX_CPU_KERNELS(extern, float)
HEADMIX_CPU_KERNELS(extern, double)
HEADMIX_CPU_KERNELS(extern, headmix::bfloat16)
#endif

#pragma once
// SPDX-License-Identifier: MIT
// Compiles the kernels that DispatchedCpu chooses from. The CMake target headmix::dispatched does it. Without CMake,
// one file has
//
//   #include <headmix/backend/cpu/compile_level.hpp>
//   HEADMIX_COMPILE_CPU_LEVEL(float)
//
// and such a line for each further scalar, and is compiled three times, each time with -O2 or -O3 and the flags of the
// program, and behind them
//
//   for the baseline  nothing more
//   for AVX2          -DHEADMIX_CPU_LEVEL=avx2 -mavx2 -mfma
//   for AVX-512       -DHEADMIX_CPU_LEVEL=avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma
//
// One file more has the line for headmix::bfloat16 alone and is compiled twice, with the flags of AVX-512 and
//
//   for dot products  -DHEADMIX_CPU_LEVEL=avx512_bf16 -mavx512bf16
//   for tiles         -DHEADMIX_CPU_LEVEL=amx -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8
//
// Link them in this order, behind the program's own units: of an inline function that several units have the linker
// takes the first, which must be one that every machine runs.

#include "headmix/backend/cpu/attention.hpp"
#include "headmix/backend/cpu/attention_backward.hpp"
#include "headmix/backend/cpu/attention_bias.hpp"
#include "headmix/backend/cpu/attention_cached.hpp"
#include "headmix/backend/cpu/gemm.hpp"
#include "headmix/backend/cpu/grouped_gemm.hpp"
#include "headmix/backend/cpu/grouped_outer.hpp"
#include "headmix/backend/cpu/grouped_sum.hpp"
#include "headmix/backend/cpu/kernel_set.hpp"
#include "headmix/backend/cpu/quantize.hpp"
#include "headmix/backend/cpu/sequence.hpp"
#include "headmix/backend/cpu/softmax.hpp"
#include "headmix/backend/cpu/ternary_gemm.hpp"
#include "headmix/backend/cpu/weight_panels.hpp"

namespace headmix::cpu::inline HEADMIX_ISA {

namespace detail {

/// mixed_products of this instruction set, under what else is one.
template <class T, class W = accumulator_t<T>>
struct mixed_products_here : kernel_set<T> {
  using kernel_set<T>::gemm;
  void gemm(executor_ref e, view<W> y, view<T const> a, view<T const> b, bool accumulate) const final {
    cpu::gemm(e, y, a, b, accumulate);
  }
  void gemm(executor_ref e, view<T> y, view<W const> a, view<T const> b, bool accumulate) const final {
    cpu::gemm(e, y, a, b, accumulate);
  }
  void gemm(executor_ref e, view<T> y, view<T const> a, view<W const> b, bool accumulate) const final {
    cpu::gemm(e, y, a, b, accumulate);
  }
};
template <class T>
struct mixed_products_here<T, T> : kernel_set<T> {};

/// kernel_set of this instruction set.
template <class T>
struct kernels_here final : mixed_products_here<T> {
  using W = accumulator_t<T>;
  using index_view = view<Int const>;
  using scratch_span = std::span<std::byte>;
  using mixed_products_here<T>::gemm;

  void gemm(executor_ref e, view<T> y, view<T const> a, view<T const> b, bool accumulate) const override {
    cpu::gemm(e, y, a, b, accumulate);
  }
  void softmax(executor_ref e, view<W> y, view<W const> a) const override { cpu::softmax(e, y, a); }
  void log_sum_exp(executor_ref e, view<W> y, view<W const> a) const override { cpu::log_sum_exp(e, y, a); }
  void window_mean(executor_ref e, view<T> y, view<T const> a, segments s, Index window,
                   bool transposed) const override {
    cpu::window_mean(e, y, a, s, window, transposed);
  }

  Index panels_size(view<T const> w) const override { return weight_panels<T>::size(w); }
  void pack_panels(executor_ref e, view<T const> w, W* memory) const override { weight_panels<T>(w, memory).pack(e); }
  Index grouped_gemm_scratch(view<T const> w, Index concurrency) const override {
    return grouped_scratch_bytes<T>(w.rows, w.cols, concurrency);
  }
  void grouped_gemm(executor_ref e, view<T> y, view<T const> x, view<T const> w, index_view perm, index_view offsets,
                    Index slots_per_row, scratch_span scratch, W* panels) const override {
    cpu::grouped_gemm(e, y, x, w, perm, offsets, slots_per_row, scratch, panels);
  }
  Index grouped_outer_scratch(view<T> y, Index slots, Index concurrency) const override {
    return grouped_outer_scratch_bytes<T>(y.rows, slots, concurrency);
  }
  void grouped_outer(executor_ref e, view<T> y, view<T const> x, view<T const> g, index_view perm, index_view offsets,
                     Index x_slots, Index g_slots, bool accumulate, scratch_span scratch) const override {
    cpu::grouped_outer(e, y, x, g, perm, offsets, x_slots, g_slots, accumulate, scratch);
  }
  Index grouped_sum_scratch(view<T> y, view<T const> x, view<T const> w, Index concurrency) const override {
    return grouped_sum_scratch_bytes<T>(y, x, w, concurrency);
  }
  void grouped_sum(executor_ref e, view<T> y, view<T const> x, view<T const> w, index_view perm, index_view offsets,
                   Index slots_per_row, bool accumulate, scratch_span scratch, W* panels) const override {
    cpu::grouped_sum(e, y, x, w, perm, offsets, slots_per_row, accumulate, scratch, panels);
  }

  void absmax_int8(executor_ref e, view<T> y, view<T const> a) const override { cpu::absmax_int8(e, y, a); }
  void absmean_ternary(executor_ref e, view<T> y, view<T const> a) const override { cpu::absmean_ternary(e, y, a); }
  Index packed_gemm_scratch(view<T const> x, Index concurrency) const override {
    return packed_scratch_bytes(x, concurrency);
  }
  void packed_gemm(executor_ref e, view<T> y, view<T const> x, index_view w, index_view perm, index_view offsets,
                   Index slots_per_row, scratch_span scratch) const override {
    cpu::packed_gemm(e, y, x, w, perm, offsets, slots_per_row, scratch);
  }

  Index attention_scratch(attention_extents const& x, Index concurrency) const override {
    return attention_scratch_bytes<T>(x, concurrency);
  }
  void attention(bool is_causal, executor_ref e, attention_forward<T> const& a, scratch_span scratch) const override {
    is_causal ? cpu::attention<causal>(e, a, scratch) : cpu::attention<full>(e, a, scratch);
  }
  Index attention_gradient_scratch(attention_backward<T> const& a, Index concurrency) const override {
    return attention_gradient_scratch_bytes(a, concurrency);
  }
  void attention_gradient(bool is_causal, executor_ref e, attention_backward<T> const& a,
                          scratch_span scratch) const override {
    is_causal ? cpu::attention_gradient<causal>(e, a, scratch) : cpu::attention_gradient<full>(e, a, scratch);
  }
  Index attention_bias_gradient_scratch(attention_backward<T> const& a, Index concurrency) const override {
    return attention_bias_gradient_scratch_bytes(a, concurrency);
  }
  void attention_bias_gradient(bool is_causal, executor_ref e, view<T> d_bias, attention_backward<T> const& a,
                               scratch_span scratch) const override {
    is_causal ? cpu::attention_bias_gradient<causal>(e, d_bias, a, scratch)
              : cpu::attention_bias_gradient<full>(e, d_bias, a, scratch);
  }
  Index cached_attention_scratch(attention_extents const& x, cache_pages const& pages,
                                 Index concurrency) const override {
    return cached_attention_scratch_bytes<T>(x, pages, concurrency);
  }
  void cached_attention(bool is_causal, executor_ref e, attention_forward<T> const& a, attention_cache<T> const& cache,
                        scratch_span scratch) const override {
    is_causal ? cpu::cached_attention<causal>(e, a, cache, scratch) : cpu::cached_attention<full>(e, a, cache, scratch);
  }
};

/// Whether the unit's flags are those of a level.
consteval bool compiled_for(cpu_level level) {
#if defined(HEADMIX_ISA_HAS_TILES)
  return level <= cpu_level::amx;
#elif defined(HEADMIX_ISA_HAS_DOTS)
  return level <= cpu_level::avx512_bf16;
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__AVX512VNNI__) && defined(__FMA__)
  return level <= cpu_level::avx512;
#elif defined(__AVX2__) && defined(__FMA__)
  return level <= cpu_level::avx2;
#else
  return level == cpu_level::baseline;
#endif
}

}  // namespace detail

}  // namespace headmix::cpu::inline HEADMIX_ISA

/// Of the unit: baseline, avx2, avx512, and for bfloat16 avx512_bf16 and amx.
#ifndef HEADMIX_CPU_LEVEL
#define HEADMIX_CPU_LEVEL baseline
#endif

static_assert(headmix::cpu::detail::compiled_for(headmix::cpu_level::HEADMIX_CPU_LEVEL),
              "headmix: this unit needs the flags of its HEADMIX_CPU_LEVEL: see cpu/compile_level.hpp");

/// At namespace scope: the kernels of numbers of T, for the level that the unit is compiled for.
#define HEADMIX_COMPILE_CPU_LEVEL(T)                                                                     \
  template <>                                                                                            \
  headmix::cpu::kernel_set<T> const& headmix::cpu::kernels<T, headmix::cpu_level::HEADMIX_CPU_LEVEL>() { \
    static constexpr headmix::cpu::detail::kernels_here<T> set;                                          \
    return set;                                                                                          \
  }

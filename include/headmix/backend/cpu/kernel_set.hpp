#pragma once
// SPDX-License-Identifier: MIT
// The kernels of Cpu<T> behind virtual functions, so that a program can hold them for several instruction sets and
// choose when it runs: DispatchedCpu. What they compute is said where cpu/ defines them.

#include <concepts>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/cpu_level.hpp"
#include "headmix/contract/attention_problem.hpp"
#include "headmix/contract/mask.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cpu {

/// Whether attention with a mask and a score map is among the kernels that are compiled ahead.
template <class Mask, class Map>
inline constexpr bool in_kernel_sets = (std::same_as<Mask, full> ||
                                        std::same_as<Mask, causal>)&&std::same_as<Map, no_score_map>;

/// The products whose operands have different types: none where numbers are stored as they are calculated with.
template <class T, class W = accumulator_t<T>>
struct mixed_products {
  /// y (+)= a b
  virtual void gemm(executor_ref, view<W> y, view<T const> a, view<T const> b, bool accumulate) const = 0;
  virtual void gemm(executor_ref, view<T> y, view<W const> a, view<T const> b, bool accumulate) const = 0;
  virtual void gemm(executor_ref, view<T> y, view<T const> a, view<W const> b, bool accumulate) const = 0;

 protected:
  ~mixed_products() = default;
};
template <class T>
struct mixed_products<T, T> {
  void gemm() const {}
};

/// The kernels of one instruction set for numbers of T. Scratch is in bytes, for an executor's concurrency; the mask of
/// an attention is `is_causal` or full. `panels` are those that pack_panels() made of the weights, or null.
template <class T>
class kernel_set : public mixed_products<T> {
 public:
  using W = accumulator_t<T>;
  using index_view = view<Int const>;
  using mixed_products<T>::gemm;

  virtual void gemm(executor_ref, view<T> y, view<T const> a, view<T const> b, bool accumulate) const = 0;
  /// Of the numbers that are calculated with.
  virtual void softmax(executor_ref, view<W> y, view<W const> a) const = 0;
  virtual void log_sum_exp(executor_ref, view<W> y, view<W const> a) const = 0;
  virtual void window_mean(executor_ref, view<T> y, view<T const> a, segments, Index window, bool transposed) const = 0;

  /// Numbers that the panels of w take.
  [[nodiscard]] virtual Index panels_size(view<T const> w) const = 0;
  virtual void pack_panels(executor_ref, view<T const> w, W* memory) const = 0;
  [[nodiscard]] virtual Index grouped_gemm_scratch(view<T const> w, Index concurrency) const = 0;
  virtual void grouped_gemm(executor_ref, view<T> y, view<T const> x, view<T const> w, index_view perm,
                            index_view offsets, Index slots_per_row, std::span<std::byte> scratch, W* panels) const = 0;
  [[nodiscard]] virtual Index grouped_outer_scratch(view<T> y, Index slots, Index concurrency) const = 0;
  virtual void grouped_outer(executor_ref, view<T> y, view<T const> x, view<T const> g, index_view perm,
                             index_view offsets, Index x_slots, Index g_slots, bool accumulate,
                             std::span<std::byte> scratch) const = 0;
  [[nodiscard]] virtual Index grouped_sum_scratch(view<T> y, view<T const> x, view<T const> w,
                                                  Index concurrency) const = 0;
  virtual void grouped_sum(executor_ref, view<T> y, view<T const> x, view<T const> w, index_view perm,
                           index_view offsets, Index slots_per_row, bool accumulate, std::span<std::byte> scratch,
                           W* panels) const = 0;

  virtual void absmax_int8(executor_ref, view<T> y, view<T const> a) const = 0;
  virtual void absmean_ternary(executor_ref, view<T> y, view<T const> a) const = 0;
  [[nodiscard]] virtual Index packed_gemm_scratch(view<T const> x, Index concurrency) const = 0;
  virtual void packed_gemm(executor_ref, view<T> y, view<T const> x, index_view w, index_view perm, index_view offsets,
                           Index slots_per_row, std::span<std::byte> scratch) const = 0;

  [[nodiscard]] virtual Index attention_scratch(attention_extents const&, Index concurrency) const = 0;
  virtual void attention(bool is_causal, executor_ref, attention_forward<T> const&, std::span<std::byte>) const = 0;
  [[nodiscard]] virtual Index attention_gradient_scratch(attention_backward<T> const&, Index concurrency) const = 0;
  virtual void attention_gradient(bool is_causal, executor_ref, attention_backward<T> const&,
                                  std::span<std::byte>) const = 0;
  [[nodiscard]] virtual Index attention_bias_gradient_scratch(attention_backward<T> const&,
                                                              Index concurrency) const = 0;
  virtual void attention_bias_gradient(bool is_causal, executor_ref, view<T> d_bias, attention_backward<T> const&,
                                       std::span<std::byte>) const = 0;
  [[nodiscard]] virtual Index cached_attention_scratch(attention_extents const&, cache_pages const&,
                                                       Index concurrency) const = 0;
  virtual void cached_attention(bool is_causal, executor_ref, attention_forward<T> const&, attention_cache<T> const&,
                                std::span<std::byte>) const = 0;

 protected:
  ~kernel_set() = default;
};

/// The kernels of a level: defined by the unit that HEADMIX_COMPILE_CPU_LEVEL stands in (cpu/compile_level.hpp).
template <class T, cpu_level Level>
[[nodiscard]] kernel_set<T> const& kernels();

/// Those of a level that is chosen at run time.
template <class T>
[[nodiscard]] kernel_set<T> const& kernels(cpu_level level) {
#if defined(__x86_64__)
  if constexpr (std::same_as<T, bfloat16>) {
    if (level == cpu_level::amx) return kernels<T, cpu_level::amx>();
    if (level == cpu_level::avx512_bf16) return kernels<T, cpu_level::avx512_bf16>();
  }
  if (level >= cpu_level::avx512) return kernels<T, cpu_level::avx512>();
  if (level == cpu_level::avx2) return kernels<T, cpu_level::avx2>();
#endif
  return kernels<T, cpu_level::baseline>();
}

}  // namespace headmix::cpu

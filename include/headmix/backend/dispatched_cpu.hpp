#pragma once
// SPDX-License-Identifier: MIT
// DispatchedCpu: Cpu, with kernels of several instruction sets in one program, of which it takes the best that the
// machine runs. Link to headmix::dispatched, or compile the kernels yourself (cpu/compile_level.hpp).

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/cpu/kernel_set.hpp"

namespace headmix::inline HEADMIX_ISA {

/// Products, attention with the masks `full` and `causal`, softmax and the kernels of ternary weights are those of the
/// level. What is made of a layer's own expressions is compiled with the layer, for the program's instruction set:
/// pointwise trees and their sums, attention with other masks or with score maps. Units that shall have those for a
/// machine's own are to be compiled for it, with Cpu.
/// @tparam Scalar  float, double or bfloat16
/// @tparam Exec  who runs the tasks, as Cpu has it
template <class Scalar, Executor Exec = serial>
class DispatchedCpu : public Cpu<Scalar, Exec> {
  using own = Cpu<Scalar, Exec>;
  using W = accumulator_t<Scalar>;

 public:
  using typename own::prepared_weights;

  /// For default_cpu_level(), or a lower one.
  /// @throws Error when the machine does not run that level
  explicit DispatchedCpu(cpu_level level = default_cpu_level()) requires std::is_empty_v<Exec> { choose(level); }
  /// Keeps a reference to the executor.
  explicit DispatchedCpu(Exec& exec, cpu_level level = default_cpu_level()) requires(!std::is_empty_v<Exec>)
      : own(exec) {
    choose(level);
  }
  /// What kernels are of.
  [[nodiscard]] cpu_level level() const { return level_; }

  template <class T, class A, class B>
  void gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) {
    if constexpr (std::is_same_v<T, W> && std::is_same_v<A, W> && std::is_same_v<B, W>) {
      wide_->gemm(executor(), y, a, b, accumulate);
    } else if constexpr (requires { kernels_->gemm(executor(), y, a, b, accumulate); }) {
      kernels_->gemm(executor(), y, a, b, accumulate);
    } else {
      own::gemm(y, a, b, accumulate);
    }
  }
  template <class T, class A>
  void softmax(view<T> y, view<A const> a) {
    if constexpr (std::is_same_v<T, W> && std::is_same_v<A, W>) {
      wide_->softmax(executor(), y, a);
    } else {
      own::softmax(y, a);
    }
  }
  template <class T, class A>
  void log_sum_exp(view<T> y, view<A const> a) {
    if constexpr (std::is_same_v<T, W> && std::is_same_v<A, W>) {
      wide_->log_sum_exp(executor(), y, a);
    } else {
      own::log_sum_exp(y, a);
    }
  }
  template <class T>
  void window_mean(view<T> y, view<T const> a, segments s, Index window, bool transposed) {
    if constexpr (std::is_same_v<T, Scalar>) {
      kernels_->window_mean(executor(), y, a, s, window, transposed);
    } else {
      own::window_mean(y, a, s, window, transposed);
    }
  }

  std::size_t grouped_gemm_scratch(view<Scalar>, view<Scalar const>, view<Scalar const> w) {
    return bytes(kernels_->grouped_gemm_scratch(w, workers()));
  }
  void grouped_gemm(view<Scalar> y, view<Scalar const> x, view<Scalar const> w, view<Int const> perm,
                    view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch,
                    prepared_weights* prepared = nullptr) {
    kernels_->grouped_gemm(executor(), y, x, w, perm, offsets, slots_per_row, scratch, panels(prepared, w));
  }
  std::size_t grouped_outer_scratch(view<Scalar> y, view<Scalar const> x, view<Scalar const> g) {
    return bytes(kernels_->grouped_outer_scratch(y, (std::max)(x.rows, g.rows), workers()));
  }
  void grouped_outer(view<Scalar> y, view<Scalar const> x, view<Scalar const> g, view<Int const> perm,
                     view<Int const> offsets, Index x_slots, Index g_slots, bool accumulate,
                     std::span<std::byte> scratch) {
    kernels_->grouped_outer(executor(), y, x, g, perm, offsets, x_slots, g_slots, accumulate, scratch);
  }
  std::size_t grouped_sum_scratch(view<Scalar> y, view<Scalar const> x, view<Scalar const> w) {
    return bytes(kernels_->grouped_sum_scratch(y, x, w, workers()));
  }
  void grouped_sum(view<Scalar> y, view<Scalar const> x, view<Scalar const> w, view<Int const> perm,
                   view<Int const> offsets, Index slots_per_row, bool accumulate, std::span<std::byte> scratch,
                   prepared_weights* prepared = nullptr) {
    kernels_->grouped_sum(executor(), y, x, w, perm, offsets, slots_per_row, accumulate, scratch, panels(prepared, w));
  }

  template <class T>
  void absmax_int8(view<T> y, view<T const> a) {
    if constexpr (std::is_same_v<T, Scalar>) {
      kernels_->absmax_int8(executor(), y, a);
    } else {
      own::absmax_int8(y, a);
    }
  }
  template <class T>
  void absmean_ternary(view<T> y, view<T const> a) {
    if constexpr (std::is_same_v<T, Scalar>) {
      kernels_->absmean_ternary(executor(), y, a);
    } else {
      own::absmean_ternary(y, a);
    }
  }
  std::size_t packed_gemm_scratch(view<Scalar>, view<Scalar const> x, view<Int const>) {
    return bytes(kernels_->packed_gemm_scratch(x, workers()));
  }
  void packed_gemm(view<Scalar> y, view<Scalar const> x, view<Int const> w, view<Int const> perm,
                   view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch) {
    kernels_->packed_gemm(executor(), y, x, w, perm, offsets, slots_per_row, scratch);
  }

  // The mask is not known where scratch is planned, so that there is enough for either's.
  template <class Map>
  std::size_t attention_scratch(attention_forward<Scalar, Map> const& p) {
    std::size_t const of_own = own::attention_scratch(p);
    return (std::max)(of_own, bytes(kernels_->attention_scratch(p.extents, workers())));
  }
  template <AttentionMask Mask, class Map>
  void attention(attention_forward<Scalar, Map> const& p, std::span<std::byte> scratch) {
    if constexpr (cpu::in_kernel_sets<Mask, Map>) {
      kernels_->attention(std::is_same_v<Mask, causal>, executor(), p, scratch);
    } else {
      own::template attention<Mask>(p, scratch);
    }
  }
  template <AttentionMask Mask, class Map>
  std::size_t attention_gradient_scratch(attention_backward<Scalar, Map> const& p) {
    std::size_t const of_own = own::template attention_gradient_scratch<Mask>(p);
    if constexpr (!std::is_same_v<Map, no_score_map>) {
      return of_own;
    } else {
      return (std::max)(of_own, bytes(kernels_->attention_gradient_scratch(p, workers())));
    }
  }
  template <AttentionMask Mask, class Map>
  void attention_gradient(attention_backward<Scalar, Map> const& p, std::span<std::byte> scratch) {
    if constexpr (cpu::in_kernel_sets<Mask, Map>) {
      kernels_->attention_gradient(std::is_same_v<Mask, causal>, executor(), p, scratch);
    } else {
      own::template attention_gradient<Mask>(p, scratch);
    }
  }
  template <class Map>
  std::size_t attention_bias_gradient_scratch(attention_backward<Scalar, Map> const& p) {
    std::size_t const of_own = own::attention_bias_gradient_scratch(p);
    if constexpr (!std::is_same_v<Map, no_score_map>) {
      return of_own;
    } else {
      return (std::max)(of_own, bytes(kernels_->attention_bias_gradient_scratch(p, workers())));
    }
  }
  template <AttentionMask Mask, class Map>
  void attention_bias_gradient(view<Scalar> d_bias, attention_backward<Scalar, Map> const& p,
                               std::span<std::byte> scratch) {
    if constexpr (cpu::in_kernel_sets<Mask, Map>) {
      kernels_->attention_bias_gradient(std::is_same_v<Mask, causal>, executor(), d_bias, p, scratch);
    } else {
      own::template attention_bias_gradient<Mask>(d_bias, p, scratch);
    }
  }
  /// Pages have whole panels of keys of every level.
  static constexpr Index cache_rows = (std::max)(own::cache_rows, Index{256 / sizeof(W)});
  template <class Map>
  std::size_t cached_attention_scratch(attention_forward<Scalar, Map> const& p, attention_cache<Scalar> const& cache) {
    return (std::max)(own::cached_attention_scratch(p, cache),
                      bytes(kernels_->cached_attention_scratch(p.extents, cache.pages, workers())));
  }
  template <AttentionMask Mask, class Map>
  void cached_attention(attention_forward<Scalar, Map> const& p, attention_cache<Scalar> const& cache,
                        std::span<std::byte> scratch) {
    if constexpr (cpu::in_kernel_sets<Mask, Map>) {
      kernels_->cached_attention(std::is_same_v<Mask, causal>, executor(), p, cache, scratch);
    } else {
      own::template cached_attention<Mask>(p, cache, scratch);
    }
  }

 private:
  using own::executor;
  void choose(cpu_level level) {
    if (!runs(level)) fail("DispatchedCpu: expected a level that this machine runs, found ", name_of(level));
    level_ = level;
    kernels_ = &cpu::kernels<Scalar>(level);
    wide_ = &cpu::kernels<W>(level);
  }
  [[nodiscard]] Index workers() { return executor().concurrency(); }
  [[nodiscard]] static std::size_t bytes(Index n) { return static_cast<std::size_t>(n); }
  W* panels(prepared_weights* prepared, view<Scalar const> const& w) {
    if (prepared == nullptr) return nullptr;
    return prepared->panels(w, kernels_->panels_size(w),
                            [&](W* memory) { kernels_->pack_panels(executor(), w, memory); });
  }

  cpu_level level_ = cpu_level::baseline;
  cpu::kernel_set<Scalar> const* kernels_ = nullptr;
  cpu::kernel_set<W> const* wide_ = nullptr;
};

static_assert(BackendPolicy<DispatchedCpu<float>> && BackendPolicy<DispatchedCpu<bfloat16>>,
              "headmix: DispatchedCpu lacks a kernel of BackendPolicy");
static_assert(Decodes<DispatchedCpu<float>> && PackedGemm<DispatchedCpu<float>> &&
                  MapsScores<DispatchedCpu<float>> && MapsScores<DispatchedCpu<bfloat16>> &&
                  StoresProbabilities<DispatchedCpu<float>> && PreparesWeights<DispatchedCpu<float>>,
              "headmix: DispatchedCpu lacks an optional kernel that it forwards");

}  // namespace headmix::inline HEADMIX_ISA

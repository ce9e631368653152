#pragma once
// SPDX-License-Identifier: MIT
// Cpu: kernels for products, grouped products, attention and fused trees; Eigen's vector functions. Work is cut by
// shape, so results are bitwise equal for every executor. With HEADMIX_COMPILED, the kernels of cpu/kernels.hpp are
// those of the highest level that the machine runs.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/build_notice.hpp"
#include "headmix/backend/cpu/experts/expert.hpp"
#include "headmix/backend/cpu/kernels.hpp"
#include "headmix/backend/products.hpp"

namespace headmix::inline HEADMIX_ISA {

/// The backend of the CPU. Kernels have no state between calls: copies may run at the same time on several threads,
/// also with one executor if several threads may call it.
/// @tparam Scalar float, double, or bfloat16, which is the type in memory: kernels compute in float and round once
/// @tparam Exec runs the tasks: `serial`, `thread_pool`, or another Executor
/// @tparam Products how floats are multiplied; all but products::exact round them
template <class Scalar, Executor Exec = serial, ProductPrecision Products = products::exact>
class Cpu {
  static_assert(std::is_same_v<Scalar, float> || std::is_same_v<Products, products::exact>,
                "headmix: only the products of Cpu<float> can be rounded");

 public:
  using scalar = Scalar;
  /// Packed weights of experts: PreparesWeights.
  using prepared_weights = cpu_kernels::prepared_weights<Scalar>;
  static constexpr bool host_memory = true;

  /// A backend with the kernels of default_cpu_level().
  Cpu() requires std::is_empty_v<Exec> : kernels_(default_cpu_level()) { cpu_kernels::notify_build(); }
  /// A backend with the kernels of the level.
  /// @throws Error when the program has no kernels of that level, or the machine does not run it
  explicit Cpu(cpu_level level) requires std::is_empty_v<Exec> : kernels_(checked_cpu_level(level, "Cpu")) {
    cpu_kernels::notify_build();
  }
  /// Keeps a reference to the executor, whose concurrency() must be at least 1 and constant.
  explicit Cpu(Exec& executor) requires(!std::is_empty_v<Exec>) : Cpu(executor, default_cpu_level()) {}
  /// A backend with an executor and the kernels of the level.
  Cpu(Exec& executor, cpu_level level) requires(!std::is_empty_v<Exec>)
      : executor_(&executor), workers_(executor.concurrency()), kernels_(checked_cpu_level(level, "Cpu")) {
    if (1 > workers_) fail("the concurrency() of the executor must be at least 1; found ", workers_);
    cpu_kernels::notify_build();
  }

  /// The level of the kernels that cpu/kernels.hpp lists, with HEADMIX_COMPILED; of attention, those with the masks
  /// `full` and `causal` and without a score map. Kernels of a layer's own expressions are compiled with the layer, for
  /// the instruction set of its unit, the level `baseline`.
  [[nodiscard]] cpu_level level() const { return kernels_.level(); }

  /// Fails if the concurrency() of the executor has changed: scratch is for a number of workers.
  void begin_pass() {
    Index const now = executor().concurrency();
    if (now != workers_) {
      fail("the concurrency() of the executor was ", workers_, " when the backend was made and is ", now,
           " now; it must stay what it is");
    }
  }

  /// The most bytes of probabilities that an attention stores for its gradient: about sizeof(Scalar) queries x keys per
  /// head. Beyond the budget, with the default of 0, and for bfloat16 the gradient recomputes them. Set it before a
  /// module is made with the backend.
  void set_probability_budget(Index bytes) { probability_budget_ = bytes; }

  /// f(i) for i < n, in any order.
  template <class F>
  void for_each(Index n, F const f) {
    cpu_kernels::for_each_range(executor(), n, 4, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) f(i);
    });
  }

  template <class T, class Tree>
  void map(view<T> y, Tree const& tree, bool accumulate) {
    kernels_.map(executor(), y, tree, accumulate);
  }
  template <class T, class Tree>
  void row_sum(view<T> y, lazy<Tree> const& a, bool accumulate) {
    kernels_.row_sum(executor(), y, a, accumulate);
  }
  template <class T, class Tree>
  void col_sum(view<T> y, lazy<Tree> const& a, bool accumulate) {
    kernels_.col_sum(executor(), y, a, accumulate);
  }
  template <class T, class Tree>
  void group_sum(view<T> y, lazy<Tree> const& a, Index n, bool accumulate) {
    kernels_.group_sum(executor(), y, a, n, accumulate);
  }

  template <class T, class A, class B>
  void gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) {
    kernels_.gemm(Products{}, executor(), y, a, b, accumulate);
  }
  template <class T, class A>
  void softmax(view<T> y, view<A const> a) {
    kernels_.softmax(executor(), y, a);
  }
  template <class T, class A>
  void log_sum_exp(view<T> y, view<A const> a) {
    kernels_.log_sum_exp(executor(), y, a);
  }

  template <class A>
  void top_k(view<Int> y, view<A const> a) {
    each_row_range(a.rows, 4 * a.cols,
                   [&](Index first, Index n) { reference_.top_k(y.middle_rows(first, n), a.middle_rows(first, n)); });
  }
  template <class T>
  void gather_cols(view<T> y, view<T const> a, view<Int const> index) {
    each_row_range(y.rows, y.cols, [&](Index first, Index n) {
      reference_.gather_cols(y.middle_rows(first, n), a.middle_rows(first, n), index.middle_rows(first, n));
    });
  }
  template <class T>
  void scatter_cols(view<T> y, view<T const> a, view<Int const> index) {
    each_row_range(y.rows, y.cols, [&](Index first, Index n) {
      reference_.scatter_cols(y.middle_rows(first, n), a.middle_rows(first, n), index.middle_rows(first, n));
    });
  }
  void renumber(view<Int> y, view<Int const> a, Index add, Index add_per_row, Index divide = 1) {
    each_row_range(y.rows, y.cols, [&](Index first, Index n) {
      reference_.renumber(y.middle_rows(first, n), a.middle_rows(first, n), add + first * add_per_row, add_per_row,
                          divide);
    });
  }
  template <class T>
  void one_hot(view<T> y, view<Int const> index) {
    each_row_range(y.rows, y.cols, [&](Index first, Index n) {
      reference_.one_hot(y.middle_rows(first, n), index.middle_rows(first, n));
    });
  }
  template <class T>
  void gather_rows(view<T> y, view<T const> table, view<Int const> index) {
    each_row_range(y.rows, y.cols, [&](Index first, Index n) {
      reference_.gather_rows(y.middle_rows(first, n), table, index.middle_rows(first, n));
    });
  }
  /// Several rows may go to one row of y: tasks have columns, whole cache lines.
  template <class T>
  void scatter_rows(view<T> y, view<T const> a, view<Int const> index, bool accumulate) {
    constexpr Index part = cpu_kernels::tuning::scatter_cols;
    cpu_kernels::for_each_range(executor(), (y.cols + part - 1) / part, a.rows * part, [&](Index first, Index last) {
      Index const begin = first * part, n = (std::min)(last * part, y.cols) - begin;
      reference_.scatter_rows(y.middle_cols(begin, n), a.middle_cols(begin, n), index, accumulate);
    });
  }

  void sequence_numbers(view<Int> y, segments s) { reference_.sequence_numbers(y, s); }
  template <class T>
  void window_mean(view<T> y, view<T const> a, segments s, Index window, bool transposed) {
    kernels_.window_mean(executor(), y, a, s, window, transposed);
  }

  void sort_by_expert(view<Int> perm, view<Int> offsets, view<Int const> index, segments s) {
    cpu_kernels::sort_by_expert(perm, offsets, index, s);
  }
  std::size_t grouped_gemm_scratch(view<Scalar>, view<Scalar const>, view<Scalar const> w) {
    return bytes(kernels_.grouped_gemm_scratch_bytes(w, workers()));
  }
  void grouped_gemm(view<Scalar> y, view<Scalar const> x, view<Scalar const> w, view<Int const> perm,
                    view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch,
                    prepared_weights* prepared = nullptr) {
    kernels_.grouped_gemm(Products{}, executor(), y, x, w, perm, offsets, slots_per_row, scratch, panels(prepared, w));
  }
  std::size_t grouped_outer_scratch(view<Scalar> y, view<Scalar const> x, view<Scalar const> g) {
    return bytes(kernels_.grouped_outer_scratch_bytes(y, (std::max)(x.rows, g.rows), workers()));
  }
  void grouped_outer(view<Scalar> y, view<Scalar const> x, view<Scalar const> g, view<Int const> perm,
                     view<Int const> offsets, Index x_slots, Index g_slots, bool accumulate,
                     std::span<std::byte> scratch) {
    kernels_.grouped_outer(Products{}, executor(), y, x, g, perm, offsets, x_slots, g_slots, accumulate, scratch);
  }
  std::size_t grouped_sum_scratch(view<Scalar> y, view<Scalar const> x, view<Scalar const> w) {
    return bytes(kernels_.grouped_sum_scratch_bytes(y, x, w, workers()));
  }
  void grouped_sum(view<Scalar> y, view<Scalar const> x, view<Scalar const> w, view<Int const> perm,
                   view<Int const> offsets, Index slots_per_row, bool accumulate, std::span<std::byte> scratch,
                   prepared_weights* prepared = nullptr) {
    kernels_.grouped_sum(Products{}, executor(), y, x, w, perm, offsets, slots_per_row, accumulate, scratch,
                         panels(prepared, w));
  }

  void apply_capacity(view<Int> y, view<Int const> index, view<Int const> perm, view<Int const> offsets, Index most) {
    reference_.apply_capacity(y, index, perm, offsets, most);
  }

  template <class T>
  void absmax_int8(view<T> y, view<T const> a) {
    kernels_.absmax_int8(executor(), y, a);
  }
  template <class T>
  void absmean_ternary(view<T> y, view<T const> a) {
    kernels_.absmean_ternary(executor(), y, a);
  }
  std::size_t packed_gemm_scratch(view<Scalar>, view<Scalar const> x, view<Int const>) {
    return bytes(kernels_.packed_gemm_scratch_bytes(x, workers()));
  }
  void packed_gemm(view<Scalar> y, view<Scalar const> x, view<Int const> w, view<Int const> perm,
                   view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch) {
    kernels_.packed_gemm(executor(), y, x, w, perm, offsets, slots_per_row, scratch);
  }

  /// Columns of the stored probabilities of an attention, 0 beyond the budget.
  template <class Map>
  Index attention_columns(attention_forward<Scalar, Map> const& p) {
    Index const columns = probability_budget_ > 0 ? cpu_kernels::attention_columns(p) : 0;
    return columns > 0 && p.probabilities.rows <= probability_budget_ / static_cast<Index>(sizeof(Scalar)) / columns
               ? columns
               : 0;
  }
  // Scratch is planned without the mask: it is enough for the kernel of the level and for that of the unit.
  template <class Map>
  std::size_t attention_scratch(attention_forward<Scalar, Map> const& p) {
    return enough(kernels_.attention_scratch_bytes(Products{}, p, workers()),
                  cpu_kernels::attention_scratch_bytes(Products{}, p, workers()));
  }
  template <AttentionMask Mask, class Map>
  void attention(attention_forward<Scalar, Map> const& p, std::span<std::byte> scratch) {
    kernels_.attention(cpu_kernels::mask<Mask>{}, Products{}, executor(), p, scratch);
  }
  /// AttentionGradientInPlace: a block of q is read before its d_q is written.
  static constexpr bool attention_gradient_in_place = true;
  template <AttentionMask Mask, class Map>
  std::size_t attention_gradient_scratch(attention_backward<Scalar, Map> const& p) {
    return enough(kernels_.attention_gradient_scratch_bytes(Products{}, p, workers()),
                  cpu_kernels::attention_gradient_scratch_bytes(Products{}, p, workers()));
  }
  template <AttentionMask Mask, class Map>
  void attention_gradient(attention_backward<Scalar, Map> const& p, std::span<std::byte> scratch) {
    kernels_.attention_gradient(cpu_kernels::mask<Mask>{}, Products{}, executor(), p, scratch);
  }
  template <class Map>
  std::size_t attention_bias_gradient_scratch(attention_backward<Scalar, Map> const& p) {
    return enough(kernels_.attention_bias_gradient_scratch_bytes(p, workers()),
                  cpu_kernels::attention_bias_gradient_scratch_bytes(p, workers()));
  }
  template <AttentionMask Mask, class Map>
  void attention_bias_gradient(view<Scalar> d_bias, attention_backward<Scalar, Map> const& p,
                               std::span<std::byte> scratch) {
    kernels_.attention_bias_gradient(cpu_kernels::mask<Mask>{}, executor(), d_bias, p, scratch);
  }
  template <class Map>
  std::size_t attention_operand_gradient_scratch(attention_backward<Scalar, Map> const& p) {
    return bytes(kernels_.attention_operand_gradient_scratch_bytes(p, workers()));
  }
  template <AttentionMask Mask, class Map>
  void attention_operand_gradient(operand_gradients<accumulator_t<Scalar>, Map::operands> const& d,
                                  attention_backward<Scalar, Map> const& p, std::span<std::byte> scratch) {
    kernels_.attention_operand_gradient(cpu_kernels::mask<Mask>{}, executor(), d, p, scratch);
  }
  /// Rows of a page are whole panels of keys, for every level with kernels.
  static constexpr Index cache_rows = highest_compiled_level == cpu_level::baseline
                                          ? cpu_kernels::register_block<accumulator_t<Scalar>>::nr
                                          : (std::max)(cpu_kernels::register_block<accumulator_t<Scalar>>::nr,
                                                       Index{256 / sizeof(accumulator_t<Scalar>)});
  template <class Map>
  std::size_t cached_attention_scratch(attention_forward<Scalar, Map> const& p, attention_cache<Scalar> const& cache) {
    return enough(kernels_.cached_attention_scratch_bytes(p, cache, workers()),
                  cpu_kernels::cached_attention_scratch_bytes(p, cache, workers()));
  }
  template <AttentionMask Mask, class Map>
  void cached_attention(attention_forward<Scalar, Map> const& p, attention_cache<Scalar> const& cache,
                        std::span<std::byte> scratch) {
    kernels_.cached_attention(cpu_kernels::mask<Mask>{}, executor(), p, cache, scratch);
  }
  void cached_window_mean(view<Scalar> y, view<Scalar const> a, segments s, view<Scalar> cache, cache_pages pages,
                          Index window) {
    reference_.cached_window_mean(y, a, s, cache, pages, window);
  }
  void rotary(view<Scalar> y, view<Scalar const> a, view<accumulator_t<Scalar> const> theta, row_positions s,
              Index heads, rotation r) {
    reference_.rotary(y, a, theta, s, heads, r);
  }

 protected:
  /// The executor of the tasks.
  cpu_kernels::executor_ref executor() {
    if constexpr (std::is_empty_v<Exec>) {
      return executor_;
    } else {
      return *executor_;
    }
  }

 private:
  using handle = std::conditional_t<std::is_empty_v<Exec>, Exec, Exec*>;

  template <class F>
  void each_row_range(Index rows, Index cost, F f) {
    cpu_kernels::for_each_range(executor(), rows, cost, [&](Index first, Index last) { f(first, last - first); });
  }

  Index workers() { return executor().concurrency(); }
  static std::size_t bytes(Index n) { return static_cast<std::size_t>(n); }
  static std::size_t enough(Index a, Index b) { return bytes((std::max)(a, b)); }
  accumulator_t<Scalar>* panels(prepared_weights* prepared, view<Scalar const> const& w) {
    if (prepared == nullptr) return nullptr;
    if constexpr (cpu_kernels::detail::may_round<Scalar, Products>) {
      if (cpu_kernels::detail::rounds_products<Products>()) return nullptr;  // floats are rounded from memory
    }
    return prepared->panels(w, kernels_.packed_b_size(w),
                            [&](accumulator_t<Scalar>* memory) { kernels_.pack_b(executor(), w, memory); });
  }

  Index probability_budget_ = 0;
  [[no_unique_address]] handle executor_{};
  Index workers_ = 1;
  [[no_unique_address]] Reference<Scalar> reference_{};
  [[no_unique_address]] cpu_kernels::kernels<Scalar> kernels_;
};

static_assert(BackendPolicy<Cpu<float>> && BackendPolicy<Cpu<double>> && BackendPolicy<Cpu<bfloat16>>,
              "headmix: Cpu lacks a kernel of BackendPolicy");
static_assert(Decodes<Cpu<float>> && Decodes<Cpu<bfloat16>> && Decodes<Reference<double>> && ChecksPass<Cpu<float>> &&
                  MapsScores<Cpu<float>> && MapsScores<Cpu<double>> && MapsScores<Cpu<bfloat16>> &&
                  PackedGemm<Cpu<float>> && StoresProbabilities<Cpu<float>> && PreparesWeights<Cpu<float>> &&
                  ForEach<Cpu<float>>,
              "headmix: a CPU backend lacks an optional kernel");

}  // namespace headmix::inline HEADMIX_ISA

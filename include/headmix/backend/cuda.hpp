#pragma once
// SPDX-License-Identifier: MIT
// Cuda: the kernels of every backend on a GPU, or emulated on the CPU. Every kernel is asynchronous on the backend's
// queue, allocates nothing and reads nothing back. On one GPU with one version of cuBLAS, results depend on the
// operands' extents, strides and values alone.

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "headmix/backend/cuda/dispatch/attention.hpp"
#include "headmix/backend/cuda/dispatch/attention_gradient.hpp"
#include "headmix/backend/cuda/dispatch/expert_sums.hpp"
#include "headmix/backend/cuda/dispatch/experts.hpp"
#include "headmix/backend/cuda/dispatch/plain_notice.hpp"
#include "headmix/backend/cuda/dispatch/products.hpp"
#include "headmix/backend/cuda/dispatch/routing.hpp"
#include "headmix/backend/cuda/dispatch/rows.hpp"
#include "headmix/backend/cuda/kernel/routing/select.hpp"
#include "headmix/backend/cuda/kernel/rows/map.hpp"
#include "headmix/contract/backend_policy.hpp"
#include "headmix/contract/optional_kernels.hpp"

namespace headmix {

/// Operands are in device memory. Copies share the queue: one thread at a time uses them.
/// @tparam Scalar bfloat16, float or double; sums run in accumulator_t<Scalar>
/// @tparam Device Sm80 or Sm90a (backend/cuda/sm80.cuh), or Emulated (testing/emulated.hpp)
template <class Scalar, class Device>
class Cuda {
  using wide = accumulator_t<Scalar>;
  static constexpr bool fuses_hidden_layers =
      std::is_same_v<Scalar, bfloat16> && cuda_kernels::WarpgroupQueue<typename Device::queue>;

 public:
  using scalar = Scalar;
  /// The device of the kernels.
  using device = Device;
  /// Owned memory of the device: see contract/memory.hpp.
  using memory = typename Device::memory;
  /// A stream of CUDA, or of the emulator.
  using queue_type = typename Device::queue;
  static constexpr bool host_memory = Device::host_memory;

  /// A backend with a new queue.
  Cuda() = default;
  /// A backend on this queue.
  explicit Cuda(queue_type queue) : queue_(std::move(queue)) {}

  [[nodiscard]] queue_type& queue() { return queue_; }
  void upload(void* to, void const* from, std::size_t bytes) const { queue_.upload(to, from, bytes); }
  /// Waits for all earlier work.
  void download(void* to, void const* from, std::size_t bytes) const { queue_.download(to, from, bytes); }
  void synchronize() const { queue_.synchronize(); }
  /// f(i) for all i < n, on the device: f is trivially copyable, its call is marked HEADMIX_DEVICE or HEADMIX_HD.
  template <class F>
  void for_each(Index n, F f) {
    cuda_kernels::for_each(queue_, n, f);
  }

  template <class T, class Tree>
  void map(view<T> y, Tree const& tree, bool accumulate) {
    cuda_kernels::map<wide>(queue_, y, tree, accumulate);
  }
  template <class T, class Tree>
  void row_sum(view<T> y, lazy<Tree> const& a, bool accumulate) {
    cuda_kernels::row_sum<wide>(queue_, y, a, accumulate);
  }
  template <class T, class Tree>
  void col_sum(view<T> y, lazy<Tree> const& a, bool accumulate) {
    cuda_kernels::col_sum<wide>(queue_, y, a, accumulate);
  }
  template <class T, class Tree>
  void group_sum(view<T> y, lazy<Tree> const& a, Index n, bool accumulate) {
    if (n > block_terms)
      return cuda_kernels::map<wide>(queue_, y, cuda_kernels::tree_long_group<Tree>{a.tree, n}, accumulate);
    cuda_kernels::map<wide>(queue_, y, cuda_kernels::tree_group<Tree>{a.tree, n}, accumulate);
  }
  /// FusedRows.
  template <class... S>
  void each_row(Index rows, S const&... steps) {
    cuda_kernels::each_row<wide>(queue_, rows, steps...);
  }

  /// By cuBLAS where it supports the types and strides.
  template <class T, class A, class B>
  void gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) {
    if (!queue_.gemm(y, a, b, accumulate)) cuda_kernels::gemm<wide>(queue_, y, a, b, accumulate);
  }
  /// StackedProducts.
  template <class T, class A, class B>
  void gemm_stack(view<T> y, view<A const> a, view<B const> b, bool accumulate) {
    if (queue_.gemm(y, a, b, accumulate)) return;
    for (Index e = 0; e < y.count; ++e) gemm(y[e], a, b[e], accumulate);
  }
  template <class T, class A>
  void softmax(view<T> y, view<A const> a) {
    cuda_kernels::softmax<wide>(queue_, y, a);
  }
  template <class T, class A>
  void log_sum_exp(view<T> y, view<A const> a) {
    cuda_kernels::log_sum_exp<wide>(queue_, y, a);
  }

  template <class A>
  void top_k(view<Int> y, view<A const> a) {
    cuda_kernels::top_k(queue_, y, a);
  }
  /// FusedRoute.
  std::size_t route_scratch(route_problem<Scalar> const& r) { return cuda_kernels::route_scratch_bytes(r); }
  void route(route_problem<Scalar> const& r, std::span<std::byte> scratch) {
    bool const sums =
        r.squares.data || r.p_sum.data || r.chosen_sum.data || r.first_sum.data || r.order.data || r.begins.data;
    if (sums || !r.z.data || (Half<Scalar> && !cuda_kernels::rows_are_aligned(r.w)))
      check_scratch("route", scratch, route_scratch(r));
    if (!cuda_kernels::route_on_tensor_cores(queue_, r, scratch)) {
      auto* const free = reinterpret_cast<wide*>(scratch.data());
      view<wide> const logits = r.z.data ? r.z : view<wide>(free, r.x.rows, r.w.cols);
      gemm(logits, r.x, r.w, false);
      view<wide const> const z(logits.middle_cols(r.before, r.p.cols)), p(r.p);
      if (r.s.data) cuda_kernels::map<wide>(queue_, r.s, tree_leaf<wide, false, false>{z}, false);
      cuda_kernels::softmax_top_k(queue_, r.p, r.index, z);
      if (r.log_sum.data || r.squares.data) {
        view<wide> const log_sum =
            r.log_sum.data ? r.log_sum : view<wide>(free + (r.z.data ? 0 : logits.size()), z.rows, 1);
        log_sum_exp(log_sum, z);
        if (r.squares.data) cuda_kernels::sum_of_squares<wide>(queue_, r.squares, view<wide const>(log_sum));
      }
      if (r.p_sum.data) col_sum(r.p_sum, lazy<tree_leaf<wide, false, false>>{{p}, p.rows, p.cols}, false);
      auto const count = [&](view<wide> y, view<Int const> index) {
        if (y.data) col_sum(y, lazy<cuda_kernels::tree_scatter_cols<wide>>{{{}, index}, p.rows, p.cols}, false);
      };
      count(r.chosen_sum, r.index);
      count(r.first_sum, r.index.middle_cols(0, 1));
      if (r.order.data || r.begins.data) sort_by_expert(r.order, r.begins, r.index, uniform(1, p.rows));
    }
    if (r.chosen.data) one_hot(r.chosen, view<Int const>(r.index));
    if (r.first.data) one_hot(r.first, view<Int const>(r.index.middle_cols(0, 1)));
  }
  /// Logits, probabilities and choices alone. In 16 bits, rows of w begin at multiples of 16 bytes.
  void route(view<wide> z, view<wide> p, view<Int> index, view<Scalar const> x, view<Scalar const> w) {
    route({z, p, index, {}, {}, {}, {}, {}, {}, {}, {}, {}, x, w}, {});
  }
  template <class T>
  void gather_cols(view<T> y, view<T const> a, view<Int const> index) {
    cuda_kernels::map<wide>(queue_, y, cuda_kernels::tree_gather_cols<T>{a, index}, false);
  }
  template <class T>
  void scatter_cols(view<T> y, view<T const> a, view<Int const> index) {
    cuda_kernels::map<wide>(queue_, y, cuda_kernels::tree_scatter_cols<T>{a, index}, false);
  }
  void renumber(view<Int> y, view<Int const> a, Index add, Index add_per_row, Index divide = 1) {
    cuda_kernels::map<Int>(queue_, y, cuda_kernels::tree_renumber{a, add, add_per_row, divide}, false);
  }
  template <class T>
  void one_hot(view<T> y, view<Int const> index) {
    cuda_kernels::map<wide>(queue_, y, cuda_kernels::tree_scatter_cols<T>{{}, index}, false);
  }
  template <class T>
  void gather_rows(view<T> y, view<T const> table, view<Int const> index) {
    using number = std::conditional_t<std::is_same_v<T, Int>, Int, wide>;
    cuda_kernels::map<number>(queue_, y, cuda_kernels::tree_gather_rows<T>{table, index}, false);
  }
  template <class T>
  void scatter_rows(view<T> y, view<T const> a, view<Int const> index, bool accumulate) {
    cuda_kernels::scatter_rows<wide>(queue_, y, a, index, accumulate);
  }

  void sequence_numbers(view<Int> y, segments s) { cuda_kernels::sequence_numbers(queue_, y, s); }
  template <class T>
  void window_mean(view<T> y, view<T const> a, segments s, Index window, bool transposed) {
    cuda_kernels::window_mean(queue_, y, a, s, window, transposed);
  }

  void sort_by_expert(view<Int> perm, view<Int> offsets, view<Int const> index, segments s) {
    cuda_kernels::sort_by_expert(queue_, perm, offsets, index, s);
  }
  std::size_t grouped_gemm_scratch(view<Scalar> y, view<Scalar const> x, view<Scalar const> w) {
    return cuda_kernels::grouped_gemm_scratch_bytes(y, x, w);
  }
  void grouped_gemm(view<Scalar> y, view<Scalar const> x, view<Scalar const> w, view<Int const> perm,
                    view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch) {
    cuda_kernels::grouped_gemm(queue_, y, x, w, perm, offsets, slots_per_row, scratch);
  }
  /// FusedExperts, on devices with warpgroup kernels.
  template <class Tree, std::size_t n>
  requires fuses_hidden_layers std::size_t grouped_gemm_map_scratch(view<Scalar> y, Tree const& tree,
                                                                    std::array<view<Scalar>, n> const&,
                                                                    view<Scalar const>,
                                                                    std::array<view<Scalar const>, n> const& w) {
    return cuda_kernels::grouped_gemm_map_scratch_bytes(queue_, y, tree, w);
  }
  /// The products and the tree over them, FusedExperts.
  template <class Tree, std::size_t n>
  requires fuses_hidden_layers void grouped_gemm_map(view<Scalar> y, Tree const& tree,
                                                     std::array<view<Scalar>, n> const& products, view<Scalar const> x,
                                                     std::array<view<Scalar const>, n> const& w, view<Int const> perm,
                                                     view<Int const> offsets, Index slots_per_row,
                                                     std::span<std::byte> scratch) {
    check_scratch("grouped_gemm_map", scratch, cuda_kernels::grouped_gemm_map_scratch_bytes(queue_, y, tree, w));
    cuda_kernels::grouped_gemm_map(queue_, y, tree, products, x, w, perm, offsets, slots_per_row, scratch);
  }
  std::size_t grouped_outer_scratch(view<Scalar> y, view<Scalar const> x, view<Scalar const> g) {
    return cuda_kernels::grouped_outer_scratch_bytes(y, x, g);
  }
  void grouped_outer(view<Scalar> y, view<Scalar const> x, view<Scalar const> g, view<Int const> perm,
                     view<Int const> offsets, Index x_slots, Index g_slots, bool accumulate,
                     std::span<std::byte> scratch) {
    check_scratch("grouped_outer", scratch, grouped_outer_scratch(y, x, g));
    cuda_kernels::grouped_outer(queue_, y, x, g, perm, offsets, x_slots, g_slots, accumulate, scratch);
  }
  std::size_t grouped_sum_scratch(view<Scalar> y, view<Scalar const> x, view<Scalar const> w) {
    return cuda_kernels::grouped_sum_scratch_bytes(queue_, y, x, w);
  }
  void grouped_sum(view<Scalar> y, view<Scalar const> x, view<Scalar const> w, view<Int const> perm,
                   view<Int const> offsets, Index slots_per_row, bool accumulate, std::span<std::byte> scratch) {
    check_scratch("grouped_sum", scratch, grouped_sum_scratch(y, x, w));
    cuda_kernels::grouped_sum(queue_, y, x, w, perm, offsets, slots_per_row, accumulate, scratch);
  }
  /// SumsProductPairs.
  void grouped_sum_pair(view<Scalar> y, std::array<view<Scalar const>, 2> const& x,
                        std::array<view<Scalar const>, 2> const& w, view<Int const> perm, view<Int const> offsets,
                        Index slots_per_row, bool accumulate, std::span<std::byte> scratch) {
    for (std::size_t i = 0; i < 2; ++i) check_scratch("grouped_sum_pair", scratch, grouped_sum_scratch(y, x[i], w[i]));
    cuda_kernels::grouped_sum_pair(queue_, y, x, w, perm, offsets, slots_per_row, accumulate, scratch);
  }
  void apply_capacity(view<Int> y, view<Int const> index, view<Int const> perm, view<Int const> offsets, Index most) {
    cuda_kernels::apply_capacity(queue_, y, index, perm, offsets, most);
  }

  template <class T>
  void absmax_int8(view<T> y, view<T const> a) {
    cuda_kernels::absmax_int8(queue_, y, a);
  }
  template <class T>
  void absmean_ternary(view<T> y, view<T const> a) {
    cuda_kernels::absmean_ternary(queue_, y, a);
  }

  template <class Map>
  std::size_t attention_scratch(attention_forward<Scalar, Map> const& p) {
    return cuda_kernels::attention_scratch_bytes(p);
  }
  template <AttentionMask Mask, class Map>
  void attention(attention_forward<Scalar, Map> const& p, std::span<std::byte> scratch) {
    cuda_kernels::attention<Mask>(queue_, p, scratch);
  }
  /// FusedGatedAttention.
  template <AttentionMask Mask, class Map>
  void gated_attention(attention_forward<Scalar, Map> const& p, view<Scalar> gated, view<wide const> gate,
                       std::span<std::byte> scratch) {
    cuda_kernels::attention<Mask>(
        queue_, p, {cuda_kernels::gate_of_rows(gate, cuda_kernels::heads_of_row(p.extents)), gated}, scratch);
  }
  template <AttentionMask Mask, class Map>
  std::size_t attention_gradient_scratch(attention_backward<Scalar, Map> const& p) {
    return cuda_kernels::attention_gradient_scratch_bytes<Mask>(queue_, p);
  }
  template <AttentionMask Mask, class Map>
  void attention_gradient(attention_backward<Scalar, Map> const& p, std::span<std::byte> scratch) {
    check_scratch("attention_gradient", scratch, attention_gradient_scratch<Mask>(p));
    cuda_kernels::attention_gradient<Mask>(queue_, p, scratch);
  }
  /// FusedGatedAttention.
  template <AttentionMask Mask, class Map>
  void gated_attention_gradient(attention_backward<Scalar, Map> p, view<wide const> gate, view<Scalar const> d,
                                view<Scalar> d_o, view<wide> d_gate, std::span<std::byte> scratch) {
    p.d_o = d_o;
    check_scratch("attention_gradient", scratch, attention_gradient_scratch<Mask>(p));
    cuda_kernels::attention_gradient<Mask>(queue_, p, scratch, {gate, d, d_o, d_gate});
  }
  template <class Map>
  std::size_t attention_bias_gradient_scratch(attention_backward<Scalar, Map> const& p) {
    return cuda_kernels::attention_bias_gradient_scratch_bytes(p);
  }
  template <AttentionMask Mask, class Map>
  void attention_bias_gradient(view<Scalar> d_bias, attention_backward<Scalar, Map> const& p,
                               std::span<std::byte> scratch) {
    check_scratch("attention_bias_gradient", scratch, attention_bias_gradient_scratch(p));
    cuda_kernels::attention_bias_gradient<Mask>(queue_, d_bias, p, scratch);
  }
  template <class Map>
  std::size_t attention_operand_gradient_scratch(attention_backward<Scalar, Map> const& p) {
    return cuda_kernels::attention_operand_gradient_scratch_bytes(p);
  }
  template <AttentionMask Mask, class Map>
  void attention_operand_gradient(operand_gradients<wide, Map::operands> const& d,
                                  attention_backward<Scalar, Map> const& p, std::span<std::byte> scratch) {
    check_scratch("attention_operand_gradient", scratch, attention_operand_gradient_scratch(p));
    cuda_kernels::attention_operand_gradient<Mask>(queue_, d, p, scratch);
  }
  /// A tile of keys lies in one page.
  static constexpr Index cache_rows = cuda_kernels::plain_tile::rows;
  template <class Map>
  std::size_t cached_attention_scratch(attention_forward<Scalar, Map> const& p, attention_cache<Scalar> const& cache) {
    return cuda_kernels::cached_attention_scratch_bytes<Scalar>(p.extents, cache.pages);
  }
  template <AttentionMask Mask, class Map>
  void cached_attention(attention_forward<Scalar, Map> const& p, attention_cache<Scalar> const& cache,
                        std::span<std::byte> scratch) {
    check_scratch("cached_attention", scratch, cached_attention_scratch(p, cache));
    cuda_kernels::cached_attention<Mask>(queue_, p, cache, scratch);
  }
  void cached_window_mean(view<Scalar> y, view<Scalar const> a, segments s, view<Scalar> cache, cache_pages pages,
                          Index window) {
    cuda_kernels::cached_window_mean(queue_, y, a, s, cache, pages, window);
  }
  void rotary(view<Scalar> y, view<Scalar const> a, view<accumulator_t<Scalar> const> theta, row_positions s,
              Index heads, rotation r) {
    cuda_kernels::rotary<wide>(queue_, y, a, theta, s, heads, r);
  }

 private:
  /// An error if the scratch memory is smaller than needed.
  static void check_scratch(char const* kernel, std::span<std::byte> scratch, std::size_t needed) {
    if (scratch.size() < needed) {
      fail(kernel, ": the scratch memory has ", scratch.size(), " bytes, expected ", needed, " or more");
    }
  }

  queue_type queue_;
};

}  // namespace headmix

// SPDX-License-Identifier: MIT
// The products of attention's blocks on one thread, [M, K] times [K, N], as in the kernel: by previously copied panels
// of keys or values, all in cache. Compared with a plain Eigen product of the same operands.
#include "../common.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace {

using namespace bench;

void attention_product(benchmark::State& state) {
  using namespace headmix::cpu_kernels;
  using block = register_block<float>;
  Index const m = state.range(0), depth = state.range(1), n = state.range(2);
  Matrix<float> const a(m, depth), b(depth, n);
  Matrix<float> c(m, n);
  view<float> const y = c.get();
  headmix::AlignedBuffer const memory(static_cast<std::size_t>(depth * n) * sizeof(float));
  auto* const panels = memory.as<float>();
  detail::unpacked_a<detail::strided_rows<float const>> const a_rows{{a.get().data, depth}};
  for (Index j = 0; j < n; j += block::nr) {
    detail::pack_b_panel<float>(panels + depth * j, block::nr, b.get().middle_cols(j, block::nr));
  }
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  matrix const eigen_a = Eigen::Map<matrix const>(a.get().data, m, depth),
               eigen_b = Eigen::Map<matrix const>(b.get().data, depth, n);
  matrix eigen_c(m, n);
  time_calls(
      state,
      [&] {
        for (Index j = 0; j < n; j += block::nr) {
          detail::strided_rows<float> const to{y.data + j, n};
          detail::multiply_panel<float>(m, block::nr, block::vectors, 0, depth, a_rows, panels + depth * j, block::nr,
                                        to, false);
        }
      },
      [&] { eigen_c.noalias() = eigen_a * eigen_b; });
  check_equal<float>("attention_product", y, {eigen_c.data(), m, n}, 1e-5);
  at_most(state, "ratio", 1 / 1.35);
  count_flops(state, 1, 2.0 * static_cast<double>(m * depth * n));
  maximum(state, "peak", 0.95);
}

int const registered = [] {
  add("attention_product/cpu/float", {"M", "K", "N"}, {{64, 64, 64}, {32, 128, 64}}, {1}, attention_product);
  return 0;
}();

}  // namespace

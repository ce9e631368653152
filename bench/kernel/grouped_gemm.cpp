// SPDX-License-Identifier: MIT
// One product per expert, over its rows: `in` reads a row of x once per choice (W_q of MoA), `out` has a separate row
// for every choice (W_o).
#include "../experts.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace {

using namespace bench;

auto grouped_gemm(bool in) {
  return [in](benchmark::State& state) {
    Index const t = state.range(0), d = state.range(1), e = state.range(2), k = state.range(3), h = state.range(4),
                threads = state.range(5);
    Chosen chosen(t, k, e);
    Index const depth = in ? d : h, width = in ? h : d, slots_per_row = in ? k : 1;
    Matrix<float> const x(in ? t : t * k, depth), w(e, depth, width);
    Matrix<float> y(t * k, width);
    Cpu<float> cpu(pool(threads));
    headmix::AlignedBuffer scratch(cpu.grouped_gemm_scratch(y.get(), x.get(), w.get()));
    time_calls(state, [&] {
      cpu.grouped_gemm(y.get(), x.get(), w.get(), chosen.order(), chosen.begins(), slots_per_row, scratch.bytes());
    });
    for (Index s = 0; s < t * k; s += t * k / 5) {  // some slots, each by a separate product
      Matrix<float> expected(1, width);
      headmix::Reference<float>{}.gemm(expected.get(), x.get().middle_rows(s / slots_per_row, 1),
                                       w.get()[chosen.index[static_cast<std::size_t>(s)]], false);
      check_equal<float>("grouped_gemm", y.get().middle_rows(s, 1), expected.get(), 1e-4);
    }
    count_flops(state, threads, 2.0 * static_cast<double>(t * k * d * h));
  };
}

int const registered = [] {
  for (bool const in : {true, false}) {
    add(in ? "grouped_gemm_in/cpu/float" : "grouped_gemm_out/cpu/float", {"T", "D", "E", "K", "H"},
        {{768, 128, 8, 4, 32}, {1024, 512, 32, 8, 128}, {2048, 1024, 16, 8, 64}}, {1, 2}, grouped_gemm(in));
  }
  return 0;
}();

}  // namespace

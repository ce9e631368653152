// SPDX-License-Identifier: MIT
// The gradient of one weight matrix per expert: dw_e = x^T dy over the rows of expert e.
#include "../experts.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace {

using namespace bench;

void grouped_outer(benchmark::State& state) {
  Index const t = state.range(0), d = state.range(1), e = state.range(2), k = state.range(3), h = state.range(4),
              threads = state.range(5);
  Chosen chosen(t, k, e);
  Matrix<float> const x(t, d), dy(t * k, h);
  Matrix<float> dw(e, d, h);
  Cpu<float> cpu(pool(threads));
  headmix::AlignedBuffer scratch(cpu.grouped_outer_scratch(dw.get(), x.get(), dy.get()));
  time_calls(state, [&] {
    cpu.grouped_outer(dw.get(), x.get(), dy.get(), chosen.order(), chosen.begins(), k, 1, false, scratch.bytes());
  });
  Matrix<float> expected(e, 2, h);  // the first two rows of every expert's matrix
  headmix::Reference<float>{}.grouped_outer(expected.get(), view<float const>(x.get()).middle_cols(0, 2), dy.get(),
                                            chosen.order(), chosen.begins(), k, 1, false, {});
  for (Index i = 0; i < e; ++i) {
    check_equal<float>("grouped_outer", dw.get()[i].middle_rows(0, 2), expected.get()[i], 1e-4);
  }
  count_flops(state, threads, 2.0 * static_cast<double>(t * k * d * h));
}

int const registered = [] {
  add("grouped_outer/cpu/float", {"T", "D", "E", "K", "H"},
      {{768, 128, 8, 4, 32}, {1024, 512, 32, 8, 128}, {2048, 1024, 16, 8, 64}}, {1, 2}, grouped_outer);
  return 0;
}();

}  // namespace

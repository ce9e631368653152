// SPDX-License-Identifier: MIT
// Products with packed ternary weights and 8-bit activations, one matrix per expert, compared with products in float: T
// rows of width D choose K of E experts of width H. Both count the same FLOPs.
#include "../experts.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace {

using namespace bench;

auto products(bool packed) {
  return [packed](benchmark::State& state) {
    Index const t = state.range(0), d = state.range(1), e = state.range(2), k = state.range(3), h = state.range(4),
                threads = state.range(5);
    Chosen chosen(t, k, e);
    Matrix<float> const x(t, d), w(e, d, h);
    Matrix<float> y(t * k, h);
    Index const words = headmix::packed_ternary::words(d, h);
    std::vector<Int> memory(static_cast<std::size_t>(e * words));
    view<Int const> const codes(memory.data(), e, 1, words);
    for (Index i = 0; i < e; ++i) headmix::packed_ternary::pack(memory.data() + i * words, w.get()[i]);
    Cpu<float> cpu(pool(threads));
    headmix::AlignedBuffer scratch((std::max)(cpu.grouped_gemm_scratch(y.get(), x.get(), w.get()),
                                              cpu.packed_gemm_scratch(y.get(), x.get(), codes)));
    time_calls(state, [&] {
      if (packed) {
        cpu.packed_gemm(y.get(), x.get(), codes, chosen.order(), chosen.begins(), k, scratch.bytes());
      } else {
        cpu.grouped_gemm(y.get(), x.get(), w.get(), chosen.order(), chosen.begins(), k, scratch.bytes());
      }
    });
    for (Index s = 0; packed && s < t * k; s += t * k / 5) {  // some slots, each by a separate product
      Matrix<float> expected(1, h);
      headmix::Reference<float>{}.packed_gemm(expected.get(), x.get().middle_rows(s / k, 1),
                                              codes[chosen.index[static_cast<std::size_t>(s)]], {}, {}, 1, {});
      check_equal<float>("packed_gemm", y.get().middle_rows(s, 1), expected.get(), 1e-6);
    }
    count_flops(state, threads, 2.0 * static_cast<double>(t * k * d * h));
  };
}

int const registered = [] {
  for (bool const packed : {false, true}) {
    add(packed ? "ternary_products/cpu/packed" : "ternary_products/cpu/float", {"T", "D", "E", "K", "H"},
        {{4096, 512, 16, 2, 1024}, {4096, 1024, 16, 2, 512}, {16, 512, 16, 2, 1024}}, {1, 2}, products(packed));
  }
  return 0;
}();

}  // namespace

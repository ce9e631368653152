// SPDX-License-Identifier: MIT
// The sum over the experts of a row, without storing a row per choice: `out` is W_o of MoH, whose matrices lie below
// each other; `in` is the gradient of the input of W_q, whose matrices lie side by side and are read transposed. `gemm`
// is one dense product with as many multiply-adds.
#include "../experts.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace {

using namespace bench;

auto grouped_sum(bool in) {
  return [in](benchmark::State& state) {
    Index const t = state.range(0), d = state.range(1), e = state.range(2), k = state.range(3), h = state.range(4),
                threads = state.range(5);
    Chosen chosen(t, k, e);
    Matrix<float> const x(t * k, h), whole(in ? d : e * h, in ? e * h : d);
    view<float const> w = whole.get();
    w.count = e;
    if (in) {
      w.cols = w.stack_stride = h;
      w = w.transposed();
    } else {
      w.rows = h;
      w.stack_stride = h * d;
    }
    Matrix<float> y(t, d);
    Cpu<float> cpu(pool(threads));
    headmix::AlignedBuffer scratch(cpu.grouped_sum_scratch(y.get(), x.get(), w));
    time_calls(state, [&] {
      cpu.grouped_sum(y.get(), x.get(), w, chosen.order(), chosen.begins(), k, false, scratch.bytes());
    });
    for (Index r = 0; r < t; r += t / 5) {  // some rows, slot by slot
      Matrix<float> expected(1, d);
      for (Index s = r * k; s < (r + 1) * k; ++s) {
        headmix::Reference<float>{}.gemm(expected.get(), x.get().middle_rows(s, 1),
                                         w[chosen.index[static_cast<std::size_t>(s)]], s > r * k);
      }
      check_equal<float>("grouped_sum", y.get().middle_rows(r, 1), expected.get(), 1e-4);
    }
    count_flops(state, threads, 2.0 * static_cast<double>(t * k * d * h));
  };
}

/// x [t, k h] times w [k h, d], or times w^T where w is [d, k h].
auto gemm(bool in) {
  return [in](benchmark::State& state) {
    Index const t = state.range(0), d = state.range(1), depth = state.range(3) * state.range(4),
                threads = state.range(5);
    Matrix<float> const x(t, depth), whole(in ? d : depth, in ? depth : d);
    view<float const> const w = in ? whole.get().transposed() : whole.get();
    Matrix<float> y(t, d), expected(2, d);
    Cpu<float> cpu(pool(threads));
    time_calls(state, [&] { cpu.gemm(y.get(), x.get(), w, false); });
    headmix::Reference<float>{}.gemm(expected.get(), x.get().middle_rows(t - 2, 2), w, false);
    check_equal<float>("gemm", y.get().middle_rows(t - 2, 2), expected.get(), 1e-4);
    count_flops(state, threads, 2.0 * static_cast<double>(t * d * depth));
  };
}

int const registered = [] {
  std::vector<std::string> const sizes = {"T", "D", "E", "K", "H"};
  std::vector<std::vector<std::int64_t>> const shapes = {{2048, 1024, 16, 8, 64}, {1024, 512, 32, 8, 128}};
  for (bool const in : {true, false}) {
    std::string const op = in ? "grouped_sum_in" : "grouped_sum_out";
    add(op + "/cpu/float", sizes, shapes, {1, 2}, grouped_sum(in));
    add(op + "_gemm/cpu/float", sizes, shapes, {1, 2}, gemm(in));
  }
  return 0;
}();

}  // namespace

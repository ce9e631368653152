#pragma once
// SPDX-License-Identifier: MIT
// Whole layers on Hopper: the backend selects kernels, and most have shapes for warpgroups here.

#include "cuda/check_layer.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"

namespace layers_test {

template <class L>
void check(batch const& b, Index rows) {
  check_rounded_layer<L>(b, rows, outcome<L>(Reference<double>(), b, rows));
}

TEST_CASE("layers by warpgroups, MoA [slow]") {
  std::vector<Int> const offsets{0, 40, 40, 70};
  check<Moa<192, 128, GivenTopK<4, 2>, causal>>(ragged(offsets.data(), 3), 70);
}
TEST_CASE("layers by warpgroups, grouped-query attention [slow]") {
  check<MultiHead<128, 4, 64, causal, kv_heads<2>>>(uniform(2, 70), 140);
}
TEST_CASE("layers by warpgroups, MoH [slow]") {
  std::vector<Int> const offsets{0, 40, 40, 70};
  check<Moh<128, 64, GivenTopK<4, 2>, causal>>(ragged(offsets.data(), 3), 70);
}

/// Without the kernel that makes a hidden layer.
struct StepByStep : Cuda<bfloat16, test_device> {
  void grouped_gemm_map() = delete;
};
static_assert(FusedExperts<Cuda<bfloat16, test_device>> && !FusedExperts<StepByStep>);

/// The result without a backward pass: hidden layers keep nothing of their products then.
template <class L, class Backend>
std::vector<double> inferred(Index rows) {
  Backend backend;
  Module<L, Backend, inference> m(5, backend);
  std::uint64_t stream = 0;
  for (auto const& p : m.parameters()) {
    auto const values = random_numbers<bfloat16>(p.value.size(), ++stream);
    upload(backend, p.value.data, values.data(), values.size());
  }
  Index const width = L::model_dim::value;
  device_array<bfloat16, test_device> const x(backend.queue(), random_numbers<bfloat16>(rows * width, 100));
  auto const y = m.forward(x.matrix(rows, width));
  std::vector<bfloat16> host(static_cast<std::size_t>(y.size()));
  download(backend, host.data(), y.data, host.size());
  return converted<double>(host);
}

TEST_CASE("layers by warpgroups, MH-MoE, whose hidden layers are those step by step") {
  using L = MhMoe<192, 3, GivenTopK<5, 2>, FeedForward<72>>;
  batch const b = uniform(1, 67);
  auto const expected = outcome<L>(StepByStep(), b, 67);
  check_same(outcome<L>(Cuda<bfloat16, test_device>(), b, 67), expected, 1e-300);
  check_rounded_layer<L>(b, 67, outcome<L>(Reference<double>(), b, 67));
}
TEST_CASE("layers by warpgroups, hidden layers for inference") {
  using Gated = MhMoe<192, 3, SoftmaxTopK<5, 2>, FeedForward<136>>;
  using Plain = MhMoe<192, 3, SoftmaxTopK<5, 2>, FeedForward<72, activation::gelu>>;
  CHECK(inferred<Gated, Cuda<bfloat16, test_device>>(67) == inferred<Gated, StepByStep>(67));
  CHECK(inferred<Plain, Cuda<bfloat16, test_device>>(67) == inferred<Plain, StepByStep>(67));
}

}  // namespace layers_test

// SPDX-License-Identifier: MIT
// Layers with fused steps against separate steps, emulated. On a GPU the tests of layers compare the fused ones with
// the reference.

#include <doctest/doctest.h>

#include <vector>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/program/module.hpp"
#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

namespace fused_test {

using namespace headmix;
using testing::device_array;
using testing::relative_error;

struct learned_slope : score_map {
  template <Extent E>
  struct slope : param<E> {};
  template <Expr S, Extent E>
  static constexpr auto f(S s, E) {
    return s - square(upcast(slope<E>{})) * abs(query_position{} - key_position{});
  }
};

/// Without the kernels that do several steps at once.
template <class T>
struct Unfused : Cuda<T, test_device> {
  void route() = delete;
  void gated_attention() = delete;
  void gated_attention_gradient() = delete;
  void each_row() = delete;
  void gemm_stack() = delete;
};
static_assert(FusedRoute<Cuda<float, test_device>> && !FusedRoute<Unfused<float>>);
static_assert(FusedGatedAttention<Cuda<float, test_device>> && !FusedGatedAttention<Unfused<float>>);
static_assert(FusedRows<Cuda<float, test_device>> && !FusedRows<Unfused<float>>);
static_assert(StackedProducts<Cuda<float, test_device>> && !StackedProducts<Unfused<float>>);

/// The result, and for training the losses and the gradients of the input and of all parameters.
template <class L, class Mode = training, class Backend>
std::vector<std::vector<double>> outcome(Backend backend, batch const& b, Index rows) {
  using T = typename Backend::scalar;
  [[maybe_unused]] testing::strict_scope<test_device> const strict;
  Module<L, Backend, Mode> m(5, backend);
  std::uint64_t stream = 20;
  for (auto const& p : m.parameters()) {
    auto const values = testing::random_numbers<T>(p.value.size(), ++stream);
    upload(backend, p.value.data, values.data(), values.size());
  }
  Index const width = L::model_dim::value;
  device_array<T, test_device> const x(backend.queue(), testing::random_numbers<T>(rows * width, 1)),
      dy(backend.queue(), testing::random_numbers<T>(rows * width, 2));
  std::vector<std::vector<double>> all;
  auto const keep = [&](view<T const> v) {
    std::vector<T> host(static_cast<std::size_t>(v.size()));
    download(backend, host.data(), v.data, host.size());
    all.push_back(testing::converted<double>(host));
  };
  keep(m.forward(x.matrix(rows, width), b));
  if constexpr (std::is_same_v<Mode, training>) {
    if constexpr (L::losses::size == 2) {
      all.push_back({m.template loss<0>(), m.template loss<1>()});
      m.backward(dy.matrix(rows, width), {0.1, 0.2});
    } else {
      all.push_back({m.template loss<0>()});
      m.backward(dy.matrix(rows, width), {0.1});
    }
    keep(m.input_gradient());
    for (auto const& p : m.parameters()) keep(p.gradient);
  }
  return all;
}
/// @param fewer steps than without fusion
template <class T, class L, class Mode = training>
void check(batch const& b, Index rows, int fewer) {
  using steps = typename Module<L, Unfused<T>, Mode>::program_type::steps;
  CHECK(detail::fuse<Cuda<T, test_device>, steps>::size == steps::size - fewer);
  auto const found = outcome<L, Mode>(Cuda<T, test_device>(), b, rows);
  auto const expected = outcome<L, Mode>(Unfused<T>(), b, rows);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(found[i], expected[i]) <= (std::is_same_v<T, float> ? 1e-6 : 1e-2));
  }
}

TEST_CASE("MoA with its fused steps equals MoA step by step") {
  std::vector<Int> const offsets{0, 13, 13, 70};
  check<bfloat16, Moa<64, 64, SoftmaxTopK<8, 2>, causal>>(ragged(offsets.data(), 3), 70, 11);
}
TEST_CASE("MoA with its fused steps, without tensor cores and with several heads of an expert") {
  using L = Moa<12, 5, SoftmaxTopK<5, 3>, causal, kv_heads<2>, padded>;
  std::vector<std::uint8_t> real(2 * 17, 1);
  real[0] = real[5] = real[33] = 0;
  check<float, L>(Padding(view<std::uint8_t const>(real.data(), 2, 17)), 34, 11);
  for (Index const n : {0, 1}) check<float, Moa<12, 5, SoftmaxTopK<5, 3>, causal, kv_heads<2>>>(uniform(1, n), n, 11);
}
TEST_CASE("MoA with its fused steps for inference") {
  check<bfloat16, Moa<64, 64, SoftmaxTopK<8, 2>, causal>, inference>(uniform(2, 35), 70, 9);
}
TEST_CASE("MoA with its fused steps and score maps equals MoA step by step") {
  check<bfloat16, Moa<64, 64, SoftmaxTopK<8, 2>, causal, soft_cap<2>, learned_slope>>(uniform(2, 25), 50, 11);
}
TEST_CASE("MoH with its fused steps and score maps equals MoH step by step") {
  check<float, Moh<12, 5, TwoStage<2, 6, 2>, causal, alibi, soft_cap<2>, learned_slope>>(uniform(2, 9), 18, 9);
}
TEST_CASE("MoH with its fused steps equals MoH step by step") {
  std::vector<Int> const offsets{0, 13, 13, 33};
  check<bfloat16, Moh<64, 64, TwoStage<2, 6, 2>, causal>>(ragged(offsets.data(), 3), 33, 9);
  check<bfloat16, Moh<64, 64, TwoStage<2, 6, 2>, causal, dense_projections>>(ragged(offsets.data(), 3), 33, 9);
}

}  // namespace fused_test

#pragma once
// SPDX-License-Identifier: MIT
// Whole layers on a device: see cuda/check_layer.hpp.

#include "cuda/check_layer.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/train/adamw.hpp"

namespace layers_test {

TEST_CASE("MoA with every option") {
  using L = Moa<24, 16, GivenTopK<6, 3>, causal, query_bias, value_bias, output_bias, kv_heads<2>, rope<10000>, padded,
                probability_dropout<1, 10>, output_dropout<1, 10>>;
  std::vector<std::uint8_t> real(2 * 17, 1);
  real[0] = real[5] = real[33] = 0;
  Padding const padding(view<std::uint8_t const>(real.data(), 2, 17));
  check_layer<L>(padding, 34);
}
TEST_CASE("MoA whose products are for tensor cores, over ragged sequences [slow]") {
  using L = Moa<64, 64, GivenTopK<4, 2>, causal>;
  std::vector<Int> const offsets{0, 40, 40, 131};
  check_layer<L>(ragged(offsets.data(), 3), 131);
}
TEST_CASE("MoA over another input") {
  using L = Moa<16, 8, GivenTopK<5, 2>, context_dim<12>, query_bias, value_bias>;
  std::vector<Int> const offsets{0, 3, 9}, context_offsets{0, 7, 8};
  batch const memory = ragged(context_offsets.data(), 2);
  check_layer<L>(ragged(offsets.data(), 2), 9, &memory, Index{8});
}
TEST_CASE("grouped-query attention") { check_layer<MultiHead<48, 4, 64, causal, kv_heads<2>>>(uniform(2, 33), 66); }
TEST_CASE("MoA over no token, and over one") {
  using L = Moa<8, 8, GivenTopK<4, 2>, causal>;
  for (Index const n : {0, 1}) {
    CAPTURE(n);
    check_same(outcome<L>(Cuda<float, test_device>(), uniform(1, n), n),
               outcome<L>(Reference<double>(), uniform(1, n), n), 1e-5);
  }
}

/// Numbers of any kind that bfloat16 holds exactly.
template <class T>
std::vector<T> exact_numbers(std::size_t n, std::uint64_t stream) {
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i)
    v[i] = static_cast<T>(static_cast<float>(bfloat16(Random(1, stream).uniform(i) - 0.5)));
  return v;
}
constexpr Index routed_rows = 90, routed_width = 24, routed_experts = 8, routed_choices = 3;

/// Which experts a layer's own router chooses.
template <class Backend>
std::vector<Int> chosen_experts(Backend backend) {
  using S = typename Backend::scalar;
  using L = Moa<routed_width, 8, SoftmaxTopK<routed_experts, routed_choices>>;
  Module<L, Backend> m(5, backend);
  auto const x = exact_numbers<S>(routed_rows * routed_width, 0),
             w = exact_numbers<S>(routed_width * routed_experts, 1);
  upload(backend, m.template get<typename L::r::W_g>().value.data, w.data(), w.size());
  backend_memory<Backend> memory(x.size() * sizeof(S));
  upload(backend, memory.template as<S>(), x.data(), x.size());
  m.forward(view<S const>(memory.template as<S>(), routed_rows, routed_width));
  std::vector<Int> host(static_cast<std::size_t>(routed_rows * routed_choices));
  download(backend, host.data(), m.observed().data, host.size());
  return host;
}
TEST_CASE_TEMPLATE("routers choose the reference's experts where the logits differ by more than 1e-2", T, float,
                   bfloat16) {
  auto const expected = chosen_experts(Reference<double>()), found = chosen_experts(Cuda<T, test_device>());
  auto const x = exact_numbers<double>(routed_rows * routed_width, 0),
             w = exact_numbers<double>(routed_width * routed_experts, 1);
  Index compared = 0;
  for (Index i = 0; i < routed_rows; ++i) {
    std::vector<double> logits(routed_experts);
    for (Index e = 0; e < routed_experts; ++e) {
      for (Index c = 0; c < routed_width; ++c) {
        logits[static_cast<std::size_t>(e)] +=
            x[static_cast<std::size_t>(i * routed_width + c)] * w[static_cast<std::size_t>(c * routed_experts + e)];
      }
    }
    std::sort(logits.rbegin(), logits.rend());
    if (logits[0] - logits[1] < 1e-2 || logits[1] - logits[2] < 1e-2 || logits[2] - logits[3] < 1e-2) continue;
    ++compared;
    for (Index k = 0; k < routed_choices; ++k) {
      auto const slot = static_cast<std::size_t>(i * routed_choices + k);
      CHECK(found[slot] == expected[slot]);
    }
  }
  CHECK(compared > routed_rows / 2);
}

TEST_CASE_TEMPLATE("AdamW on the device takes the steps that it takes on the host", T, float, bfloat16) {
  using Device = Cuda<T, test_device>;
  [[maybe_unused]] strict_scope<test_device> const strict;
  auto const start = exact_numbers<T>(6 * 50 + 50, 3), slope = exact_numbers<T>(start.size(), 4);
  auto const parameters = [](T* v, T* g) {
    return std::vector<parameter<T>>{{"W", {v, 6, 50}, {g, 6, 50}}, {"b", {v + 300, 1, 50}, {g + 300, 1, 50}}};
  };
  for (auto const narrow : {narrow_parameters::master_weights, narrow_parameters::stochastic_rounding}) {
    Device device;
    std::vector<T> value = start, gradient = slope;
    device_array<T, test_device> device_value(device.queue(), start), device_gradient(device.queue(), slope);
    AdamW<T> on_host(parameters(value.data(), gradient.data()), {.narrow = narrow});
    AdamW<T, Device> on_device(parameters(device_value.data(), device_gradient.data()), {.narrow = narrow}, device);
    for (int step = 0; step < 3; ++step) {
      double const scale = clip_scale(on_host.parameters(), 0.5);
      CHECK(std::abs(on_device.clip_scale(0.5) - scale) < 1e-6 * scale);
      on_host.step(1e-2, scale);
      on_device.step(1e-2, scale);
    }
    auto const expected = converted<double>(value);
    CHECK(relative_error(converted<double>(device_value.get()), expected) < (std::is_same_v<T, float> ? 1e-6 : 1e-3));
    CHECK(relative_error(converted<double>(start), expected) > 1e-3);
  }
}

}  // namespace layers_test

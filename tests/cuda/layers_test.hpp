#pragma once
// SPDX-License-Identifier: MIT
// Whole layers on a device against the reference over double: results, gradients and losses. Both get the same numbers,
// which bfloat16 holds exactly, and the same selection, since a rounded probability may choose another expert. Whoever
// includes this names the device by `using test_device = ...;` at global scope.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/tape/module.hpp"
#include "headmix/train/adamw.hpp"

namespace layers_test {

using namespace headmix;
using namespace headmix::testing;

/// The router of MoA, except that somebody else has chosen.
template <Index Experts, Index TopK>
struct GivenTopK {
  struct E : size<Experts> {};
  struct K : size<TopK> {};
  struct index_leaf : selection<tokens, K, E> {};
  template <Expr X>
  struct route {
    struct W_g : router_param<cols<X>, E> {};
    static constexpr auto z = wide(X{} % W_g{});
    static constexpr auto p = softmax(z);
    static constexpr auto index = index_leaf{};
    static constexpr auto gate = gating::detached::weights(take(p, index));
    using losses = type_list<std::remove_cv_t<decltype(load_balance(p, index))>, std::remove_cv_t<decltype(z_loss(z))>>;
  };
};

/// Rows of distinct choices; the last expert is never chosen.
inline std::vector<Int> distinct_choices(Index rows, Index k, Index experts) {
  std::vector<Int> chosen, order(static_cast<std::size_t>(experts > k ? experts - 1 : experts));
  for (Index i = 0; i < rows; ++i) {
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t j = order.size(); j > 1; --j) {
      std::swap(order[j - 1], order[Random(17, static_cast<std::uint64_t>(i)).below(j, j)]);
    }
    chosen.insert(chosen.end(), order.begin(), order.begin() + k);
  }
  return chosen;
}

/// What a layer computes, by name.
using Outcome = std::map<std::string, std::vector<double>>;

template <class L, class Backend>
Outcome outcome(Backend backend, batch const& x_batch, Index rows, batch const* memory_batch = nullptr,
                Index memory_rows = 0) {
  using T = typename Backend::scalar;
  [[maybe_unused]] strict_scope<test_device> const strict;
  Module<L, Backend> m(5, backend);
  m.set_randomness(randomness(7, 1, 2));
  auto const numbers = [&](Index n, std::uint64_t stream) {
    std::vector<T> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = static_cast<T>(static_cast<float>(bfloat16(Random(3, stream).uniform(i) - 0.5)));
    }
    return v;
  };
  std::uint64_t stream = 0;
  for (auto const& p : m.parameters()) {
    auto const v = numbers(p.value.size(), stream++);
    upload(backend, p.value.data, v.data(), v.size());
  }
  std::vector<backend_memory<Backend>> owned;
  auto const on_device = [&]<class U>(std::vector<U> const& v) {
    U* const p = owned.emplace_back(v.size() * sizeof(U)).template as<U>();
    upload(backend, p, v.data(), v.size());
    return p;
  };
  Index const width = m.tape().template extent<typename L::D>();
  view<T const> const x(on_device(numbers(rows * width, 100)), rows, width);
  view<T const> const dy(on_device(numbers(rows * width, 101)), rows, width);
  if constexpr (requires { typename L::r; }) {
    using R = std::remove_cvref_t<decltype(L::r::index)>;
    if constexpr (Leaf<R>) {
      Index const k = cols<R>::value, tokens_in = x_batch.sequences.rows;
      m.tape().bind(R{}, {on_device(distinct_choices(tokens_in, k, domain<R>::value)), tokens_in, k});
    }
  }
  view<T const> y;
  if constexpr (requires { requires L::cross; }) {
    view<T const> const memory(on_device(numbers(memory_rows * L::M::value, 102)), memory_rows, L::M::value);
    y = m.forward(x, x_batch, memory, *memory_batch);
  } else {
    y = m.forward(x, x_batch);
  }
  Outcome result;
  auto const keep = [&](std::string name, view<T const> v) {
    std::vector<T> host(static_cast<std::size_t>(v.size()));
    download(backend, host.data(), v.data, host.size());
    result[name] = converted<double>(host);
  };
  keep("y", y);
  if constexpr (L::losses::size == 2) {
    result["losses"] = {m.template loss<0>(), m.template loss<1>()};
    m.backward(dy, {0.1, 0.2});
  } else {
    m.backward(dy);
  }
  for (auto const& p : m.parameters()) keep("d " + std::string(p.name), p.gradient);
  keep("d x", m.input_gradient());
  if constexpr (requires { requires L::cross; }) keep("d memory", m.memory_gradient());
  return result;
}

inline void check_same(Outcome const& found, Outcome const& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (auto const& entry : expected) {
    std::string const& name = entry.first;  // clang 14 captures no structured bindings
    std::vector<double> const& numbers = entry.second;
    CAPTURE(name);
    CHECK(relative_error(found.at(name), numbers) < tolerance);
  }
}

/// The layer on the device, in every storage type, over the same rows.
template <class L, class... Memory>
void check_layer(batch const& b, Index rows, Memory... memory) {
  auto const expected = outcome<L>(Reference<double>(), b, rows, memory...);
  SUBCASE("double") { check_same(outcome<L>(Cuda<double, test_device>(), b, rows, memory...), expected, 1e-10); }
  SUBCASE("float") { check_same(outcome<L>(Cuda<float, test_device>(), b, rows, memory...), expected, 1e-5); }
  SUBCASE("bfloat16") {
    // As exact as bfloat16 storage allows: what the reference loses with it is the measure.
    auto const rounded = outcome<L>(Reference<bfloat16>(), b, rows, memory...);
    auto const found = outcome<L>(Cuda<bfloat16, test_device>(), b, rows, memory...);
    for (auto const& entry : expected) {
      std::string const& name = entry.first;  // clang 14 captures no structured bindings
      std::vector<double> const& numbers = entry.second;
      CAPTURE(name);
      double const error = relative_error(found.at(name), numbers), storage = relative_error(rounded.at(name), numbers);
      CAPTURE(storage);
      CHECK(error < std::max(1e-2, 1.5 * storage));
    }
  }
}

TEST_CASE("MoA with every option") {
  using L = Moa<24, 16, GivenTopK<6, 3>, causal, query_bias, value_bias, output_bias, kv_heads<2>, rope<10000>, padded,
                probability_dropout<1, 10>, output_dropout<1, 10>>;
  std::vector<std::uint8_t> real(2 * 17, 1);
  real[0] = real[5] = real[33] = 0;
  Padding const padding(view<std::uint8_t const>(real.data(), 2, 17));
  check_layer<L>(padding, 34);
}
TEST_CASE("MoA whose products are for tensor cores, over ragged sequences") {
  using L = Moa<64, 64, GivenTopK<4, 2>, causal>;
  std::vector<Int> const offsets{0, 40, 40, 131};
  check_layer<L>(ragged(offsets.data(), 3), 131);
}
TEST_CASE("MoA over another input") {
  using L = Moa<16, 8, GivenTopK<5, 2>, memory_width<12>, query_bias, value_bias>;
  std::vector<Int> const offsets{0, 3, 9}, memory_offsets{0, 7, 8};
  batch const memory = ragged(memory_offsets.data(), 2);
  check_layer<L>(ragged(offsets.data(), 2), 9, &memory, Index{8});
}
TEST_CASE("grouped-query attention") { check_layer<MultiHead<48, 4, 64, causal, 2>>(uniform(2, 33), 66); }
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

TEST_CASE("AdamW on the device takes the steps that it takes on the host") {
  using Device = Cuda<float, test_device>;
  [[maybe_unused]] strict_scope<test_device> const strict;
  Device device;
  auto const start = exact_numbers<float>(6 * 50 + 50, 3), slope = exact_numbers<float>(start.size(), 4);
  std::vector<float> value = start, gradient = slope;
  device_array<float, test_device> device_value(device.queue(), start), device_gradient(device.queue(), slope);
  auto const parameters = [](float* v, float* g) {
    return std::vector<parameter<float>>{{"W", {v, 6, 50}, {g, 6, 50}}, {"b", {v + 300, 1, 50}, {g + 300, 1, 50}}};
  };
  AdamW<float> on_host(parameters(value.data(), gradient.data()));
  AdamW<float, Device> on_device(parameters(device_value.data(), device_gradient.data()), {}, device);
  for (int step = 0; step < 3; ++step) {
    double const scale = clip_scale(on_host.parameters(), 0.5);
    CHECK(std::abs(on_device.clip_scale(0.5) - scale) < 1e-6 * scale);
    on_host.step(1e-2, scale);
    on_device.step(1e-2, scale);
  }
  CHECK(relative_error(device_value.get(), value) < 1e-6);
  CHECK(relative_error(start, value) > 1e-3);
}

}  // namespace layers_test

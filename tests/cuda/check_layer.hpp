#pragma once
// SPDX-License-Identifier: MIT
// A whole layer on a device against the reference over double: results, gradients and losses. Both get equal numbers,
// which are exact in bfloat16, and equal selections, since a rounded probability may choose another expert. A file that
// includes this names the device by `using test_device = ...;` at global scope.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/program/module.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace layers_test {

using namespace headmix;
using namespace headmix::testing;

/// The router of MoA, except that somebody else has chosen.
template <Index Experts, Index TopK>
struct GivenTopK {
  struct experts : size<Experts> {};
  struct top_k : size<TopK> {};
  template <Expr X>
  struct route {
    struct index_leaf : selection<rows<X>, top_k, experts> {};
    struct W_g : router_param<cols<X>, experts> {};
    static constexpr auto z = upcast(X{} % W_g{});
    static constexpr auto p = softmax(z);
    static constexpr auto index = index_leaf{};
    static constexpr auto gate = gating::detached::weights(gather_cols(p, index));
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

/// The results of a layer, by name.
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
  Index const width = m.program().template extent<cols<typename L::x>>();
  view<T const> const x(on_device(numbers(rows * width, 100)), rows, width);
  view<T const> const dy(on_device(numbers(rows * width, 101)), rows, width);
  if constexpr (requires { typename L::of::expert; }) {
    using R = typename L::of::expert;  // an expert for each sequence
    Index const n = x_batch.sequences.count;
    m.program().bind(R{}, {on_device(distinct_choices(n, 1, domain<R>::value)), n, 1});
  }
  if constexpr (requires { L::r::index; }) {
    using R = std::remove_cvref_t<decltype(L::r::index)>;
    if constexpr (Leaf<R>) {
      m.program().bind_tokens(uniform(1, x_batch.sequences.rows));
      Index const k = cols<R>::value, n = m.program().template extent<headmix::rows<R>>();
      m.program().bind(R{}, {on_device(distinct_choices(n, k, domain<R>::value)), n, k});
    }
  }
  view<T const> y;
  if constexpr (requires { requires L::cross; }) {
    view<T const> const memory(on_device(numbers(memory_rows * L::context_dim::value, 102)), memory_rows,
                               L::context_dim::value);
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
  if constexpr (requires { requires L::cross; }) keep("d memory", m.context_gradient());
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

/// The layer on the device over bfloat16, as exact as that allows: what the reference loses with it is the measure.
template <class L, class... Memory>
void check_rounded_layer(batch const& b, Index rows, Outcome const& expected, Memory... memory) {
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

/// The layer on the device, in every storage type, over the same rows.
/// @tparam Rounds the layer rounds to few bits: next to a tie a rounding error of float makes a whole step
template <class L, bool Rounds = false, class... Memory>
void check_layer(batch const& b, Index rows, Memory... memory) {
  auto const expected = outcome<L>(Reference<double>(), b, rows, memory...);
  SUBCASE("double") { check_same(outcome<L>(Cuda<double, test_device>(), b, rows, memory...), expected, 1e-10); }
  SUBCASE("float") {
    check_same(outcome<L>(Cuda<float, test_device>(), b, rows, memory...), expected, Rounds ? 3e-3 : 1e-5);
  }
  SUBCASE("bfloat16") { check_rounded_layer<L>(b, rows, expected, memory...); }
}

}  // namespace layers_test

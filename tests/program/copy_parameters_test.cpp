// SPDX-License-Identifier: MIT
// Copies of parameters from one module to another.

#include "headmix/program/copy_parameters.hpp"

#include <algorithm>
#include <filesystem>
#include <string>

#include "../difference.hpp"
#include "../error_of.hpp"
#include "../test_program.hpp"
#include "headmix/io/checkpoint.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace copy_parameters_test {

using namespace headmix;
using namespace headmix::test;

namespace {

using Dense = MultiHead<6, 6, 4, causal, kv_heads<2>, query_bias, output_bias, rope<>>;
template <Index Routed, Index TopK, class... Options>
using Sparse =
    Moh<6, 4, QueryNorm<6 - Routed, Routed, TopK, Options...>, causal, kv_heads<2>, query_bias, output_bias, rope<>>;

/// A learned score map as on the page on layers.
struct far_is_less : score_map {
  template <Extent Heads>
  struct slope : bias_param<Heads> {};
  static constexpr auto f(auto s, auto heads) {
    return s - slope<decltype(heads)>{} * abs(query_position{} - key_position{});
  }
};

std::vector<double> wave(Index rows) {
  std::vector<double> x(static_cast<std::size_t>(6 * rows));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.7 * static_cast<double>(i + 1));
  return x;
}

}  // namespace

TEST_CASE("copied parameters: multi-head attention as a mixture of heads") {
  Module<Dense, Reference<double>> dense(3);
  Module<Sparse<4, 4>, Reference<double>> all(4);
  Module<Sparse<4, 1>, Reference<double>> some(5);
  Module<Sparse<4, 1>, Reference<double>, inference> inferred(6);
  for (auto const& p : dense.parameters()) {
    for (Index i = 0; i < p.value.size(); ++i) p.value.data[i] += 0.1 * std::cos(static_cast<double>(i));
  }
  copy_parameters(dense, all);
  copy_parameters(dense, some);
  copy_parameters(some, inferred);
  auto const numbers = wave(7);
  view<double const> const x(numbers.data(), 7, 6);
  auto const y = dense.forward(x, uniform(1, 7));
  CHECK(largest_difference(all.forward(x, uniform(1, 7)), y) < 1e-12);
  auto const of_some = some.forward(x, uniform(1, 7));
  CHECK(largest_difference(of_some, y) > 1e-3);
  CHECK(largest_difference(inferred.forward(x, uniform(1, 7)), of_some) < 1e-14);
}
TEST_CASE("copied parameters: what does not fit") {
  Module<Dense, Reference<double>> dense(3);
  Module<MultiHead<6, 6, 4, kv_heads<2>, query_bias>, Reference<float>> without_bias(3);
  CHECK(error_of([&] { copy_parameters(dense, without_bias); }) ==
        "headmix: copy_parameters: b_o is not among the parameters that are copied to");
  Module<MultiHead<6, 6, 4, kv_heads<3>, query_bias, output_bias>, Reference<float>> other(3);
  CHECK(error_of([&] { copy_parameters(dense, other); }) ==
        "headmix: copy_parameters: W_k is [1, 6, 8] and goes to [1, 6, 12]");
}
TEST_CASE("copied parameters: into another type") {
  Module<Dense, Reference<double>> from(3);
  Module<Dense, Reference<float>> to(4);
  copy_parameters(from, to);
  for (std::size_t i = 0; i < from.parameters().size(); ++i) {
    CHECK(to.parameters()[i].value.data[0] == static_cast<float>(from.parameters()[i].value.data[0]));
  }
}
TEST_CASE("shared parameters") {
  Module<Dense, Reference<double>> owner(3);
  Module<Sparse<4, 1>, Reference<double>> other(share_parameters{}, owner);
  REQUIRE(other.parameters().size() == owner.parameters().size());
  auto const numbers = wave(7);
  view<double const> const x(numbers.data(), 7, 6);
  other.zero_gradients();
  other.forward(x, uniform(1, 7));
  other.backward(x);
  for (auto const& p : owner.parameters()) {
    CAPTURE(std::string(p.name));
    double sum = 0;
    for (Index i = 0; i < p.gradient.size(); ++i) sum += std::abs(p.gradient.data[i]);
    CHECK(sum > 0);
  }
  using Routed = Moh<6, 4, TwoStage<2, 4, 1>, causal, kv_heads<2>, query_bias, output_bias, rope<>>;
  CHECK(error_of([&] { Module<Routed, Reference<double>> routed(share_parameters{}, owner); }) ==
        "headmix: the module whose parameters are shared has none of the name W_h");
}

namespace {

/// A layer of two routers, each with a W_g. With Tag, the routers of another layer have equal names and different
/// leaves.
struct here {};
struct there {};
template <class Tag, bool Two = true>
struct Routed {
  struct x : input<tokens, size<6>> {};
  using router = SoftmaxTopK<4, 2>;
  struct second {};
  using a = router::route<x, Routed>;
  using b = std::conditional_t<Two, router::route<x, std::pair<Routed, second>>, a>;
  static constexpr auto y = a::p + b::p;
  using losses = type_list<>;
  using observed = type_list<>;
};
template <class L>
using Pair = Module<L, Reference<double>>;

}  // namespace

TEST_CASE("copied and shared parameters: two leaves of one name are the right ones where they are the same leaves") {
  Pair<Routed<here>> from(3), to(4);
  REQUIRE(from.parameters().size() == 2);
  CHECK(from.parameters()[0].name == from.parameters()[1].name);
  for (std::size_t i = 0; i < 2; ++i) from.parameters()[i].value.data[0] = 7 + static_cast<double>(i);
  copy_parameters(from, to);
  for (std::size_t i = 0; i < 2; ++i) CHECK(to.parameters()[i].value.data[0] == 7 + static_cast<double>(i));
  Pair<Routed<here>> shared(share_parameters{}, from);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(shared.parameters()[i].value.data == from.parameters()[i].value.data);
  }
}
TEST_CASE("copied and shared parameters: two leaves of one name are an error where only the name could tell") {
  Pair<Routed<here>> two(3);
  Pair<Routed<there>> other(4);
  Pair<Routed<there, false>> one(5);
  for (std::string const& message :
       {error_of([&] { copy_parameters(two, other); }), error_of([&] { copy_parameters(one, two); }),
        error_of([&] { Pair<Routed<there>> shared(share_parameters{}, two); })}) {
    CAPTURE(message);
    CHECK(message.find("W_g is the name of 2 parameters of the module ") != std::string::npos);
    CHECK(message.find("::W_g and ") != std::string::npos);
    CHECK(message.find("give the leaves names of their own, `static constexpr char const* name") != std::string::npos);
  }
  CHECK(error_of([&] { copy_parameters(two, one); }).find("2 parameters of the module that is copied from") !=
        std::string::npos);
}
TEST_CASE("copied parameters: the leaf of a score map is found in a layer of other options") {
  using From = MultiHead<6, 4, 4, causal, far_is_less>;
  using To = MultiHead<6, 4, 4, causal, far_is_less, rope<>, output_dropout<1, 10>>;
  Module<From, Reference<double>> from(3);
  auto const slope_of = [](auto const& m) {
    auto const p = std::find_if(m.parameters().begin(), m.parameters().end(),
                                [](auto const& parameter) { return parameter.name == "slope"; });
    REQUIRE(p != m.parameters().end());
    return p->value;
  };
  for (Index i = 0; i < 4; ++i) slope_of(from)(0, i) = 0.25 * static_cast<double>(i + 1);
  auto const copied = [&](auto const& m) {
    for (Index i = 0; i < 4; ++i) CHECK(slope_of(m)(0, i) == 0.25 * static_cast<double>(i + 1));
  };
  Module<To, Reference<double>> to(4);
  copy_parameters(from, to);
  copied(to);
  Module<To, Reference<double>> shared(share_parameters{}, from);
  copied(shared);
  auto const path = std::filesystem::temp_directory_path() / "headmix_score_map.safetensors";
  save(path, from);
  Module<To, Reference<double>> loaded(5);
  load(path, loaded);
  std::filesystem::remove(path);
  copied(loaded);
}

}  // namespace copy_parameters_test

// SPDX-License-Identifier: MIT
// Layers with score maps over bfloat16: error to double as small as the reference's over bfloat16, bitwise equal on two
// threads, and decoders equal to the layer.

#include <doctest/doctest.h>

#include <vector>

#include "../decode/decoding.hpp"
#include "../difference.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"

namespace bfloat16_maps_test {

namespace {

using namespace headmix;
using headmix::test::relative_error;

/// A learned slope for each head, and a learned cap.
struct learned : score_map {
  template <Extent Heads>
  struct slope : bias_param<Heads> {};
  struct cap : param<size<1>> {};
  template <Expr S, Extent Heads>
  static constexpr auto f(S s, Heads) {
    auto const high = number<2>{} + square(cap{});
    return high * tanh((s - slope<Heads>{} * abs(query_position{} - key_position{})) / high);
  }
};
/// A user's mask, without a range.
struct two_of_three {
  static constexpr bool sees(Index t, Index s) { return s <= t && (t - s) % 3 != 1; }
};

using Experts = Moa<16, 8, SoftmaxTopK<5, 2>, causal, kv_heads<2>, alibi, learned, rope<>>;
using Chosen = Moh<16, 4, TwoStage<1, 3, 2>, sliding_window<4>, soft_cap<2>, learned, probability_dropout<1, 10>>;
using Mixture = Mae<16, 4, 4, causal, learned, soft_cap<3>>;
using Capped = MultiHead<16, 4, 4, two_of_three, kv_heads<2>, alibi, soft_cap<2>>;
using Biased = MultiHead<16, 2, 8, full, relative_position_bias<2, 3, 4>, learned>;

/// The result and the gradients of a layer over two sequences of 6 tokens with bfloat16 numbers.
template <class L, class Backend>
std::vector<double> all_of(Backend backend = {}) {
  using T = typename Backend::scalar;
  auto const rounded = [](double x) { return static_cast<T>(static_cast<double>(bfloat16(x))); };
  Module<L, Backend> m(1, backend);
  std::uint64_t stream = 10;
  for (auto const& p : m.parameters()) {
    Random const random(2, stream++);
    for (Index i = 0; i < p.value.size(); ++i)
      p.value.data[i] = rounded(random.uniform(static_cast<std::uint64_t>(i)) - 0.5);
  }
  constexpr Index n = 12;
  std::vector<T> x(16 * n), dy(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = rounded(2 * Random(3).normal(i)), dy[i] = rounded(Random(4).normal(i));
  auto const y = m.forward(view<T const>(x.data(), n, 16), uniform(2, n / 2));
  m.backward({dy.data(), n, 16});
  std::vector<double> all;
  auto const keep = [&](view<T const> v) {
    for (Index i = 0; i < v.size(); ++i) all.push_back(static_cast<double>(v.data[i]));
  };
  keep(y);
  keep(m.input_gradient());
  for (auto const& p : m.parameters()) keep(p.gradient);
  return all;
}

TEST_CASE_TEMPLATE("layers with score maps over bfloat16 equal those over double to the precision of the storage", L,
                   Experts, Chosen, Mixture, Capped, Biased) {
  thread_pool one(1), two(2);
  using backend = Cpu<bfloat16, thread_pool>;
  auto const expected = all_of<L, Reference<double>>();
  double const error = relative_error(all_of<L, Reference<bfloat16>>(), expected);
  CHECK(error < 2e-2);
  CHECK(error > 1e-5);  // the computation was in bfloat16
  auto const found = all_of<L>(backend(one));
  CHECK(relative_error(found, expected) < 1.5 * error);
  CHECK(all_of<L>(backend(two)) == found);
}

using OddHeads = MultiHead<21, 3, 7, causal, learned>;
TEST_CASE_TEMPLATE("decoders with score maps over bfloat16 give what the layers give", L, Experts, Chosen, Mixture,
                   OddHeads) {
  constexpr Index page = Cpu<bfloat16>::cache_rows, n = 2 * page + 5;
  test::Decoding<L, serial, bfloat16> d({.tokens = 3 * page});
  d.whole.set_randomness(randomness::off());
  auto const numbers = [](std::vector<bfloat16> const& v) { return std::vector<float>(v.begin(), v.end()); };
  auto const x = test::text_of<bfloat16>(0, n, d.width);
  auto const by_one = numbers(d.in_chunks(x, 1));
  CHECK(test::difference(by_one, numbers(d.of_whole(x))) < 2e-2);
  for (Index const chunk : {Index{3}, page, n}) {
    d.decoder.rewind(0, 0);
    CHECK(numbers(d.in_chunks(x, chunk)) == by_one);
  }
}

}  // namespace

}  // namespace bfloat16_maps_test

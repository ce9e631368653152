// SPDX-License-Identifier: MIT
// The loss by first choices, against its definition and the formula of its gradient, and the initial W_g.

#include <array>

#include "../test_program.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace first_choice_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct D : size<3> {};
struct x : input<tokens, D> {};

}  // namespace

TEST_CASE("first_choice_balance: the share of rows whose first choice an expert is, times its mean probability") {
  using r = SoftmaxTopK<4, 2, gating::raw, loss::first_choice_balance, loss::load_balance>::route<x>;
  using first = nth<0, r::losses>;
  using all = nth<1, r::losses>;
  using p_type = type_of<decltype(r::p)>;
  for (Index const n : {1, 7}) {
    CAPTURE(n);
    TestProgram<roots<first, all, p_type, type_of<decltype(r::index)>>, inference> p(at<tokens>(n));
    double const found = p.forward()(0, 0);
    auto const prob = p.program.get(p_type{});
    auto const index = p.program.get(r::index);
    std::array<double, 4> mean{}, first_share{}, share{};
    for (Index t = 0; t < n; ++t) {
      first_share[static_cast<std::size_t>(index(t, 0))] += 1 / static_cast<double>(n);
      for (Index j = 0; j < 2; ++j) share[static_cast<std::size_t>(index(t, j))] += 0.5 / static_cast<double>(n);
      for (std::size_t e = 0; e < 4; ++e) mean[e] += prob(t, static_cast<Index>(e)) / static_cast<double>(n);
    }
    double by_first = 0, by_all = 0;
    for (std::size_t e = 0; e < 4; ++e) by_first += 4 * mean[e] * first_share[e], by_all += 4 * mean[e] * share[e];
    CHECK(close(found, by_first));
    CHECK(close(p.program.get(all{})(0, 0), by_all));
    CHECK(!close(by_first, by_all, 1e-6));
  }
}
TEST_CASE("first_choice_balance: the gradient by the logits is that of its formula") {
  using r = SoftmaxTopK<4, 2, loss::first_choice_balance>::route<x>;
  using first = nth<0, r::losses>;
  using p_type = type_of<decltype(r::p)>;
  Index const n = 6;
  TestProgram<roots<first>> p(at<tokens>(n));
  TestProgram<roots<p_type, type_of<decltype(r::index)>>, inference> route(at<tokens>(n));
  route.values(x{}) = p.values(x{});
  route.values(r::W_g{}) = p.values(r::W_g{});
  p.forward();
  p.dy_values[0] = 1;
  p.backward();
  auto const prob = route.forward();
  auto const index = route.program.get(r::index);
  std::array<double, 4> share{};
  for (Index t = 0; t < n; ++t) share[static_cast<std::size_t>(index(t, 0))] += 1.0 / n;
  // (E / S) p_e (f_e - sum_j p_j f_j); the gradient of W_g is x times it.
  for (Index e = 0; e < 4; ++e) {
    for (Index i = 0; i < 3; ++i) {
      double expected = 0;
      for (Index t = 0; t < n; ++t) {
        double mean = 0;
        for (Index j = 0; j < 4; ++j) mean += prob(t, j) * share[static_cast<std::size_t>(j)];
        expected += p.in(x{})(t, i) * 4.0 / n * prob(t, e) * (share[static_cast<std::size_t>(e)] - mean);
      }
      CHECK(close(p.gradient(r::W_g{})(i, e), expected));
    }
  }
  check_gradient(first{});
}
TEST_CASE("first_choice_balance: 1 where all experts are as probable, whoever is chosen; also of dynamic sizes") {
  using R = SoftmaxTopK<dynamic, dynamic, loss::first_choice_balance>;
  using r = R::route<x>;
  TestProgram<roots<nth<0, r::losses>>> p(at<tokens>(5), at<R::experts>(6), at<R::top_k>(3));
  p.values(r::W_g{}).assign(18, 0.0);
  CHECK(close(p.forward()(0, 0), 1));
}
TEST_CASE("starts: W_g starts as it says, and at zero without it") {
  auto const largest = [](auto const& m) {
    using L = typename std::remove_cvref_t<decltype(m)>::layer;
    auto const w = m.template get<typename L::r::W_g>().value;
    double most = 0;
    for (Index i = 0; i < w.size(); ++i) most = std::max(most, std::abs(w.data[i]));
    return most;
  };
  using Uniform = Smoe<16, SoftmaxTopK<64, 2, init<fan_in_uniform>>, FeedForward<3>>;
  using Normal = Smoe<16, SoftmaxTopK<64, 2, init<normal<1, 50>>>, FeedForward<3>>;
  using Zero = Smoe<16, SoftmaxTopK<64, 2>, FeedForward<3>>;
  Module<Uniform, Reference<double>> uniform_start(1);
  Module<Normal, Reference<double>> normal_start(1);
  Module<Zero, Reference<double>> zero_start(1);
  CHECK((largest(uniform_start) > 0.24 && largest(uniform_start) <= 0.25));
  CHECK((largest(normal_start) > 0.05 && largest(normal_start) < 0.12));
  CHECK(largest(zero_start) == 0);
}

}  // namespace first_choice_test

// SPDX-License-Identifier: MIT
// The router's options: noise, sampling, losses, a gating and a custom loss.

#include <array>

#include "../test_program.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace options_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct D : size<4> {};
struct x : input<tokens, D> {};

template <int I, class H, class... T>
constexpr auto loss_at(type_list<H, T...>) {
  if constexpr (I == 0) {
    return H{};
  } else {
    return loss_at<I - 1>(type_list<T...>{});
  }
}

double log1p_exp(double a) { return std::log1p(std::exp(a)); }

/// p^2 / sum p^2
struct squares : gating::policy {
  template <Expr P>
  static constexpr auto weights(P p) {
    return square(p) / row_sum(square(p));
  }
};
/// The entropy of the mean probabilities, negative.
struct negative_entropy : loss::policy {
  template <class R>
  static constexpr auto of = sum(col_mean(R::p) * log(col_mean(R::p)));
};

}  // namespace

TEST_CASE("router options: noisy logits follow their formula, with the floor and without") {
  using noisy = NoisyTopK<5, 2>::route<x>;
  using paper = NoisyTopK<5, 2, noise<number<0>>>::route<x>;
  auto const check_logits = [](auto route, double floor) {
    using r = decltype(route);
    TestProgram<roots<type_of<decltype(r::z)>>> p(at<tokens>(6));
    auto const z = p.forward();
    auto const a = p.in(x{});
    Random const random(1, 0, random_stream::gating_noise);
    for (Index t = 0; t < 6; ++t) {
      for (Index e = 0; e < 5; ++e) {
        double clean = 0, width = 0;
        for (Index i = 0; i < 4; ++i) {
          clean += a(t, i) * p.in(typename r::W_g{})(i, e);
          width += a(t, i) * p.in(typename r::W_noise{})(i, e);
        }
        CHECK(
            close(z(t, e), clean + random.normal(static_cast<std::uint64_t>(t * 5 + e)) * (log1p_exp(width) + floor)));
      }
    }
  };
  check_logits(noisy{}, 0.01);
  check_logits(paper{}, 0);
  check_gradient(noisy::z);
  check_gradient(NoisyTopK<5, 2, gating::raw>::route<x>::gate);
}
TEST_CASE("router options: at the start the noise is log 2 + 0.01 wide, and the z-loss sees it") {
  using r = NoisyTopK<5, 2>::route<x>;
  TestProgram<roots<type_of<decltype(r::z)>, type_of<decltype(r::z_2)>>> p(at<tokens>(3000));
  p.values(r::W_g{}).assign(20, 0);
  p.values(r::W_noise{}).assign(20, 0);
  auto const z = p.forward();
  double square = 0;
  for (Index i = 0; i < z.size(); ++i) square += z.data[i] * z.data[i] / static_cast<double>(z.size());
  CHECK(std::abs(std::sqrt(square) - 0.7031) < 0.01);
  CHECK(p.program.get(r::z_2)(0, 0) > 1.05 * std::log(5.0) * std::log(5.0));
  // In evaluation there is no noise, and z is log 5 for all.
  p.values(random_key{}).assign(6, 0);
  p.forward();
  CHECK(close(p.program.get(r::z_2)(0, 0), std::log(5.0) * std::log(5.0)));
}
TEST_CASE("router options: noisy top-k chooses and weighs by the noisy probabilities") {
  using r = NoisyTopK<5, 2>::route<x>;
  TestProgram<roots<type_of<decltype(r::gate)>, type_of<decltype(r::p)>, type_of<decltype(r::index)>>> p(
      at<tokens>(40));
  auto const gate = p.forward();
  auto const prob = p.program.get(r::p);
  auto const index = p.program.get(r::index);
  for (Index t = 0; t < 40; ++t) {
    double const first = prob(t, index(t, 0)), second = prob(t, index(t, 1));
    CHECK(first >= second);
    for (Index e = 0; e < 5; ++e) CHECK((e == index(t, 0) || prob(t, e) <= second));
    CHECK(close(gate(t, 0), first / (first + second)));
    CHECK(close(gate(t, 1), second / (first + second)));
  }
}
TEST_CASE("router options: sampled experts are drawn without replacement, in proportion to their probabilities") {
  using r = SoftmaxTopK<4, 2, sampled<1>, gating::raw>::route<x>;
  Index const n = 20000;
  TestProgram<roots<type_of<decltype(r::gate)>, type_of<decltype(r::index)>>, inference> p(at<tokens>(n));
  // Every row has the same logits 1.0, 0.5, 0.2, 0.
  p.values(x{}).assign(static_cast<std::size_t>(n * 4), 0.25);
  std::array<double, 4> const logits{1, 0.5, 0.2, 0};
  double total = 0;
  for (Index e = 0; e < 4; ++e) {
    for (Index i = 0; i < 4; ++i) p.in(r::W_g{})(i, e) = logits[static_cast<std::size_t>(e)];
    total += std::exp(logits[static_cast<std::size_t>(e)]);
  }
  auto const gate = p.forward();
  auto const index = p.program.get(r::index);
  std::array<double, 4> share{};
  for (Index t = 0; t < n; ++t) {
    REQUIRE(index(t, 0) == 0);
    REQUIRE(index(t, 1) != 0);
    auto const second = static_cast<std::size_t>(index(t, 1));
    share[second] += 1.0 / static_cast<double>(n);
    CHECK(close(gate(t, 1), std::exp(logits[second]) / total));
  }
  for (std::size_t e = 1; e < 4; ++e) {
    double const rest = total - std::exp(1.0);
    CHECK(std::abs(share[e] - std::exp(logits[e]) / rest) < 0.015);
  }
  p.values(random_key{}).assign(6, 0);
  p.forward();
  for (Index t = 0; t < n; ++t) REQUIRE((index(t, 0) == 0 && index(t, 1) == 1));
}
TEST_CASE("router options: all chosen experts may be sampled, each once") {
  using r = SoftmaxTopK<4, 4, sampled<4>>::route<x>;
  TestProgram<roots<type_of<decltype(r::gate)>, type_of<decltype(r::index)>>, inference> p(at<tokens>(50));
  p.forward();
  auto const index = p.program.get(r::index);
  bool some_differ = false;
  for (Index t = 0; t < 50; ++t) {
    std::array<int, 4> times{};
    for (Index j = 0; j < 4; ++j) ++times[static_cast<std::size_t>(index(t, j))];
    CHECK(times == std::array{1, 1, 1, 1});
    some_differ = some_differ || index(t, 0) != index(0, 0);
  }
  CHECK(some_differ);
}
TEST_CASE("router options: the losses are those that were asked for, in order") {
  using r = SoftmaxTopK<5, 2, gating::raw, loss::cv_squared, loss::z, negative_entropy>::route<x>;
  static_assert(r::losses::size == 3);
  constexpr auto cv = loss_at<0>(r::losses{});
  constexpr auto z = loss_at<1>(r::losses{});
  constexpr auto entropy = loss_at<2>(r::losses{});
  static_assert(std::is_same_v<type_of<decltype(z)>, decltype(headmix::detail::named_as<loss::z>(r::z_2))>);
  TestProgram<roots<type_of<decltype(cv)>, type_of<decltype(z)>, type_of<decltype(entropy)>, type_of<decltype(r::p)>,
                    type_of<decltype(r::index)>>,
              inference>
      p(at<tokens>(7));
  p.forward();
  auto const prob = p.program.get(r::p);
  auto const index = p.program.get(r::index);
  std::array<double, 5> importance{}, mean{};
  double total = 0;
  for (Index t = 0; t < 7; ++t) {
    for (Index j = 0; j < 2; ++j) {
      importance[static_cast<std::size_t>(index(t, j))] += prob(t, index(t, j));
      total += prob(t, index(t, j));
    }
    for (Index e = 0; e < 5; ++e) mean[static_cast<std::size_t>(e)] += prob(t, e) / 7;
  }
  double variance = 0, expected_entropy = 0;
  for (std::size_t e = 0; e < 5; ++e) {
    variance += (importance[e] / total - 0.2) * (importance[e] / total - 0.2) / 4;
    expected_entropy += mean[e] * std::log(mean[e]);
  }
  CHECK(close(p.program.get(cv)(0, 0), variance / (0.04 + 1e-10)));
  CHECK(close(p.program.get(entropy)(0, 0), expected_entropy));
  for (Index const rows : {1, 7}) CHECK(gradcheck(cv, at<tokens>(rows)).ok());
  CHECK(gradcheck(entropy, at<tokens>(7)).ok());
}
TEST_CASE("router options: a single expert has no variation") {
  using r = SoftmaxTopK<dynamic, dynamic, loss::cv_squared>;
  constexpr auto cv = loss_at<0>(r::route<x>::losses{});
  TestProgram<roots<type_of<decltype(cv)>>> p(at<tokens>(7), at<r::experts>(1), at<r::top_k>(1));
  CHECK(p.forward()(0, 0) == 0);
  p.backward();
  for (double const g : p.gradients(x{})) CHECK(g == 0);
}
TEST_CASE("router options: a custom gating") {
  using r = SoftmaxTopK<5, 2, squares>::route<x>;
  check_gradient(r::gate);
  TestProgram<roots<type_of<decltype(r::gate)>, type_of<decltype(r::p_chosen)>>, inference> p(at<tokens>(3));
  auto const gate = p.forward();
  auto const chosen = p.program.get(r::p_chosen);
  for (Index t = 0; t < 3; ++t) {
    double const total = chosen(t, 0) * chosen(t, 0) + chosen(t, 1) * chosen(t, 1);
    CHECK(close(gate(t, 0), chosen(t, 0) * chosen(t, 0) / total));
  }
}

}  // namespace options_test

// SPDX-License-Identifier: MIT
// The softmax top-k router: its three gatings against their formulas, forward and backward, and its losses.

#include "headmix/router/softmax_top_k.hpp"

#include <algorithm>

#include "../test_program.hpp"

namespace softmax_top_k_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct D : size<3> {};
struct x : input<tokens, D> {};

template <class G, Index K>
using routed = typename SoftmaxTopK<5, K, G>::template route<x>;

/// p, a and dz of row t by the formulas of the paper and the published code; dy is the gradient by the gate.
template <class G>
void check_gating() {
  using r = routed<G, 2>;
  TestProgram<roots<type_of<decltype(r::gate)>, type_of<decltype(r::index)>>> p(at<tokens>(6));
  auto const gate = p.forward();
  auto const index = p.program.get(r::index);
  p.backward();
  double d_W[3][5] = {};
  for (Index t = 0; t < 6; ++t) {
    double z[5], prob[5], a[5] = {}, d_z[5], total = 0, D_sum = 0;
    for (Index e = 0; e < 5; ++e) {
      z[e] = 0;
      for (Index c = 0; c < 3; ++c) z[e] += p.in(x{})(t, c) * p.in(typename r::W_g{})(c, e);
      total += std::exp(z[e]);
    }
    for (Index e = 0; e < 5; ++e) prob[e] = std::exp(z[e]) / total;
    for (Index e = 0; e < 5; ++e) {
      Index better = 0;
      for (Index f = 0; f < 5; ++f) better += prob[f] > prob[e] ? 1 : 0;
      if (better < 2) {
        CHECK(index(t, better) == e);
        D_sum += prob[e];
      }
    }
    for (Index k = 0; k < 2; ++k) {
      double const expected = prob[index(t, k)] / (std::is_same_v<G, gating::raw> ? 1 : D_sum);
      CHECK(close(gate(t, k), expected));
      a[index(t, k)] = p.dy(t, k);
    }
    double mean = 0;
    if (std::is_same_v<G, gating::renormalized>) {
      for (Index k = 0; k < 2; ++k) mean += gate(t, k) * p.dy(t, k);
      std::fill(d_z, d_z + 5, 0.0);
      for (Index k = 0; k < 2; ++k) d_z[index(t, k)] = gate(t, k) * (p.dy(t, k) - mean);
    } else {
      for (Index e = 0; e < 5; ++e) mean += prob[e] * a[e];
      for (Index e = 0; e < 5; ++e) d_z[e] = prob[e] * (a[e] - mean) / (std::is_same_v<G, gating::raw> ? 1 : D_sum);
    }
    for (Index c = 0; c < 3; ++c) {
      double d_x = 0;
      for (Index e = 0; e < 5; ++e) {
        d_x += p.in(typename r::W_g{})(c, e) * d_z[e];
        d_W[c][e] += p.in(x{})(t, c) * d_z[e];
      }
      CHECK(close(p.gradient(x{})(t, c), d_x));
    }
  }
  for (Index c = 0; c < 3; ++c) {
    for (Index e = 0; e < 5; ++e) CHECK(close(p.gradient(typename r::W_g{})(c, e), d_W[c][e]));
  }
}

}  // namespace

TEST_CASE("router: raw gates are probabilities, and all experts learn") { check_gating<gating::raw>(); }
TEST_CASE("router: detached gates add up to one, and all experts learn") { check_gating<gating::detached>(); }
TEST_CASE("router: renormalized gates add up to one, and only the chosen experts learn") {
  check_gating<gating::renormalized>();
}
TEST_CASE("router: raw and renormalized gates have the gradients of their values") {
  check_gradient(routed<gating::raw, 2>::gate);
  check_gradient(routed<gating::renormalized, 2>::gate);
}
TEST_CASE("router: with one choice the detached gate is one and still has a gradient") {
  using r = routed<gating::detached, 1>;
  TestProgram<roots<type_of<decltype(r::gate)>>> p(at<tokens>(4));
  auto const gate = p.forward();
  p.backward();
  double largest = 0;
  for (double const g : p.gradients(r::W_g{})) largest = std::max(largest, std::abs(g));
  for (Index t = 0; t < 4; ++t) CHECK(gate(t, 0) == 1);
  CHECK(largest > 1e-3);
}
TEST_CASE("router: with one choice the renormalized gate is one and has no gradient") {
  using r = routed<gating::renormalized, 1>;
  TestProgram<roots<type_of<decltype(r::gate)>>> p(at<tokens>(4));
  auto const gate = p.forward();
  p.backward();
  for (Index t = 0; t < 4; ++t) CHECK(gate(t, 0) == 1);
  for (double const g : p.gradients(r::W_g{})) CHECK(std::abs(g) < 1e-15);
}
TEST_CASE("router: weights of zero tie, so the first experts are chosen, with equal gates") {
  using r = routed<gating::detached, 2>;
  TestProgram<roots<type_of<decltype(r::gate)>, type_of<decltype(r::index)>, type_of<decltype(r::load)>,
                    type_of<decltype(r::z_2)>>>
      p(at<tokens>(4));
  p.values(r::W_g{}).assign(15, 0.0);
  auto const gate = p.forward();
  auto const index = p.program.get(r::index);
  for (Index t = 0; t < 4; ++t) {
    CHECK(index(t, 0) == 0);
    CHECK(index(t, 1) == 1);
    CHECK(close(gate(t, 0), 0.5));
  }
  CHECK(close(p.program.get(r::load)(0, 0), 1));
  CHECK(close(p.program.get(r::z_2)(0, 0), std::pow(std::log(5.0), 2)));
}
TEST_CASE("router: the gradient of the load-balance loss") {
  using r = routed<gating::detached, 2>;
  TestProgram<roots<type_of<decltype(r::gate)>, type_of<decltype(r::load)>, type_of<decltype(r::index)>,
                    type_of<decltype(r::p)>>>
      p(at<tokens>(6));
  p.forward();
  p.dy_values.assign(12, 0.0);
  std::vector<double> zero(30, 0.0);
  auto const index = p.program.get(r::index);
  auto const prob = p.program.get(r::p);
  double share[5] = {}, d_W[3][5] = {};
  for (Index t = 0; t < 6; ++t) {
    for (Index k = 0; k < 2; ++k) share[index(t, k)] += 1.0 / 12;
  }
  for (Index t = 0; t < 6; ++t) {
    double mean = 0;
    for (Index e = 0; e < 5; ++e) mean += prob(t, e) * share[e];
    for (Index e = 0; e < 5; ++e) {
      for (Index c = 0; c < 3; ++c) d_W[c][e] += 3.0 * 5 / 6 * prob(t, e) * (share[e] - mean) * p.in(x{})(t, c);
    }
  }
  static_assert(rows<std::remove_cv_t<decltype(r::load)>>::value == 1);
  TestProgram<roots<type_of<decltype(r::load)>>> loss(at<tokens>(6));
  loss.values(x{}) = p.values(x{});
  loss.values(r::W_g{}) = p.values(r::W_g{});
  loss.forward();
  loss.dy_values[0] = 3;
  loss.backward();
  for (Index c = 0; c < 3; ++c) {
    for (Index e = 0; e < 5; ++e) CHECK(close(loss.gradient(r::W_g{})(c, e), d_W[c][e]));
  }
  CHECK(gradcheck(r::load, at<tokens>(6)).ok());
}
TEST_CASE("router: the gradient of the z loss") {
  using r = routed<gating::detached, 2>;
  TestProgram<roots<type_of<decltype(r::z_2)>>> loss(at<tokens>(6));
  loss.forward();
  loss.dy_values[0] = -2;
  loss.backward();
  double d_W[3][5] = {};
  for (Index t = 0; t < 6; ++t) {
    double z[5], total = 0;
    for (Index e = 0; e < 5; ++e) {
      z[e] = 0;
      for (Index c = 0; c < 3; ++c) z[e] += loss.in(x{})(t, c) * loss.in(r::W_g{})(c, e);
      total += std::exp(z[e]);
    }
    for (Index e = 0; e < 5; ++e) {
      for (Index c = 0; c < 3; ++c)
        d_W[c][e] += -2 * 2.0 / 6 * std::log(total) * std::exp(z[e]) / total * loss.in(x{})(t, c);
    }
  }
  for (Index c = 0; c < 3; ++c) {
    for (Index e = 0; e < 5; ++e) CHECK(close(loss.gradient(r::W_g{})(c, e), d_W[c][e]));
  }
}
TEST_CASE("router: a second one over the same value has parameters of its own, by its tag") {
  struct second;
  using R = SoftmaxTopK<5, 2, gating::raw>;
  using Y = type_of<decltype(R::route<x>::gate + R::route<x, second>::gate)>;
  CHECK(leaves_of<roots<Y>>::size == 3);
  CHECK(leaves_of<roots<type_of<decltype(R::route<x>::gate + R::route<x>::gate)>>>::size == 2);
  check_gradient(Y{});
}
TEST_CASE("router: a user's own one, two lines long, has its gradient for free") {
  struct sigmoid_router {
    struct experts : size<4> {};
    struct top_k : size<2> {};
    struct W_s : param<D, experts> {};
    static auto score() { return sigmoid(x{} % W_s{}); }
  };
  constexpr auto score = decltype(sigmoid_router::score()){};
  check_gradient(gather_cols(score, arg_top_k<sigmoid_router::top_k>(score)));
}

}  // namespace softmax_top_k_test

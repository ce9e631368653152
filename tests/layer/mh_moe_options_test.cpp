// SPDX-License-Identifier: MIT
// The effect of options on the result of MH-MoE, by hand.

#include "mh_moe.hpp"

namespace mh_moe_options_test {

using namespace headmix;
using namespace headmix::test;

namespace {

double relu_of(double a) { return std::max(a, 0.0); }
double gelu_of(double a) { return a * 0.5 * std::erfc(-a / std::sqrt(2.0)); }

/// y with the option minus y without it, for equal parameters.
template <class L, class Without>
struct Added {
  TestProgram<roots<type_of<decltype(L::y)>>, inference> p{at<tokens>(5)};
  TestProgram<roots<type_of<decltype(Without::y)>>, inference> q{at<tokens>(5)};
  view<double const> y, without;
  Added() {
    q.values(typename Without::x{}) = p.values(typename L::x{});
    copy_weights(q, p);
    y = p.forward();
    without = q.forward();
    REQUIRE((y.rows == 5 && y.cols == 6));
  }
  double operator()(Index t, Index j) const { return y(t, j) - without(t, j); }
};

template <class Activation>
void check_shared(double (*hidden)(double)) {
  using Shared = FeedForward<3, Activation>;
  using L = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5, Activation>, shared_expert<Shared>>;
  using S = typename Shared::template shared<typename L::model_dim>;
  Added<L, MhMoe<6, 3, raw_router<4, 2>, FeedForward<5, Activation>>> added;
  auto const x = added.p.in(typename L::x{});
  for (Index t = 0; t < 5; ++t) {
    for (Index j = 0; j < 6; ++j) {
      double expected = 0;
      for (Index f = 0; f < 3; ++f) {
        double up = 0;
        for (Index i = 0; i < 6; ++i) up += x(t, i) * added.p.in(typename S::W_up_s{})(i, f);
        expected += hidden(up) * added.p.in(typename S::W_down_s{})(f, j);
      }
      CHECK(close(added(t, j), expected));
    }
  }
}

}  // namespace

TEST_CASE("mh-moe options: a shared expert is a network of whole tokens, added to the result") {
  check_shared<activation::relu>(relu_of);
  check_shared<activation::gelu>(gelu_of);
}
TEST_CASE("mh-moe options: sub-tokens are added to their mixtures") {
  using L = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, head_bias, subtoken_residual>;
  Added<L, MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, head_bias>> added;
  auto const x = added.p.in(L::x{});
  for (Index t = 0; t < 5; ++t) {
    for (Index j = 0; j < 6; ++j) {
      double expected = 0;
      for (Index i = 0; i < 6; ++i) {
        double s = added.p.in(L::b_head{})(0, i);
        for (Index n = 0; n < 6; ++n) s += x(t, n) * added.p.in(L::W_head{})(n, i);
        expected += s * added.p.in(L::W_merge{})(i, j);
      }
      CHECK(close(added(t, j), expected));
    }
  }
}
TEST_CASE("mh-moe options: dropout leaves out results, and without randomness none") {
  using Shared = shared_expert<FeedForward<3>>;
  using L = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, Shared, output_dropout<1, 3>>;
  Added<L, MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, Shared>> added;
  Index dropped = 0;
  for (Index i = 0; i < 30; ++i) {
    double const y = added.y.data[i];
    CHECK((y == 0 || close(y, added.without.data[i] * 3 / 2)));
    dropped += y == 0 ? 1 : 0;
  }
  CHECK((dropped > 0 && dropped < 20));
  randomness const off = randomness::off();
  std::copy(std::begin(off.word), std::end(off.word), added.p.values(random_key{}).begin());
  added.y = added.p.forward();
  for (Index i = 0; i < 30; ++i) CHECK(close(added.y.data[i], added.without.data[i]));
}

}  // namespace mh_moe_options_test

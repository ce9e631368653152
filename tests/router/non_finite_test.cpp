// SPDX-License-Identifier: MIT
// Routers with non-finite logits in some rows: the choices in these rows, and no effect on other rows.

#include "../test_program.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/router/query_norm.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace non_finite_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct x : input<tokens, size<12>> {};
constexpr Index rows = 6;

template <class Router, class Scalar, class Backend>
struct routed {
  using route = typename Router::template route<x>;
  TestProgram<roots<type_of<decltype(route::gate)>, type_of<decltype(route::index)>>, inference, Scalar, Backend> p;
  view<Scalar const> gate;
  view<Int const> index;

  explicit routed(bool odd) : p(at<tokens>(rows)) {
    if (odd) {
      p.in(x{})(2, 5) = std::numeric_limits<Scalar>::quiet_NaN();
      p.in(x{})(4, 11) = std::numeric_limits<Scalar>::infinity();
    }
    gate = p.forward();
    index = p.program.get(route::index);
  }
};

/// In rows without finite logits the first experts are chosen, with non-finite weights if the router weighs its
/// choices.
template <class Router, class Scalar, class Backend>
void check_choices(std::vector<Int> const& first, bool weighs) {
  routed<Router, Scalar, Backend> const plain(false), odd(true);
  for (Index t = 0; t < rows; ++t) {
    CAPTURE(t);
    bool const is_odd = t == 2 || t == 4;
    bool all_finite = true;
    for (Index k = 0; k < odd.index.cols; ++k) {
      CHECK(odd.index(t, k) == (is_odd ? first[static_cast<std::size_t>(k)] : plain.index(t, k)));
      all_finite = all_finite && std::isfinite(odd.gate(t, k));
      if (!is_odd) CHECK(odd.gate(t, k) == plain.gate(t, k));
    }
    CHECK(all_finite == (!is_odd || !weighs));
  }
}
template <class Router>
void check(std::vector<Int> const& first, bool weighs = true) {
  check_choices<Router, double, Reference<double>>(first, weighs);
  check_choices<Router, float, Cpu<float>>(first, weighs);
}

}  // namespace

TEST_CASE("softmax top-k: a row with NaN chooses the first experts") { check<SoftmaxTopK<5, 2>>({0, 1}); }
TEST_CASE("noisy top-k: a row with NaN chooses the first experts") { check<NoisyTopK<5, 3>>({0, 1, 2}); }
TEST_CASE("two stages: a row with NaN chooses the first routed heads") { check<TwoStage<2, 4, 2>>({0, 1, 2, 3}); }
TEST_CASE("query norm: a row with NaN chooses the first routed heads") {
  check<QueryNorm<2, 4, 2, estimator::active>>({0, 1, 2, 3}, false);
}

}  // namespace non_finite_test

// SPDX-License-Identifier: MIT
// MoA over sequences and sizes of every kind.

#include "headmix/layer/moa.hpp"
#include "published.hpp"

namespace moa_extents_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moa: gradients with one choice, with all, and with a single expert") {
  using F = Moa<5, 3, SoftmaxTopK<dynamic, dynamic, gating::raw>, causal>;
  check_gradient(F::y, {}, at<F::experts>(4), at<F::top_k>(1));
  check_gradient(F::y, {}, at<F::experts>(3), at<F::top_k>(3));
  check_gradient(F::y, {}, at<F::experts>(1), at<F::top_k>(1));
}
TEST_CASE("moa: a token sees neither later tokens nor other sequences") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  TestProgram<moa_roots<L>> p(ragged_options());
  auto y = p.forward();
  std::vector<double> const before(y.data, y.data + y.size());
  p.in(L::x{})(4, 0) += 0.5;
  y = p.forward();
  for (Index i = 0; i < 7; ++i) {
    bool changed = false;
    for (Index j = 0; j < 6; ++j) changed = changed || y(i, j) != before[static_cast<std::size_t>(i * 6 + j)];
    CHECK(changed == (i >= 4));
  }
}
TEST_CASE("moa: dynamic sizes give what static ones give") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  using F = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>, causal>;
  TestProgram<moa_roots<L>> p(at<tokens>(7));
  TestProgram<moa_roots<F>> q(at<tokens>(7), at<F::model_dim>(6), at<F::head_dim>(4), at<F::experts>(5),
                              at<F::top_k>(2));
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == z.data[i]);
  p.backward({0.5, 0.25});
  q.backward({0.5, 0.25});
  CHECK(p.gradients(L::x{}) == q.gradients(F::x{}));
  CHECK(p.gradients(L::W_q{}) == q.gradients(F::W_q{}));
  CHECK(p.gradients(L::r::W_g{}) == q.gradients(F::r::W_g{}));
}
TEST_CASE("moa: no tokens give no output, and gradients of zero") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  TestProgram<moa_roots<L>> p(at<tokens>(0));
  CHECK(p.forward().rows == 0);
  p.backward({0, 0});
  for (double const g : p.gradients(L::W_q{})) CHECK(g == 0);
  for (double const g : p.gradients(L::W_k{})) CHECK(g == 0);
}
TEST_CASE("moa: more choices than experts are an error at run time, with both numbers") {
  using F = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>, causal>;
  TestProgram<moa_roots<F>> p(at<tokens>(3), at<F::model_dim>(6), at<F::head_dim>(4), at<F::experts>(3),
                              at<F::top_k>(4));
  CHECK_THROWS_WITH_AS(static_cast<void>(p.program.workspace_bytes()),
                       doctest::Contains("size top_k = 4 must be at most"), Error);
}

}  // namespace moa_extents_test

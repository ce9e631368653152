// SPDX-License-Identifier: MIT
// Modules of MoH: parameters, observed selections, inference, and weights of multi-head attention.

#include <algorithm>
#include <array>
#include <string>

#include "../test_program.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/copy_parameters.hpp"

namespace moh_module_test {

using namespace headmix;
using namespace headmix::test;

namespace {

template <class L, class Mode = training>
using module_of = Module<L, Reference<double>, Mode>;

std::array<Int, 4> const offsets{0, 3, 3, 7};
std::vector<double> numbers(std::size_t n) {
  std::vector<double> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = Random(5).normal(i);
  return v;
}
template <class M>
std::vector<std::string> names(M const& m) {
  std::vector<std::string> found;
  for (auto const& p : m.parameters()) found.emplace_back(p.name);
  std::sort(found.begin(), found.end());
  return found;
}
std::vector<double> copied(view<double const> v) { return {v.data, v.data + v.size()}; }

}  // namespace

TEST_CASE("moh module: parameters, the router's start, and what is observed") {
  using L = Moh<6, 5, TwoStage<2, 6, 2>, causal, kv_heads<2>>;
  module_of<L> m(3);
  CHECK(names(m) == std::vector<std::string>{"W_h", "W_k", "W_o", "W_q", "W_r", "W_s", "W_v"});
  CHECK((m.get<L::W_q>().value.cols == 40 && m.get<L::W_k>().value.cols == 10 && m.get<L::W_o>().value.rows == 40));
  double sum = 0;
  auto const W_r = m.get<L::r::W_r>().value;
  for (Index i = 0; i < W_r.size(); ++i) sum += W_r.data[i] * W_r.data[i];
  CHECK((std::sqrt(sum / 36) > 0.014 && std::sqrt(sum / 36) < 0.026));
  auto const x = numbers(42);
  m.forward({x.data(), 7, 6}, ragged(offsets.data(), 3));
  m.backward({x.data(), 7, 6}, {0.01});
  auto const chosen = m.observed();
  REQUIRE((chosen.rows == 7 && chosen.cols == 2));
  for (Index t = 0; t < 7; ++t) {
    CHECK((chosen(t, 0) >= 0 && chosen(t, 0) < 6 && chosen(t, 1) >= 0 && chosen(t, 1) < 6));
    CHECK(chosen(t, 0) != chosen(t, 1));
  }
  CHECK((m.loss<0>() > 0 && m.loss<0>() <= 6));
  CHECK(std::abs(m.input_gradient()(6, 0)) > 0);

  module_of<L, inference> evaluate(3);
  CHECK(copied(evaluate.forward({x.data(), 7, 6}, ragged(offsets.data(), 3))) ==
        copied(m.forward({x.data(), 7, 6}, ragged(offsets.data(), 3))));
}
TEST_CASE("moh module: inference computes the active heads alone and gives the same") {
  using L = Moh<6, 4, QueryNorm<1, 3, 2>, causal, kv_heads<2>, query_bias, rope<dynamic>>;
  static_assert(!std::is_same_v<decltype(L::y), decltype(L::y_inference)>);
  module_of<L> m(3);
  module_of<L, inference> evaluate(3);
  double const theta = 50;
  m.program().bind(rope<dynamic>::theta{}, {&theta, 1, 1});
  evaluate.program().bind(rope<dynamic>::theta{}, {&theta, 1, 1});
  auto const x = numbers(42);
  auto const y = m.forward({x.data(), 7, 6}, ragged(offsets.data(), 3));
  auto const z = evaluate.forward({x.data(), 7, 6}, ragged(offsets.data(), 3));
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
  auto const chosen = m.observed(), active = evaluate.observed();
  CHECK(std::equal(chosen.data, chosen.data + chosen.size(), active.data));
  CHECK(evaluate.forward(view<double const>(nullptr, 0, 6)).rows == 0);
}
TEST_CASE("moh module: weights of multi-head attention, all heads on") {
  using Dense = MultiHead<6, 4, 3, causal, output_bias>;
  using L = Moh<6, 3, QueryNorm<2, 2, 2>, causal, output_bias>;
  module_of<Dense, inference> dense(7);
  module_of<L, inference> sparse(8);
  copy_parameters(dense, sparse);
  auto const x = numbers(42);
  auto const y = dense.forward({x.data(), 7, 6}), z = sparse.forward({x.data(), 7, 6});
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
}

}  // namespace moh_module_test

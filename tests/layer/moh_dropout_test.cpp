// SPDX-License-Identifier: MIT
// MoH with dropout, and with queries of zero.

#include "moh.hpp"

namespace moh_dropout_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moh: gradients with dropout of probabilities and of the result") {
  using L = Moh<4, 3, TwoStage<1, 3, 2>, causal, probability_dropout<1, 4>, output_dropout<1, 5>>;
  using Plain = Moh<4, 3, TwoStage<1, 3, 2>, causal>;
  TestProgram<roots<type_of<decltype(L::y)>>> p(at<tokens>(7));
  auto const r = p.check_gradients();
  CAPTURE(r.text);
  CHECK(r.ok());
  TestProgram<roots<type_of<decltype(Plain::y)>>, inference> q(at<tokens>(7));
  q.values(Plain::x{}) = p.values(L::x{});
  q.values(Plain::W_q{}) = p.values(L::W_q{});
  q.values(Plain::W_k{}) = p.values(L::W_k{});
  q.values(Plain::W_v{}) = p.values(L::W_v{});
  q.values(Plain::W_o{}) = p.values(L::W_o{});
  q.values(Plain::r::W_r{}) = p.values(L::r::W_r{});
  q.values(Plain::r::W_h{}) = p.values(L::r::W_h{});
  auto const y = p.forward(), z = q.forward();
  Index dropped = 0, others = 0;
  for (Index i = 0; i < y.size(); ++i) {
    dropped += y.data[i] == 0 ? 1 : 0;
    others += y.data[i] != 0 && !close(y.data[i], z.data[i] * 5 / 4, 1e-3) ? 1 : 0;
  }
  // A fifth of the results is dropped, and also probabilities.
  CHECK((dropped > 0 && dropped < y.size() / 2 && others > 0));
  // Without randomness nothing is dropped.
  randomness const off = randomness::off();
  std::copy(std::begin(off.word), std::end(off.word), p.values(random_key{}).begin());
  auto const still = p.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(still.data[i], z.data[i]));
}

namespace {
template <class Estimator>
void check_zeros() {
  using L = Moh<4, 3, QueryNorm<1, 3, 1, Estimator>, causal>;
  TestProgram<roots<type_of<decltype(L::y)>>> p(at<tokens>(5));
  p.values(typename L::W_q{}).assign(48, 0.0);
  auto const y = p.forward();
  p.backward();
  for (Index i = 0; i < y.size(); ++i) CHECK((std::isfinite(y.data[i]) && y.data[i] != 0));
  for_each(typename decltype(p)::program_type::leaves{}, [&]<class Of>() {
    for (double const g : p.gradients(Of{})) CHECK(std::isfinite(g));
  });
  // Heads 0 and 1, the first, are active; the others have no output.
  for (Index j = 0; j < 12; ++j) CHECK((p.gradient(typename L::W_o{})(j, 0) != 0) == (j < 6));
}
}  // namespace

TEST_CASE("moh by queries: queries of zero have finite gradients") {
  check_zeros<estimator::all>();
  check_zeros<estimator::active>();
}

}  // namespace moh_dropout_test

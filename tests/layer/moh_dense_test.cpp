// SPDX-License-Identifier: MIT
// MoH with all heads active equals multi-head attention; its losses at balance.

#include "headmix/layer/multi_head.hpp"
#include "moh.hpp"

namespace moh_dense_test {

using namespace headmix;
using namespace headmix::test;

namespace {

using M = MultiHead<5, 6, 4, causal, kv_heads<2>, query_bias, value_bias, output_bias, rope<>>;
template <class R>
using mixture = Moh<5, 4, R, causal, kv_heads<2>, query_bias, value_bias, output_bias, rope<>>;

/// Copies the parameters that a dense layer has, too.
template <class L>
void share(auto& p, auto& q) {
  p.values(typename L::x{}) = q.values(M::x{});
  p.values(typename L::W_q{}) = q.values(M::W_q{});
  p.values(typename L::W_k{}) = q.values(M::W_k{});
  p.values(typename L::W_v{}) = q.values(M::W_v{});
  p.values(typename L::W_o{}) = q.values(M::W_o{});
  p.values(typename L::b_q{}) = q.values(M::b_q{});
  p.values(typename L::b_v{}) = q.values(M::b_v{});
  p.values(typename L::b_o{}) = q.values(M::b_o{});
}
/// Gradients that do not pass through the weights of heads.
template <class L>
void check_shared(auto& p, auto& q) {
  check_same(p.gradients(typename L::W_k{}), q.gradients(M::W_k{}));
  check_same(p.gradients(typename L::W_v{}), q.gradients(M::W_v{}));
  check_same(p.gradients(typename L::W_o{}), q.gradients(M::W_o{}));
  check_same(p.gradients(typename L::b_v{}), q.gradients(M::b_v{}));
  check_same(p.gradients(typename L::b_o{}), q.gradients(M::b_o{}));
}

}  // namespace

TEST_CASE("moh: all heads with routers of zeros are multi-head attention, forward and backward") {
  using L = mixture<TwoStage<2, 4, 4>>;
  each_batch([&](gradcheck_options const& o, Index rows) {
    TestProgram<roots<type_of<decltype(L::y)>>> p(o, at<tokens>(rows));
    TestProgram<roots<type_of<decltype(M::y)>>> q(o, at<tokens>(rows));
    share<L>(p, q);
    p.values(L::r::W_r{}).assign(20, 0.0);
    p.values(L::r::W_s{}).assign(10, 0.0);
    p.values(L::r::W_h{}).assign(10, 0.0);
    auto const y = p.forward(), z = q.forward();
    for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
    p.backward();
    q.backward();
    check_shared<L>(p, q);
    check_same(p.gradients(L::W_q{}), q.gradients(M::W_q{}));
    check_same(p.gradients(L::b_q{}), q.gradients(M::b_q{}));
    // A router of zeros gives x no gradient.
    check_same(p.gradients(L::x{}), q.gradients(M::x{}));
  });
}
TEST_CASE("moh: all heads by their queries are multi-head attention with the same weights") {
  using L = mixture<QueryNorm<2, 4, 4, estimator::active>>;
  each_batch([&](gradcheck_options const& o, Index rows) {
    TestProgram<roots<type_of<decltype(L::y)>>> p(o, at<tokens>(rows));
    TestProgram<roots<type_of<decltype(M::y)>>> q(o, at<tokens>(rows));
    share<L>(p, q);
    auto const y = p.forward(), z = q.forward();
    for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
    p.backward();
    q.backward();
    check_shared<L>(p, q);
    // The weights of the routed heads, unlike those of shared heads, have a further gradient.
    double difference = 0;
    for (Index i = 0; i < 5; ++i) {
      for (Index j = 0; j < 24; ++j) {
        double const found = p.gradient(L::W_q{})(i, j), dense = q.gradient(M::W_q{})(i, j);
        if (j < 8) CHECK(close(found, dense));
        difference += std::abs(found - dense);
      }
    }
    CHECK((difference > 1e-3) == (rows > 0));
  });
}
TEST_CASE("moh: all heads by their queries are multi-head attention, and its gradients but for those of the weights") {
  // With detached gates, the gradients are those of multi-head attention.
  using L = mixture<QueryNorm<2, 4, 4>>;
  using leaf_roots = roots<type_of<decltype(composed<L>(detach(L::r::gate)))>>;
  TestProgram<leaf_roots> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(M::y)>>> q(at<tokens>(7));
  TestProgram<roots<type_of<decltype(L::y)>>, inference> all(at<tokens>(7));
  share<L>(p, q);
  share<L>(all, q);
  auto const y = p.forward(), z = q.forward(), w = all.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK((close(y.data[i], z.data[i]) && close(w.data[i], z.data[i])));
  p.backward();
  q.backward();
  check_shared<L>(p, q);
  check_same(p.gradients(L::W_q{}), q.gradients(M::W_q{}));
  check_same(p.gradients(L::x{}), q.gradients(M::x{}));
}

}  // namespace moh_dense_test

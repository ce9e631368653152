// SPDX-License-Identifier: MIT
// MH-MoE with all sizes dynamic, and tokens that are not split.

#include "mh_moe.hpp"

namespace mh_moe_sizes_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("mh-moe: gradients of dynamic sizes, and the results of static ones") {
  using S = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, shared_expert<FeedForward<7>>>;
  using L =
      MhMoe<dynamic, dynamic, raw_router<dynamic, dynamic>, FeedForward<dynamic>, shared_expert<FeedForward<dynamic>>>;
  using F = L::network::hidden_dim;
  using F_s = FeedForward<dynamic>::shared<L::model_dim>::hidden_dim;
  check_gradient(L::y, {}, at<L::model_dim>(6), at<L::split>(3), at<L::experts>(4), at<L::top_k>(2), at<F>(5),
                 at<F_s>(7));
  TestProgram<roots<type_of<decltype(L::y)>>> p(at<tokens>(5), at<L::model_dim>(6), at<L::split>(3), at<L::experts>(4),
                                                at<L::top_k>(2), at<F>(5), at<F_s>(7));
  TestProgram<roots<type_of<decltype(S::y)>>> q(at<tokens>(5));
  auto const y = p.forward(), z = q.forward();  // leaves have the same order, and so the same numbers
  REQUIRE(y.size() == 5 * 6);
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
}
TEST_CASE("smoe: gradients") { check_gradient(Smoe<5, raw_router<4, 2>, FeedForward<3>>::y); }
TEST_CASE("smoe: one sub-token is the token") {
  using S = Smoe<5, raw_router<4, 2>, FeedForward<3>>;
  using L = MhMoe<5, 1, raw_router<4, 2>, FeedForward<3>>;
  TestProgram<roots<type_of<decltype(S::y)>>, inference> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(L::y)>>, inference> q(at<tokens>(7));
  p.values(S::x{}) = q.values(L::x{});
  copy_weights(p, q);
  for (Index i = 0; i < 25; ++i) {
    q.in(L::W_head{}).data[i] = q.in(L::W_merge{}).data[i] = i % 6 == 0;  // the identity
  }
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
}

}  // namespace mh_moe_sizes_test

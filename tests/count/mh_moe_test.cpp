// SPDX-License-Identifier: MIT
// Counts of MH-MoE against the products of a backend, and sizes without parity.

#include "counting.hpp"
#include "headmix/count/parity.hpp"
#include "headmix/layer/smoe.hpp"

namespace mh_moe_test {

using namespace headmix;
using namespace headmix::test;

namespace {

using router = SoftmaxTopK<5, 2, gating::raw, loss::first_choice_balance>;
using split = MhMoe<6, 3, router, FeedForward<7>, head_bias, merge_bias, shared_expert<FeedForward<4>>>;
using sparse = Smoe<6, router, FeedForward<7, activation::relu>>;
using any_router = SoftmaxTopK<dynamic, dynamic>;
using any_size = MhMoe<dynamic, dynamic, any_router, FeedForward<dynamic>>;

}  // namespace

TEST_CASE("count: products of MH-MoE are those that a backend runs, parameters those that a module owns") {
  for (Index const tokens_of_each : {0, 1, 7}) {
    check<split>(1, tokens_of_each, 0);
    check<sparse>(1, tokens_of_each, 0);
    check<any_size>(1, tokens_of_each, 0, at<any_size::model_dim>(6), at<any_size::split>(3), at<any_size::experts>(5),
                    at<any_size::top_k>(2), at<any_size::network::hidden_dim>(7));
  }
}

TEST_CASE("parity: sizes without an answer are refused") {
  expert_sizes const smoe = {.hidden = 8, .experts = 1, .top_k = 1, .matrices = 2};
  CHECK(parity_hidden(7, smoe, 1).nearest() == 1);
  CHECK_THROWS_WITH_AS((void)parity_hidden(8, smoe, 1),
                       "headmix: parity: the head and the merge layer alone cost as much as the experts", Error);
  CHECK_THROWS_WITH_AS((void)parity_experts(8, smoe, 2, 4),
                       "headmix: parity: the head and the merge layer alone cost as much as the experts", Error);
  CHECK_THROWS_WITH_AS((void)parity_hidden(7, smoe, 0), "headmix: parity: all sizes must be positive", Error);
  CHECK_THROWS_WITH_AS((void)parity_hidden(7, smoe, 1).nearest(0),
                       "headmix: a number is rounded to multiples of 1 or more; found 0", Error);
  CHECK_THROWS_WITH_AS((void)mh_moe_flops(8, 3, smoe), "headmix: 3 sub-tokens do not divide a width of 8", Error);
}

}  // namespace mh_moe_test

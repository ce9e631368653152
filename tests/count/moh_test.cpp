// SPDX-License-Identifier: MIT
// Counts of MoH: terms that shrink with inactive heads, and terms that do not.

#include "headmix/layer/moh.hpp"

#include "counting.hpp"
#include "headmix/layer/multi_head.hpp"

namespace moh_test {

using namespace headmix;
using namespace headmix::test;

namespace {

using chosen_heads = Moh<6, 3, TwoStage<2, 4, 2>, causal, kv_heads<3>>;
using weighed_heads = Moh<6, 3, TwoStage<4, 0, 0>, sliding_window<3>>;
using in_place = Moh<6, 3, TwoStage<2, 4, 2>, causal, kv_heads<3>, dense_projections>;
using by_queries = Moh<6, 4, QueryNorm<1, 3, 2>, even, rope<dynamic>>;

}  // namespace

TEST_CASE("count: products of chosen heads are those that a backend runs") {
  for (Index const n : {1, 3}) {
    for (Index const length : {1, 7}) {
      check<chosen_heads>(n, length, 0);
      check<weighed_heads>(n, length, 0);
      check<in_place>(n, length, 0);
      check<by_queries>(n, length, 0);
    }
  }
}

namespace {
/// MACs of a layer with all 4 heads of width 3 active, D = 6, and the terms common to both.
using every_head = Moh<6, 3, TwoStage<2, 2, 2>, causal>;
using three_heads = Moh<6, 3, TwoStage<2, 2, 1>, causal>;
constexpr Index projection = 9 * 6 * 4 * 3, attention_term = 2 * (9 * 10 / 2) * 4 * 3, two_stages = 9 * 6 * (2 + 2 + 2);
}  // namespace
static_assert(count_macs<MultiHead<6, 4, 3, causal>>(at<tokens>(9)) == 4 * projection + attention_term);
static_assert(count_macs<every_head>(at<tokens>(9)) == 4 * projection + attention_term + two_stages);
static_assert(count_macs<every_head>({.router = false}, at<tokens>(9)) == 4 * projection + attention_term);
// Keys and values are computed for all heads.
static_assert(count_macs<three_heads>({.router = false}, at<tokens>(9)) ==
              2 * projection + (2 * projection + attention_term) * 3 / 4);
// With dense projections only attention is restricted to the chosen heads.
using dense_three = Moh<6, 3, TwoStage<2, 2, 1>, causal, dense_projections>;
static_assert(count_macs<dense_three>({.router = false}, at<tokens>(9)) == 4 * projection + attention_term * 3 / 4);
// The router compares queries of all heads; in training the outputs of all heads are computed too, except with
// estimator::active.
using compared = Moh<6, 3, QueryNorm<2, 2, 1>, causal>;
using estimated = Moh<6, 3, QueryNorm<2, 2, 1, estimator::active>, causal>;
static_assert(count_macs<compared>(at<tokens>(9)) == 4 * projection + attention_term);
static_assert(count_macs<estimated>(at<tokens>(9)) == 3 * projection + (projection + attention_term) * 3 / 4);
static_assert(count_macs<compared>({.inference = true}, at<tokens>(9)) == count_macs<estimated>(at<tokens>(9)));
static_assert(count_macs<three_heads>({.inference = true}, at<tokens>(9)) == count_macs<three_heads>(at<tokens>(9)));

}  // namespace moh_test

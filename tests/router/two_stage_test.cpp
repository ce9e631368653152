// SPDX-License-Identifier: MIT
// The two-stage router with several shared heads and with none, with both scalings.

#include "two_stage.hpp"

namespace two_stage_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("two stages: several shared heads, several routed ones, by either scaling") {
  using R = TwoStage<dynamic, dynamic, dynamic, loss::head_balance, loss::head_balance_unscaled>;
  check_router<R, false>(2, 4, 2, at<R::shared_heads>(2), at<R::routed_heads>(4), at<R::routed_top_k>(2));
  check_router<R, false>(3, 5, 1, at<R::shared_heads>(3), at<R::routed_heads>(5), at<R::routed_top_k>(1));
  check_router<R, false>(2, 3, 3, at<R::shared_heads>(2), at<R::routed_heads>(3), at<R::routed_top_k>(3));
  using Paper = TwoStage<dynamic, dynamic, dynamic, scaling::paper>;
  check_router<Paper, true>(2, 4, 2, at<Paper::shared_heads>(2), at<Paper::routed_heads>(4),
                            at<Paper::routed_top_k>(2));
  check_router<Paper, true>(2, 3, 1, at<Paper::shared_heads>(2), at<Paper::routed_heads>(3),
                            at<Paper::routed_top_k>(1));
  check_router<Paper, true>(3, 3, 3, at<Paper::shared_heads>(3), at<Paper::routed_heads>(3),
                            at<Paper::routed_top_k>(3));
}
TEST_CASE("two stages: no shared head") {
  using R = TwoStage<0, dynamic, dynamic>;
  check_router<R, false>(0, 4, 2, at<R::routed_heads>(4), at<R::routed_top_k>(2));
  check_router<R, false>(0, 4, 4, at<R::routed_heads>(4), at<R::routed_top_k>(4));
  check_router<TwoStage<0, 4, 1, scaling::paper>, true>(0, 4, 1);
}

}  // namespace two_stage_test

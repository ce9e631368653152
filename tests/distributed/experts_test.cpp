// SPDX-License-Identifier: MIT
// Tokens that are divided among ranks, and feed-forward experts that are, too.
#include "headmix/layer/data_parallel.hpp"
#include "on_ranks.hpp"

using namespace on_ranks;

TEST_CASE("Smoe whose experts and tokens are divided among ranks") {
  using R = SoftmaxTopK<5, 2>;
  using One = Smoe<12, R, FeedForward<10>>;
  using Many = DataParallel<Smoe<12, R, FeedForward<10>, expert_parallel>>;
  check<One, Many>({7}, 1, given_rows::one_rank);
  check<One, Many>({7, 6}, 1, given_rows::one_rank);
  check<One, Many>({3, 0, 5, 1}, 1, given_rows::one_rank);
  check<One, Many>({0, 9}, 1, given_rows::one_rank);
}
TEST_CASE("MH-MoE with capacity whose experts and tokens are divided among ranks") {
  using R = SoftmaxTopK<3, 2, loss::first_choice_balance>;
  using One = MhMoe<12, 2, R, FeedForward<5, activation::gelu>, capacity<1>, subtoken_residual>;
  using Many =
      DataParallel<MhMoe<12, 2, R, FeedForward<5, activation::gelu>, capacity<1>, subtoken_residual, expert_parallel>>;
  check<One, Many>({4, 5}, 1, given_rows::one_rank);
  check<One, Many>({2, 0, 3, 8}, 1, given_rows::one_rank);
}
TEST_CASE("MoA whose tokens are divided among ranks") {
  using One = Moa<12, 4, SoftmaxTopK<5, 3, loss::cv_squared, loss::z>, causal>;
  check<One, DataParallel<One>>({4, 8}, 4, given_rows::one_rank);
  check<One, DataParallel<One>>({4, 0, 12}, 4, given_rows::one_rank);
  check<One, DataParallel<One>>({3, 0, 3, 6}, 3, given_rows::one_rank);
}

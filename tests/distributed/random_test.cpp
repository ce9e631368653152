// SPDX-License-Identifier: MIT
// Random numbers on several ranks: equal draws for equal tokens, different draws for different tokens.
#include "headmix/layer/data_parallel.hpp"
#include "on_ranks.hpp"

namespace distributed_random_test {

using namespace on_ranks;

namespace {

constexpr Index width = 12, rows_of_rank = 8, ranks_here = 3;

using Dense = MultiHead<width, 6, 2, causal, output_dropout<1, 2>>;
using Experts = Smoe<width, SoftmaxTopK<3, 2>, FeedForward<5>, output_dropout<1, 2>>;
using DividedExperts = Smoe<width, SoftmaxTopK<3, 2>, FeedForward<5>, output_dropout<1, 2>, expert_parallel>;
struct Network {
  struct x : input<tokens, size<width>> {};
  static constexpr auto experts = use<DividedExperts, "ffn">(x{});
  static constexpr auto y = experts.y;
  using losses = type_list<>;
  using observed = type_list<>;
};

/// The positions of the nonzero elements of y, for all rows, by rank.
template <class L>
std::vector<std::vector<bool>> kept(std::vector<Index> const& first_tokens, Index tokens_of_rank = rows_of_rank) {
  auto const ranks = static_cast<Index>(first_tokens.size());
  std::vector<std::vector<bool>> all(first_tokens.size());
  auto const x = numbers(tokens_of_rank * width, 1);
  run_ranks(ranks, [&](Local& c) {
    Module<L, Ranked> m(3, Ranked(c));
    auto const r = static_cast<std::size_t>(c.rank());
    if (first_tokens[r] >= 0) {
      m.set_randomness(randomness(3, 5, 0, static_cast<std::uint32_t>(first_tokens[r])));
    }
    auto const y = m.forward({x.data(), tokens_of_rank, width});
    for (Index i = 0; i < y.size(); ++i) all[r].push_back(y.data[i] != 0);
  });
  return all;
}
double agreement(std::vector<bool> const& a, std::vector<bool> const& b) {
  REQUIRE(a.size() == b.size());
  double same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i];
  return same / static_cast<double>(a.size());
}
template <class L>
void draws_by_rank() {
  auto const all = kept<L>(std::vector<Index>(ranks_here, -1), 64);  // 768 numbers: a standard deviation is 0.018
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t s = r + 1; s < all.size(); ++s) CHECK(std::abs(agreement(all[r], all[s]) - 0.5) < 0.09);
  }
}

}  // namespace

TEST_CASE("random: ranks with tokens of their own draw numbers of their own") {
  draws_by_rank<DataParallel<Dense>>();
  draws_by_rank<DividedExperts>();
  draws_by_rank<Network>();
}
TEST_CASE("random: ranks with the same tokens draw the same") {
  using Heads = MultiHead<width, 6, 2, causal, output_dropout<1, 2>, tensor_parallel>;
  auto const all = kept<Heads>(std::vector<Index>(ranks_here, -1));
  CHECK(all[0] == all[1]);
  CHECK(all[0] == all[2]);
}
TEST_CASE("random: with the numbers of their first tokens, ranks draw what one process draws") {
  std::vector<bool> together;
  for (auto const& part : kept<DataParallel<Dense>>({0, rows_of_rank, 2 * rows_of_rank})) {
    together.insert(together.end(), part.begin(), part.end());
  }
  CHECK(together == kept<Dense>({0}, ranks_here * rows_of_rank)[0]);
}

}  // namespace distributed_random_test

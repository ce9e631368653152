// SPDX-License-Identifier: MIT

#include "headmix/analysis/experts.hpp"

#include <doctest/doctest.h>

using namespace headmix;

TEST_CASE("the entropy of a gate") {
  double const g[] = {0.25, 0.25, 0.25, 0.25, 1, 0, 0, 0};
  CHECK(gate_entropy(view<double const>(g, 1, 4)) == doctest::Approx(std::log(4)));
  CHECK(gate_entropy(view<double const>(g, 2, 4)) == doctest::Approx(std::log(4) / 2));
  CHECK(gate_entropy(view<double const>(g, 0, 4)) == 0);
}
TEST_CASE("experts and the tokens that meet them") {
  // Token 0 chooses expert 0 only, token 1 both evenly, token 2 once, token 3 never.
  ExpertCounts counts(4, 2);
  Int const tokens[] = {0, 0, 1, 1, 2, 0}, chosen[] = {0, 0, 0, 1, 1, -1};
  counts.add({tokens, 6, 1}, view<Int const>(chosen, 6, 1));
  CHECK(counts.total() == 5);
  CHECK(counts.of_token(0) == 2);
  CHECK(counts.of_expert(1) == 2);
  CHECK(counts.share(0) == doctest::Approx(0.6));
  auto const typical = most_typical_tokens(counts, 0, 5);
  REQUIRE(typical.size() == 2);
  CHECK(typical[0].token == 0);
  CHECK(typical[0].pmi == doctest::Approx(std::log(2.0 * 5 / (2 * 3))));
  CHECK(typical[1].token == 1);
  CHECK(typical[1].pmi == doctest::Approx(std::log(1.0 * 5 / (2 * 3))));
  CHECK(most_typical_tokens(counts, 1, 1).size() == 1);
  CHECK(most_typical_tokens(counts, 1, 5, 2).front().token == 1);
  CHECK_THROWS_WITH_AS(counts.add(4, 0), "headmix: ExpertCounts: expected a token below 4, found 4", Error);
  CHECK_THROWS_WITH_AS(counts.add(0, 2), "headmix: ExpertCounts: expected an expert below 2, found 2", Error);
  CHECK(ExpertCounts(2, 2).share(0) == 0);
}
TEST_CASE("what experts are for: their entropy, and what a token tells of them") {
  ExpertCounts counts(4, 2);  // as in the first test
  Int const tokens[] = {0, 0, 1, 1, 2}, chosen[] = {0, 0, 0, 1, 1};
  counts.add({tokens, 5, 1}, view<Int const>(chosen, 5, 1));
  CHECK(expert_entropy(counts) == doctest::Approx(-0.6 * std::log(0.6) - 0.4 * std::log(0.4)));
  // H(expert) - H(expert | token); only token 1 has both experts.
  CHECK(mutual_information(counts) == doctest::Approx(expert_entropy(counts) - 0.4 * std::log(2)));

  ExpertCounts sure(3, 3), even(3, 3), one(3, 3);
  for (Index t = 0; t < 3; ++t) {
    sure.add(t, t, 2);
    one.add(t, 1);
    for (Index e = 0; e < 3; ++e) even.add(t, e);
  }
  CHECK(expert_entropy(sure) == doctest::Approx(std::log(3)));
  CHECK(mutual_information(sure) == doctest::Approx(std::log(3)));
  CHECK(expert_entropy(even) == doctest::Approx(std::log(3)));
  CHECK(mutual_information(even) == doctest::Approx(0));
  CHECK(expert_entropy(one) == 0);
  CHECK(mutual_information(one) == doctest::Approx(0));
  CHECK(expert_entropy(ExpertCounts(2, 2)) == 0);
  CHECK(mutual_information(ExpertCounts(2, 2)) == 0);
}

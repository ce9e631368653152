// SPDX-License-Identifier: MIT
// sample_token against a plain definition: the ranking, the kept tokens, the frequencies of draws, and the errors.

#include "headmix/decode/sampling.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "../error_of.hpp"
#include "headmix/core/scalar.hpp"

namespace sampling_test {
namespace {

using namespace headmix;
using test::error_of, test::says;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The probabilities of all tokens, by a sort and two running sums.
std::vector<double> probabilities(std::vector<double> const& logits, SamplingOptions const& o) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (o.temperature == 0) {
    order.resize(1);
  } else if (o.top_k > 0 && static_cast<std::size_t>(o.top_k) < order.size()) {
    order.resize(static_cast<std::size_t>(o.top_k));
  }
  auto const weight = [&](std::size_t i) {
    return o.temperature == 0 ? 1 : std::exp((logits[i] - logits[order[0]]) / o.temperature);
  };
  double total = 0, nucleus = 0;
  for (std::size_t const i : order) total += weight(i);
  std::vector<double> p(logits.size());
  for (std::size_t const i : order) {
    p[i] = weight(i);
    nucleus += p[i];
    if (o.top_p < 1 && nucleus >= o.top_p * total) break;
  }
  for (double& q : p) q /= nucleus;
  return p;
}
template <class T>
std::vector<T> rounded(std::vector<double> const& logits) {
  std::vector<T> numbers;
  for (double const x : logits) numbers.push_back(static_cast<T>(static_cast<float>(x)));
  return numbers;
}
template <class T>
view<T const> row(std::vector<T> const& logits) {
  return {logits.data(), 1, static_cast<Index>(logits.size())};
}
Int sample(std::vector<double> const& logits, SamplingOptions const& o, std::uint64_t position = 0) {
  return sample_token(row(logits), o, Random(1), position);
}
std::vector<double> normal(std::uint64_t seed, std::size_t n) {
  std::vector<double> numbers(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = 2 * Random(seed).normal(i);
  return numbers;
}

SamplingOptions const options[] = {{},
                                   {.temperature = 0},
                                   {.temperature = 0.5},
                                   {.temperature = 3},
                                   {.top_k = 1},
                                   {.top_k = 5},
                                   {.top_p = 0.5},
                                   {.top_p = 0.9},
                                   {.temperature = 0.7, .top_k = 8, .top_p = 0.8},
                                   {.temperature = 0.7, .top_k = 100, .top_p = 0.95},
                                   {.temperature = 0, .top_k = 3, .top_p = 0.1}};

TEST_CASE("sample_token draws the token in whose interval the random number lies") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    auto logits = normal(seed, 1 + seed);
    if (seed % 3 == 0) {
      for (std::size_t i = 0; i < logits.size(); i += 4) logits[i] = -infinity;  // token 0 too
      if (logits.size() == 1) logits[0] = 0;
    }
    if (seed % 3 == 1) {
      for (double& x : logits) x = std::round(x);  // equal logits
    }
    for (auto const& o : options) {
      auto const p = probabilities(logits, o);
      for (std::uint64_t position = 0; position < 20; ++position) {
        double const u = Random(1).uniform(position);
        double below = 0;
        std::size_t expected = 0;
        while (u >= below + p[expected]) below += p[expected++];
        CHECK(static_cast<std::size_t>(sample(logits, o, position)) == expected);
      }
    }
  }
}

TEST_CASE("the frequencies of sample_token are the probabilities: chi-square") {
  constexpr std::uint64_t draws = 20000;
  auto const logits = normal(3, 12);
  for (auto const& o : options) {
    auto const p = probabilities(logits, o);
    std::vector<double> seen(p.size());
    for (std::uint64_t i = 0; i < draws; ++i) ++seen[static_cast<std::size_t>(sample(logits, o, i))];
    double chi = 0, freedom = -1;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i] == 0) {
        CHECK(seen[i] == 0);
        continue;
      }
      double const expected = p[i] * draws;
      chi += (seen[i] - expected) * (seen[i] - expected) / expected;
      ++freedom;
    }
    CHECK(chi <= freedom + 4 * std::sqrt(2 * freedom));  // 4 deviations
    if (freedom > 0) CHECK(chi > 0);
  }
}

TEST_CASE("sample_token is a function of seed, sequence and position") {
  auto const logits = normal(4, 1000);
  std::size_t different = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    CHECK(sample(logits, {}, i) == sample(logits, {}, i));
    different += sample(logits, {}, i) != sample(logits, {}, i + 1);
    different += sample_token(row(logits), {}, Random(1, 1), i) != sample_token(row(logits), {}, Random(1, 2), i);
    different += sample_token(row(logits), {}, Random(1), i) != sample_token(row(logits), {}, Random(2), i);
  }
  CHECK(different > 280);
}

TEST_CASE("equal logits are ranked by their ids") {
  std::vector<double> const equal(8, -3.5);
  std::vector<bool> of_k(8), of_p(8);
  for (std::uint64_t i = 0; i < 200; ++i) {
    CHECK(sample(equal, {.temperature = 0}, i) == 0);
    of_k[static_cast<std::size_t>(sample(equal, {.top_k = 3}, i))] = true;
    of_p[static_cast<std::size_t>(sample(equal, {.top_p = 0.5}, i))] = true;
  }
  CHECK(of_k == std::vector<bool>{true, true, true, false, false, false, false, false});
  CHECK(of_p == std::vector<bool>{true, true, true, true, false, false, false, false});
}

TEST_CASE("the edges of top_k, top_p and temperature") {
  auto const logits = normal(5, 50);
  auto const first = static_cast<Int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (std::uint64_t i = 0; i < 100; ++i) {
    CHECK(sample(logits, {.top_p = 1e-300}, i) == first);
    CHECK(sample(logits, {.top_k = 1}, i) == first);
    CHECK(sample(logits, {.temperature = 1e-300}, i) == first);
    CHECK(sample(logits, {.temperature = std::numeric_limits<double>::denorm_min()}, i) == first);
    Int const all = sample(logits, {}, i);
    CHECK(sample(logits, {.top_k = 50}, i) == all);
    CHECK(sample(logits, {.top_k = std::numeric_limits<Index>::max()}, i) == all);
    CHECK(sample(logits, {.top_p = std::nextafter(1.0, 0.0)}, i) == all);
    CHECK(sample({-infinity, 2, -infinity}, {.temperature = 1e300}, i) == 1);
    CHECK(sample({1e308, -1e308}, {}, i) == 0);
    CHECK(sample({-7}, {.temperature = 2, .top_k = 4, .top_p = 0.5}, i) == 0);
  }
}

TEST_CASE("logits of bfloat16, float and a column of a matrix are read as double") {
  auto const numbers = normal(6, 40);
  auto const narrow = rounded<bfloat16>(numbers);
  auto const single = rounded<float>(numbers);
  std::vector<double> of_narrow(narrow.begin(), narrow.end()), of_single(single.begin(), single.end());
  std::vector<float> matrix(120);
  for (std::size_t i = 0; i < 40; ++i) matrix[3 * i + 1] = single[i];
  view<float> const column = view<float>(matrix.data(), 40, 3).middle_cols(1, 1).transposed();
  for (auto const& o : options) {
    for (std::uint64_t i = 0; i < 50; ++i) {
      CHECK(sample_token(row(narrow), o, Random(1), i) == sample(of_narrow, o, i));
      CHECK(sample_token(row(single), o, Random(1), i) == sample(of_single, o, i));
      CHECK(sample_token(column, o, Random(1), i) == sample(of_single, o, i));
    }
  }
}

TEST_CASE("sample_token refuses options out of range, and logits without a distribution") {
  double const nan = std::nan("");
  auto const of_options = [](SamplingOptions const& o) { return error_of([&] { (void)sample({1, 2}, o); }); };
  for (double const t : {-1.0, infinity, nan}) {
    CHECK(says(of_options({.temperature = t}), "temperature: expected a finite number of at least 0, found "));
  }
  CHECK(says(of_options({.top_k = -1}), "top_k: expected at least 0, found -1"));
  for (double const p : {0.0, -0.5, 1.5, nan}) {
    CHECK(says(of_options({.top_p = p}), "top_p: expected more than 0 and at most 1, found "));
  }
  CHECK(says(of_options({.temperature = 0, .top_p = 2}), "found 2"));
  auto const of_logits = [](std::vector<double> const& l) { return error_of([&] { (void)sample(l, {}); }); };
  CHECK(says(of_logits({1, nan, 2}), "expected finite numbers or minus infinity, found nan for token 1"));
  CHECK(says(of_logits({nan}), "for token 0"));
  CHECK(says(of_logits({1, 2, infinity}), "found inf for token 2"));
  CHECK(says(of_logits({-infinity, -infinity}), "found minus infinity for all 2 tokens"));
  CHECK(says(of_logits({}), "logits: expected [1, vocabulary], found [1, 1, 0]"));
  std::vector<double> const two(6);
  CHECK(says(error_of([&] { (void)sample_token(view<double const>(two.data(), 2, 3), {}, Random(1), 0); }),
             "found [1, 2, 3]"));
}

}  // namespace
}  // namespace sampling_test

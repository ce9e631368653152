// SPDX-License-Identifier: MIT
// A bias of scores for ragged sequences, whose lengths a program on a device does not know: a query that sees a pair
// outside of the bias becomes NaN, others equal the reference.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"
#include "headmix/testing/emulated.hpp"

namespace cuda_relative_bias_test {

using namespace headmix;

namespace {

/// Also positions below 0 see all keys.
struct everything {
  static constexpr bool sees(Index, Index) { return true; }
};

/// y and the gradient of the bias's last layer, of queries and keys filled with sines.
template <class L, class Backend>
std::pair<std::vector<double>, std::vector<double>> run(segments queries, segments keys) {
  Module<L, Backend> m(1);
  auto const sines = [](Index n, double step) {
    std::vector<double> v;
    for (Index i = 1; i <= n; ++i) v.push_back(0.5 * std::sin(step * static_cast<double>(i)));
    return v;
  };
  Backend backend = m.backend();
  double step = 0.7;
  for (auto const& p : m.parameters()) {
    auto const v = sines(p.value.size(), step += 0.37);
    upload(backend, p.value.data, v.data(), v.size());
  }
  auto const x = sines(queries.rows * 8, 2.3), context = sines(keys.rows * 6, 1.9);
  backend_memory<Backend> x_there(x.size() * sizeof(double)), context_there(context.size() * sizeof(double));
  upload(backend, x_there.template as<double>(), x.data(), x.size());
  upload(backend, context_there.template as<double>(), context.data(), context.size());
  view<double const> const in(x_there.template as<double>(), queries.rows, 8);
  auto const y = m.forward(in, queries, view<double const>(context_there.template as<double>(), keys.rows, 6), keys);
  std::vector<double> result(x.size());
  download(backend, result.data(), y.data, result.size());
  m.backward(in);
  auto const& g = m.parameters().back().gradient;
  std::vector<double> gradient(static_cast<std::size_t>(g.size()));
  download(backend, gradient.data(), g.data, gradient.size());
  return {result, gradient};
}
bool all_nan(std::vector<double> const& y, std::size_t first, std::size_t last) {
  bool all = true;
  for (std::size_t i = 8 * first; i < 8 * last; ++i) all = all && std::isnan(y[i]);
  return all;
}

}  // namespace

TEST_CASE("cuda, emulated: pairs that a bias has no number for make their rows NaN") {
  using Gpu = Cuda<double, Emulated>;
  using Far = MultiHead<8, 4, 4, everything, context_dim<6>, relative_position_bias<2, 3, 4>>;
  using Near = MultiHead<8, 4, 4, causal, context_dim<6>, relative_position_bias<2, 3, 4>>;
  // Sequence 0 is in order. Sequence 1 has 5 queries, from position -2 on, for 3 keys.
  static constexpr Int queries[] = {0, 3, 8}, keys[] = {0, 5, 8};
  auto const below = run<Far, Gpu>(ragged(queries, 2), ragged(keys, 2)).first;
  auto const whole = run<Far, Reference<double>>(uniform(1, 3), uniform(1, 5)).first;
  for (std::size_t i = 0; i < 24; ++i) CHECK(std::abs(below[i] - whole[i]) < 1e-12);
  CHECK(all_nan(below, 3, 5));
  for (std::size_t i = 40; i < 64; ++i) CHECK(std::isfinite(below[i]));
  // Sequence 1 has 8 keys, of which the bias has 6: the queries at positions 6 and 7 are of none.
  static constexpr Int more_queries[] = {0, 3, 11}, more_keys[] = {0, 5, 13};
  auto const behind = run<Near, Gpu>(ragged(more_queries, 2), ragged(more_keys, 2)).first;
  for (std::size_t i = 0; i < 72; ++i) CHECK(std::isfinite(behind[i]));
  CHECK(all_nan(behind, 9, 11));
}
TEST_CASE("cuda, emulated: a bias with a number for every pair of ragged sequences") {
  using L = MultiHead<8, 4, 4, causal, context_dim<6>, relative_position_bias<2, 3, 4>>;
  static constexpr Int queries[] = {0, 3, 3, 5}, keys[] = {0, 5, 6, 12};
  auto const found = run<L, Cuda<double, Emulated>>(ragged(queries, 3), ragged(keys, 3));
  auto const expected = run<L, Reference<double>>(ragged(queries, 3), ragged(keys, 3));
  for (std::size_t i = 0; i < expected.first.size(); ++i) CHECK(std::abs(found.first[i] - expected.first[i]) < 1e-12);
  for (std::size_t i = 0; i < expected.second.size(); ++i)
    CHECK(std::abs(found.second[i] - expected.second[i]) < 1e-12);
}

}  // namespace cuda_relative_bias_test

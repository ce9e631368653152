#pragma once
// SPDX-License-Identifier: MIT
// A layer on several ranks against the layer in one process: results, losses and all gradients.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "headmix/distributed/distributed.hpp"
#include "headmix/distributed/local.hpp"
#include "headmix/headmix.hpp"

namespace on_ranks {

using namespace headmix;
using Ranked = Distributed<Cpu<double>, Local>;

/// The results of a pass in the form of one process: rows of all ranks, whole parameters.
struct Pass {
  std::vector<double> y, d_x, losses;
  std::map<std::string, std::vector<double>> gradients, values;
};

inline std::vector<double> numbers(Index n, double seed) {
  std::vector<double> all(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::sin(seed + 1.7 * static_cast<double>(i) + seed * seed);
  return all;
}
/// Fills parameters with numbers that do not depend on the rank's part: routers initialised to zero would tie.
template <class M>
void set_parameters(M& m) {
  double seed = 0;
  for (auto const& p : m.parameters()) {
    seed += 1;
    view<double> const v = p.value;
    Index i = 0;
    for (Index c = 0; c < v.count; ++c) {
      for (Index r = 0; r < v.rows; ++r) {
        for (Index k = 0; k < v.cols; ++k) {
          v.data[i++] += 0.4 * std::sin(seed + 0.37 * static_cast<double>(p.part.number(c, r, k)));
        }
      }
    }
  }
}
/// Adds this rank's part of a parameter to the whole one.
inline void put(std::vector<double>& whole, parameter<double> const& p, view<double> const& v) {
  auto const extents = p.whole();
  whole.resize(static_cast<std::size_t>(extents[0] * extents[1] * extents[2]));
  Index i = 0;
  for (Index c = 0; c < v.count; ++c) {
    for (Index r = 0; r < v.rows; ++r) {
      for (Index k = 0; k < v.cols; ++k) whole[static_cast<std::size_t>(p.part.number(c, r, k))] = v.data[i++];
    }
  }
}
/// The rows of x on a rank: all rows, or its share.
enum class given_rows { all_ranks, one_rank };

/// The sum over the ranks, where each rank has zeros for the parts of the others.
template <class C>
void sum(C& ranks, std::vector<double>& all) {
  ranks.all_sum(all.data(), static_cast<double const*>(all.data()), static_cast<Index>(all.size()));
}

/// One forward and backward pass of L on all ranks. `rows` are the numbers of tokens of the ranks, in sequences of
/// `length` tokens.
template <class L, class M, class C>
Pass run(M& m, C& ranks, std::vector<Index> const& rows, Index length, given_rows where) {
  Index first = 0, total = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (static_cast<Index>(r) < ranks.rank()) first += rows[r];
    total += rows[r];
  }
  bool const all = where == given_rows::all_ranks;
  Index const mine = all ? total : rows[static_cast<std::size_t>(ranks.rank())];
  if (all) first = 0;
  constexpr Index D = L::model_dim::value;
  auto const x = numbers(total * D, 1), dy = numbers(total * D, 2);
  set_parameters(m);
  m.zero_gradients();
  batch const b = mine == 0 ? batch(uniform(1, 0)) : batch(uniform(mine / length, length));
  auto const y = m.forward({x.data() + first * D, mine, D}, b);
  constexpr int losses = L::losses::size;
  std::vector<double> weights;
  for (int i = 0; i < losses; ++i) weights.push_back(0.3 + i);
  m.backward({dy.data() + first * D, mine, D}, std::span<double const>(weights));
  auto const d_x = m.input_gradient();
  Pass pass;
  pass.y.resize(static_cast<std::size_t>(total * D)), pass.d_x.resize(pass.y.size());
  std::copy_n(y.data, mine * D, pass.y.data() + first * D);
  std::copy_n(d_x.data, mine * D, pass.d_x.data() + first * D);
  if (!all) sum(ranks, pass.y), sum(ranks, pass.d_x);
  if constexpr (losses > 0) pass.losses.push_back(m.template loss<0>());
  if constexpr (losses > 1) pass.losses.push_back(m.template loss<1>());
  for (auto const& p : m.parameters()) {
    auto &gradient = pass.gradients[std::string(p.name)], &value = pass.values[std::string(p.name)];
    put(gradient, p, p.gradient);
    put(value, p, p.value);
    // The gradient of a replicated parameter is the sum over the ranks' tokens.
    if (p.part.divided || !all) sum(ranks, gradient);
    if (p.part.divided) sum(ranks, value);
  }
  return pass;
}
inline double difference(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]) / (1 + std::abs(a[i])));
  return most;
}
inline void compare(Pass const& one, Pass const& many, double tolerance) {
  CHECK(difference(one.y, many.y) <= tolerance);
  CHECK(difference(one.d_x, many.d_x) <= tolerance);
  CHECK(difference(one.losses, many.losses) <= tolerance);
  REQUIRE(one.gradients.size() == many.gradients.size());
  for (auto const& g : one.gradients) {
    std::string const& name = g.first;
    auto const& gradient = g.second;
    CAPTURE(name);
    CHECK(difference(one.values.at(name), many.values.at(name)) == 0);
    CHECK(difference(gradient, many.gradients.at(name)) <= tolerance);
  }
}

/// Layer One in one process.
template <class One, class... Sizes>
Pass in_one_process(std::vector<Index> const& rows, Index length, Sizes... sizes) {
  Pass pass;
  Index total = 0;
  for (Index const n : rows) total += n;
  run_ranks(1, [&](Local& alone) {
    Module<One, Cpu<double>> m(7, Cpu<double>(), sizes...);
    pass = run<One>(m, alone, {total}, length, given_rows::all_ranks);
  });
  return pass;
}

}  // namespace on_ranks

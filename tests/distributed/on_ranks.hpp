#pragma once
// SPDX-License-Identifier: MIT
// A layer on several ranks against the same layer in one process: results, losses and all gradients.

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "headmix/distributed/distributed.hpp"
#include "headmix/distributed/local.hpp"
#include "headmix/headmix.hpp"

namespace on_ranks {

using namespace headmix;
using Ranked = Distributed<Cpu<double>, Local>;

/// What a pass makes, as one process has it: rows of all ranks, whole parameters.
struct Pass {
  std::vector<double> y, d_x, losses;
  std::map<std::string, std::vector<double>> gradients, values;
};

inline std::vector<double> numbers(Index n, double seed) {
  std::vector<double> all(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::sin(seed + 1.7 * static_cast<double>(i) + seed * seed);
  return all;
}
/// Parameters get numbers that do not depend on which part of them is here: routers that start at zero would be tied.
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
/// Adds the part of a parameter that is here to the whole one.
inline void put(std::vector<double>& whole, parameter<double> const& p, view<double> const& v) {
  whole.resize(static_cast<std::size_t>(p.part.whole[0] * p.part.whole[1] * p.part.whole[2]));
  Index i = 0;
  for (Index c = 0; c < v.count; ++c) {
    for (Index r = 0; r < v.rows; ++r) {
      for (Index k = 0; k < v.cols; ++k) whole[static_cast<std::size_t>(p.part.number(c, r, k))] = v.data[i++];
    }
  }
}
/// Which rows of x, all of them or its share, a rank has.
enum class given_rows { all_ranks, one_rank };

/// One pass forward and backward of L. `rows` are the tokens of each rank, of sequences that have `length` of them.
template <class L, class M>
void run(M& m, Index rank, std::vector<Index> const& rows, Index length, given_rows where, std::mutex& mutex,
         Pass& pass) {
  Index first = 0, total = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (static_cast<Index>(r) < rank) first += rows[r];
    total += rows[r];
  }
  Index const mine = where == given_rows::all_ranks ? total : rows[static_cast<std::size_t>(rank)];
  if (where == given_rows::all_ranks) first = 0;
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
  std::lock_guard const lock(mutex);
  pass.y.resize(static_cast<std::size_t>(total * D)), pass.d_x.resize(pass.y.size());
  for (Index i = 0; i < mine * D; ++i) {
    pass.y[static_cast<std::size_t>(first * D + i)] = y.data[i];
    pass.d_x[static_cast<std::size_t>(first * D + i)] = d_x.data[i];
  }
  pass.losses.clear();
  if constexpr (losses > 0) pass.losses.push_back(m.template loss<0>());
  if constexpr (losses > 1) pass.losses.push_back(m.template loss<1>());
  for (auto const& p : m.parameters()) {
    bool const whole = !p.part.divided;
    auto& gradient = pass.gradients[std::string(p.name)];
    if (where == given_rows::one_rank && whole && !gradient.empty()) {
      // The gradient by what all ranks have is the sum of those by their tokens.
      for (Index i = 0; i < p.gradient.size(); ++i) gradient[static_cast<std::size_t>(i)] += p.gradient.data[i];
    } else {
      put(gradient, p, p.gradient);
    }
    put(pass.values[std::string(p.name)], p, p.value);
  }
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
  for (auto const& [name, gradient] : one.gradients) {
    CAPTURE(name);
    CHECK(difference(one.values.at(name), many.values.at(name)) == 0);
    CHECK(difference(gradient, many.gradients.at(name)) <= tolerance);
  }
}

/// Layer One in one process and Many on ranks that have so many rows each.
template <class One, class Many, class... Sizes>
void check(std::vector<Index> const& rows, Index length, given_rows where, Sizes... sizes) {
  Pass one, first, again;
  std::mutex mutex;
  Index total = 0;
  for (Index const n : rows) total += n;
  {
    Module<One, Cpu<double>> m(7, Cpu<double>(), sizes...);
    run<One>(m, 0, {total}, length, given_rows::all_ranks, mutex, one);
  }
  for (Pass* const pass : {&first, &again}) {
    run_ranks(static_cast<Index>(rows.size()), [&](Local& c) {
      Module<Many, Ranked> m(7, Ranked(c), sizes...);
      run<Many>(m, c.rank(), rows, length, where, mutex, *pass);
    });
  }
  compare(one, first, 1e-12);
  CHECK(first.y == again.y);  // to the bit
  if (where == given_rows::all_ranks) {
    CHECK(first.d_x == again.d_x);
    CHECK(first.gradients == again.gradients);
  }
}

}  // namespace on_ranks

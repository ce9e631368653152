#pragma once
// SPDX-License-Identifier: MIT
// Requirements of every executor.

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/core/error.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"

namespace headmix::test {

/// Every task runs once, also those of a parallel_for inside a task.
template <Executor E>
void check_runs_every_task_once(E& executor) {
  for (Index const n : {0, 1, 2, 3, 100}) {
    std::vector<int> hits(static_cast<std::size_t>(n * 3), 0);
    executor.parallel_for(
        n, [&](Index i) { executor.parallel_for(3, [&](Index j) { ++hits[static_cast<std::size_t>(i * 3 + j)]; }); });
    CHECK(hits == std::vector<int>(hits.size(), 1));
  }
}

/// "the sum is 4950" if each of 100 tasks has run once.
template <Executor E>
std::string sum_of_tasks(E& executor) {
  std::atomic<Index> sum{0};
  executor.parallel_for(100, [&](Index i) { sum += i; });
  return message("the sum is ", sum.load());
}

/// The result and all gradients of a layer, concatenated.
template <class Backend>
std::vector<float> run_layer(Backend backend) {
  Module<Moa<24, 16, SoftmaxTopK<6, 3>, causal>, Backend> m(3, backend);
  constexpr Index sequences = 3, length = 131, width = 24;
  std::vector<float> x(sequences * length * width), dy(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(Random(7).uniform(i) - 0.5);
    dy[i] = static_cast<float>(Random(8).uniform(i) - 0.5);
  }
  auto const y = m.forward({x.data(), sequences * length, width}, uniform(sequences, length));
  std::vector<float> all(y.data, y.data + y.size());
  m.backward({dy.data(), y.rows, y.cols}, {0.1, 0.2});
  for (auto const& p : m.parameters()) all.insert(all.end(), p.gradient.data, p.gradient.data + p.gradient.size());
  all.insert(all.end(), m.input_gradient().data, m.input_gradient().data + x.size());
  return all;
}

/// A layer has the bits of serial execution, twice.
template <Executor E>
void check_same_bits(E& executor) {
  static std::vector<float> const serially = run_layer(Cpu<float>{});
  for (int again = 0; again < 2; ++again) CHECK(run_layer(Cpu<float, E>{executor}) == serially);
}

}  // namespace headmix::test

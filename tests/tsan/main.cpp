// SPDX-License-Identifier: MIT
// Executors and layers on threads under ThreadSanitizer, which ends the program with a special status after a race.
// Without OpenMP, whose runtime is not instrumented.

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/interop/host_threads.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

namespace {

int failures = 0;

void expect(bool holds, char const* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

/// Nested tasks write without a lock, each to its own place.
template <Executor E>
bool every_task_once(E& executor) {
  bool right = true;
  for (Index const n : {0, 1, 2, 3, 100}) {
    std::vector<int> hits(static_cast<std::size_t>(3 * n));
    executor.parallel_for(
        n, [&](Index i) { executor.parallel_for(3, [&](Index j) { ++hits[static_cast<std::size_t>(3 * i + j)]; }); });
    right = right && hits == std::vector<int>(hits.size(), 1);
  }
  return right;
}

/// Runs f on n threads at the same time.
template <class F>
void on_threads(int n, F f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back(f, i);
  for (auto& t : threads) t.join();
}

/// A pool, the threads of a host, or a user's executor that starts threads for each call.
struct chosen_executor {
  thread_pool* pool = nullptr;
  host_threads* host = nullptr;
  [[nodiscard]] Index concurrency() const {
    return pool != nullptr ? pool->concurrency() : host != nullptr ? host->concurrency() : 3;
  }
  template <class F>
  void parallel_for(Index n, F&& f) {
    if (pool != nullptr) return pool->parallel_for(n, f);
    if (host != nullptr) return host->parallel_for(n, f);
    on_threads(3, [&](int thread) {
      for (Index i = thread; i < n; i += 3) f(i);
    });
  }
};
using Layer = Moa<12, 8, SoftmaxTopK<4, 2>, causal>;
using Backend = Cpu<float, chosen_executor>;
constexpr Index sequences = 2, length = 40, width = 12;

/// The result and the gradients of the second of two passes, concatenated.
std::vector<float> results(chosen_executor& executor) {
  Module<Layer, Backend> m(3, Backend(executor));
  std::vector<float> x(sequences * length * width), dy(x.size()), all;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(Random(7).uniform(i) - 0.5);
    dy[i] = static_cast<float>(Random(8).uniform(i) - 0.5);
  }
  for (int pass = 0; pass < 2; ++pass) {
    auto const y = m.forward({x.data(), sequences * length, width}, uniform(sequences, length));
    m.zero_gradients();
    m.backward({dy.data(), y.rows, y.cols}, {0.1, 0.2});
    all.assign(y.data, y.data + y.size());
  }
  for (auto const& p : m.parameters()) all.insert(all.end(), p.gradient.data, p.gradient.data + p.gradient.size());
  all.insert(all.end(), m.input_gradient().data, m.input_gradient().data + x.size());
  return all;
}

/// Invalid input is an error while others compute on the same pool.
bool is_refused(chosen_executor& executor) {
  Module<Layer, Backend> m(3, Backend(executor));
  std::vector<float> const x(5 * width);
  int errors = 0;
  for (int i = 0; i < 20; ++i) {
    try {
      m.forward({x.data(), 5, width}, uniform(1, 4));
    } catch (Error const&) {
      ++errors;
    }
  }
  m.forward({x.data(), 5, width});
  return errors == 20;
}

}  // namespace

int main() {
  for (Index const threads : {1, 2, 4}) {
    thread_pool pool(threads);
    expect(every_task_once(pool), "a pool runs every task once");
    bool right[3] = {};
    on_threads(3, [&](int i) {
      right[i] = true;
      for (int round = 0; round < 50; ++round) right[i] = right[i] && every_task_once(pool);
    });
    expect(right[0] && right[1] && right[2], "a pool that three threads share runs every task once");
  }
  for (int round = 0; round < 200; ++round) {
    thread_pool pool(3);
    std::vector<int> hits(5);
    pool.parallel_for(5, [&](Index i) { ++hits[static_cast<std::size_t>(i)]; });
    expect(hits == std::vector<int>(5, 1), "pools come and go");
  }
  {
    Eigen::ThreadPool pool(2);
    eigen_pool one(pool), other(pool);
    bool right[2] = {};
    on_threads(2, [&](int i) { right[i] = every_task_once(i == 0 ? one : other); });
    expect(right[0] && right[1], "two executors share the caller's pool");
  }
  {
    thread_pool one(1), four(4);
    chosen_executor serially{&one}, on_four{&four}, on_own{};
    auto const expected = results(serially);
    expect(results(on_four) == expected, "a layer on four threads has the bits of one");
    expect(results(on_own) == expected, "a layer on a user's executor has the bits of one thread");
    bool right[4] = {};
    on_threads(4, [&](int i) { right[i] = i == 3 ? is_refused(on_four) : results(on_four) == expected; });
    expect(right[0] && right[1] && right[2], "modules of several threads share a pool");
    expect(right[3], "errors on one thread do not disturb the others");
  }
  {
    thread_pool one(1);
    host_threads threads(5);
    chosen_executor serially{&one}, on_host{nullptr, &threads};
    auto const expected = results(serially);
    for (Index const nth : {1, 2, 5}) {
      bool right[5] = {true, true, true, true, true};
      on_threads(static_cast<int>(nth), [&](int ith) {
        for (int round = 0; round < 20; ++round) {
          right[ith] = right[ith] && threads.run(ith, nth, [&] { return every_task_once(threads); });
        }
        right[ith] = right[ith] && threads.run(ith, nth, [&] { return results(on_host); }) == expected;
        try {
          threads.run(ith, nth, [&] {
            threads.parallel_for(50, [&](Index i) {
              if (i % 9 == 5) throw Error("headmix: a task");
            });
          });
          right[ith] = false;
        } catch (Error const& e) {
          right[ith] = right[ith] && std::string(e.what()) == "headmix: a task";
        }
      });
      expect(right[0] && right[1] && right[2] && right[3] && right[4], "the threads of a host have the bits of one");
    }
  }
  if (failures == 0) std::puts("all as expected");
  return failures == 0 ? 0 : 1;
}

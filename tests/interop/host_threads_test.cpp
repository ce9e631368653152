// SPDX-License-Identifier: MIT
// A layer that all threads of a host call.
#include "headmix/interop/host_threads.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../backend/executors.hpp"
#include "../error_of.hpp"
#include "../in_child.hpp"

namespace host_threads_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// Calls f(ith) on nth threads at the same time.
template <class F>
void on_threads(Index nth, F f) {
  std::vector<std::thread> threads;
  for (Index ith = 1; ith < nth; ++ith) threads.emplace_back(f, ith);
  f(0);
  for (auto& t : threads) t.join();
}
using Layer = Moa<24, 16, SoftmaxTopK<6, 3>, causal>;
using Backend = Cpu<float, host_threads>;

}  // namespace

TEST_CASE("host threads: every task once, pass after pass, without a barrier of the host") {
  host_threads threads(5);
  CHECK(threads.concurrency() == 5);
  check_runs_every_task_once(threads);  // outside of a pass
  for (Index const nth : {5, 1, 2, 5}) {
    std::vector<Index> sums(static_cast<std::size_t>(nth));
    on_threads(nth, [&](Index ith) {
      for (Index round = 0; round < 200; ++round) {
        sums[static_cast<std::size_t>(ith)] += threads.run(ith, nth, [&] {
          std::vector<Index> hits(7);
          for (int kernel = 0; kernel < 3; ++kernel) {
            threads.parallel_for(7, [&](Index i) { hits[static_cast<std::size_t>(i)] += i; });
          }
          Index sum = round;
          for (Index const h : hits) sum += h;
          return sum;
        });
      }
    });
    CHECK(sums == std::vector<Index>(sums.size(), 200 * 63 + 199 * 100));
  }
}

TEST_CASE("host threads: a layer has the bits of one thread") {
  host_threads threads(5);
  auto const serially = run_layer(Backend(threads));  // outside of a pass
  for (Index const nth : {1, 2, 5}) {
    std::vector<std::vector<float>> found(static_cast<std::size_t>(nth));
    on_threads(nth, [&](Index ith) {
      found[static_cast<std::size_t>(ith)] = threads.run(ith, nth, [&] { return run_layer(Backend(threads)); });
    });
    for (auto const& f : found) CHECK(f == serially);
  }
}

TEST_CASE("host threads: one module that all call, with forward and backward passes") {
  std::vector<float> const numbers(40 * 24, 0.5f);
  view<float const> const x(numbers.data(), 40, 24);
  HostModule<Layer> on_three(3, /*seed*/ 1), alone(1, 1);
  on_threads(3, [&](Index ith) {
    for (int pass = 0; pass < 5; ++pass) {
      auto const y = on_three.forward(ith, 3, x, uniform(2, 20));
      if (y.rows != 40) std::abort();
      on_three.backward(ith, 3, y, {0.1, 0.2});
    }
  });
  for (int pass = 0; pass < 5; ++pass) alone.backward(0, 1, alone.forward(0, 1, x, uniform(2, 20)), {0.1, 0.2});
  CHECK(on_three.module().loss<0>() == alone.module().loss<0>());
  auto const gradients = [](HostModule<Layer>& m) {
    std::vector<float> all;
    for (auto const& p : m.module().parameters()) {
      all.insert(all.end(), p.gradient.data, p.gradient.data + p.gradient.size());
    }
    return all;
  };
  CHECK(gradients(on_three) == gradients(alone));
}

TEST_CASE("host threads: errors reach all callers and nobody waits for ever") {
  host_threads threads(3);
  auto const errors_of = [&](auto pass) {
    std::vector<std::string> found(3);
    on_threads(3,
               [&](Index ith) { found[static_cast<std::size_t>(ith)] = error_of([&] { threads.run(ith, 3, pass); }); });
    return found;
  };
  std::atomic<int> others = 0;
  auto const task = [&](Index i) {  // on the thread that takes task 5
    ++others;
    if (i == 5) throw std::runtime_error("task 5");
  };
  for (int again = 0; again < 20; ++again) {
    CHECK(errors_of([&] { threads.parallel_for(100, task); }) == std::vector<std::string>(3, "task 5"));
  }
  CHECK(others >= 20);
  CHECK(errors_of([&] { throw Error("headmix: of the pass"); }) == std::vector<std::string>(3, "headmix: of the pass"));
  CHECK(errors_of([] {}) == std::vector<std::string>(3, ""));
  HostModule<Layer> m(3, 1);
  std::vector<float> const numbers(5 * 24);
  std::vector<std::string> found(3);
  on_threads(3, [&](Index ith) {
    found[static_cast<std::size_t>(ith)] = error_of([&] { m.forward(ith, 3, {numbers.data(), 5, 24}, uniform(2, 2)); });
    m.forward(ith, 3, {numbers.data(), 5, 24});  // usable after the error
  });
  for (auto const& f : found) CHECK(f == found[0]);
  CHECK(found[0].find("4") != std::string::npos);
  CHECK(error_of([] { host_threads none(0); }) == "headmix: host_threads: expected 1 to 4096 threads, found 0");
}

TEST_CASE("host threads: a call that cannot be is an error on all threads, and nobody waits for ever") {
  // Calls of three threads with their ith and nth, and their errors; in a process with a watchdog.
  struct call {
    Index ith, nth;
  };
  auto const errors_of = [](std::vector<call> const& calls) {
    return in_child([&] {
      host_threads threads(3);
      std::vector<std::string> found(calls.size());
      on_threads(static_cast<Index>(calls.size()), [&](Index i) {
        call const& own = calls[static_cast<std::size_t>(i)];
        auto const run = [&] { return error_of([&] { threads.run(own.ith, own.nth, [] {}); }); };
        std::string& mine = found[static_cast<std::size_t>(i)];
        while ((mine = run()) == "") {  // the threads may detect it later
        }
        std::string const again = run();  // refused for ever
        if (!again.starts_with("headmix: host_threads: thread ")) mine = "then " + again;
      });
      std::string all;
      for (auto const& f : found) all += f + "\n";
      return all;
    });
  };
  auto const with = [](Index thread, std::string const& reason) {
    std::string all;
    for (Index i = 0; i < 3; ++i) {
      all +=
          "headmix: host_threads: " + (i == thread ? "" : message("thread ", thread, " is refused: ")) + reason + "\n";
    }
    return all;
  };
  for (Index const nth : {9, 0, -1}) {
    std::string const reason = message("expected 1 to 3 threads, found nth = ", nth);
    CHECK(errors_of({{0, nth}, {1, 3}, {2, 3}}) == with(0, reason));
    CHECK(errors_of({{0, 3}, {1, nth}, {2, 3}}) == with(1, reason));
    CHECK(errors_of({{0, 3}, {1, 3}, {2, nth}}) == with(2, reason));
  }
  CHECK(errors_of({{0, 3}, {1, 3}, {2, 2}}) == with(2, "expected ith from 0 to 1, found 2"));
  CHECK(errors_of({{0, 3}, {1, 2}, {2, 3}}) == with(1, "expected nth = 3 as on thread 0, found 2"));
  CHECK(errors_of({{0, 2}, {1, 3}, {2, 3}}) == with(1, "expected nth = 2 as on thread 0, found 3"));
  // All of them, in any order.
  std::string const found = errors_of({{0, 9}, {1, 9}, {2, 9}});
  CHECK(found.find("expected 1 to 3 threads, found nth = 9") != std::string::npos);
  CHECK(found.find("it hangs") == std::string::npos);
}

TEST_CASE("host threads: two threads with one number, and a pass inside of a pass") {
  std::string const reason = "it is in a pass already, or there are two of them";
  // Thread 1 twice: one call takes part, the other is refused.
  CHECK(in_child([&] {
          host_threads threads(2);
          std::atomic<int> refused = 0;
          on_threads(3, [&](Index i) {
            Index const ith = i == 0 ? 0 : 1;
            std::string error;
            while ((error = error_of([&] {
                      threads.run(ith, 2, [&] {
                        while (i == 0 && refused == 0) std::this_thread::yield();
                      });
                    })) == "") {
            }
            if (error == "headmix: host_threads: " + reason) ++refused;
          });
          return message(refused.load(), " refused");
        }) == "1 refused");
  for (Index const ith : {0, 1}) {
    CHECK(in_child([&] {
            host_threads threads(2);
            std::vector<std::string> found(2);
            on_threads(2, [&](Index i) {
              found[static_cast<std::size_t>(i)] = error_of([&] {
                threads.run(i, 2, [&] {
                  if (ith == 0) threads.run(0, 2, [] {});
                  std::atomic<bool> helped = false;
                  auto const me = std::this_thread::get_id();
                  // A task on thread 1.
                  threads.parallel_for(2, [&](Index) {
                    if (std::this_thread::get_id() == me) {
                      while (!helped) std::this_thread::yield();
                      return;
                    }
                    helped = true;
                    threads.run(1, 2, [] {});
                  });
                });
              });
            });
            return found[0] + (found[1].ends_with(reason) ? "" : found[1]);
          }) == "headmix: host_threads: " + reason);
  }
}

}  // namespace host_threads_test

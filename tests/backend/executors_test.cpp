// SPDX-License-Identifier: MIT
// The executor on the caller's Eigen thread pool; thread_pool, with its own pool, is tested with the kernels.

#include "executors.hpp"

#include <latch>
#include <memory>

#include "headmix/backend/eigen_pool.hpp"

namespace executors_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("the caller's Eigen pool: every task once, the bits of one thread") {
  for (int const threads : {0, 1, 4}) {
    Eigen::ThreadPool pool(threads);
    eigen_pool executor(pool);
    CHECK(executor.concurrency() == threads + 1);
    check_runs_every_task_once(executor);
    check_same_bits(executor);
  }
}
TEST_CASE("the caller's Eigen pool: nothing waits for threads that are busy") {
  Eigen::ThreadPool pool(1);
  std::latch free(1), done(1);
  pool.Schedule([&] { free.wait(); });
  {
    eigen_pool executor(pool);
    check_runs_every_task_once(executor);
  }  // tasks that have not run yet are harmless
  pool.Schedule([&] { done.count_down(); });
  free.count_down();
  done.wait();
}
TEST_CASE("the caller's Eigen pool: called and destroyed on one of its threads") {
  Eigen::ThreadPool pool(1);
  std::latch done(1);
  int sum = 0;
  pool.Schedule([&] {
    eigen_pool executor(pool);
    executor.parallel_for(1, [&](Index) { ++sum; });
    executor.parallel_for(0, [&](Index) { ++sum; });
    std::vector<int> hits(9, 0);
    executor.parallel_for(9, [&](Index i) { ++hits[static_cast<std::size_t>(i)]; });
    for (int const h : hits) sum += h;
    done.count_down();
  });
  done.wait();
  CHECK(sum == 10);
}
TEST_CASE("the caller's Eigen pool may end first") {
  auto pool = std::make_unique<Eigen::ThreadPool>(2);
  eigen_pool executor(*pool);
  check_runs_every_task_once(executor);
  pool.reset();
}
TEST_CASE("two executors share the caller's Eigen pool") {
  Eigen::ThreadPool pool(2);
  eigen_pool one(pool), other(pool);
  std::vector<int> hits(100, 0);
  one.parallel_for(
      10, [&](Index i) { other.parallel_for(10, [&](Index j) { ++hits[static_cast<std::size_t>(i * 10 + j)]; }); });
  CHECK(hits == std::vector<int>(100, 1));
}
TEST_CASE("executors come and go on the caller's Eigen pool") {
  Eigen::ThreadPool pool(2);
  std::vector<int> hits(5, 0);
  for (int round = 0; round < 500; ++round) {
    eigen_pool executor(pool);
    executor.parallel_for(5, [&](Index i) { ++hits[static_cast<std::size_t>(i)]; });
  }
  CHECK(hits == std::vector<int>(5, 500));
}

}  // namespace executors_test

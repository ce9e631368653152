// SPDX-License-Identifier: MIT
// The OpenMP executor. A separate program: with OpenMP, Eigen's functions differ.

#include "headmix/backend/open_mp.hpp"

#include <unistd.h>

#include <string>
#include <thread>

#include "../backend/executors.hpp"
#include "../error_of.hpp"
#include "../in_child.hpp"

using namespace headmix;
using namespace headmix::test;

/// Called by LeakSanitizer, if present: LLVM's OpenMP keeps the tables of its threads until the process ends.
extern "C" char const* __lsan_default_suppressions() { return "leak:libomp"; }

TEST_CASE("OpenMP: every task once, the bits of one thread") {
  for (Index const threads : {1, 2, 5}) {
    open_mp executor(threads);
    CHECK(executor.concurrency() == threads);
    check_runs_every_task_once(executor);
    check_same_bits(executor);
  }
}
TEST_CASE("OpenMP: tasks run on several threads") {
  open_mp executor(3);
  std::vector<int> team(20, 0);
  executor.parallel_for(20, [&](Index i) { team[static_cast<std::size_t>(i)] = omp_get_num_threads(); });
  CHECK(team == std::vector<int>(20, 3));
}
TEST_CASE("OpenMP: the number of threads is that of the beginning") {
  int const before = omp_get_max_threads();
  omp_set_num_threads(2);
  open_mp executor;
  omp_set_num_threads(7);
  CHECK(executor.concurrency() == 2);
  check_same_bits(executor);
  omp_set_num_threads(before);
}
TEST_CASE("OpenMP: a number of threads that no team has is an error") {
  for (Index const n : {Index{0}, Index{-1}, Index{4097}, (Index{1} << 32) + 1}) {
    CHECK(error_of([n] { open_mp const executor(n); }) ==
          message("headmix: open_mp: expected 1 to 4096 threads, found ", n));
  }
}
TEST_CASE("OpenMP: a child of fork() does not wait for ever for threads of its parent") {
  open_mp two(2), one(1);
  CHECK(sum_of_tasks(two) == "the sum is 4950");
  auto const parent = getpid();
  std::string const text = in_child([&] { return sum_of_tasks(two); });
  CAPTURE(text);
#ifdef __clang__
  static_cast<void>(parent);
  CHECK(text == "the sum is 4950");
#else
  CHECK(text.starts_with(
      message("headmix: open_mp: the threads of OpenMP are those of process ", parent, ", and process ")));
  // A new executor in the child is refused, too.
  CHECK(says(in_child([&] {
               open_mp another(2);
               return sum_of_tasks(another);
             }),
             "those of process"));
#endif
  // The child can work serially, and on new threads.
  CHECK(in_child([&] {
          std::string on_new;
          std::thread([&] { on_new = sum_of_tasks(two); }).join();
          return sum_of_tasks(one) + ", " + on_new;
        }) == "the sum is 4950, the sum is 4950");
  // A thread that has not run an OpenMP region may fork a child that runs one.
  std::string of_new;
  std::thread([&] { of_new = in_child([&] { return sum_of_tasks(two); }); }).join();
  CHECK(of_new == "the sum is 4950");
  CHECK(sum_of_tasks(two) == "the sum is 4950");
}
TEST_CASE("OpenMP: inside a parallel region of the caller's everything runs on the thread that asks") {
  open_mp executor(2);
  std::vector<int> hits(20, 0);
  bool elsewhere[2] = {};
#pragma omp parallel num_threads(2)
  {
    int const me = omp_get_thread_num();
    executor.parallel_for(10, [&](Index i) {
      elsewhere[me] |= omp_get_thread_num() != me;
      ++hits[static_cast<std::size_t>(me * 10 + i)];
    });
  }
  CHECK(hits == std::vector<int>(20, 1));
  CHECK(!elsewhere[0]);
  CHECK(!elsewhere[1]);
}

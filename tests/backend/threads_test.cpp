// SPDX-License-Identifier: MIT
// Invalid numbers of threads, and pools in a child of fork(): errors or right results, and no deadlock.

#include <pthread.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "../in_child.hpp"
#include "executors.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/interop/host_threads.hpp"

namespace threads_test {

using namespace headmix;
using namespace headmix::test;

namespace {

template <class Executor>
std::string refusal(Index threads) {
  return in_child([&] {
    Executor executor(threads);
    return message("it has ", executor.concurrency(), " threads");
  });
}
#ifndef HEADMIX_TEST_SANITIZER
std::ptrdiff_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}
#endif

}  // namespace

TEST_CASE("a number of threads that no executor has is an error") {
  for (Index const n : {Index{0}, Index{-5}, Index{4097}, (Index{1} << 31) + 1, (Index{1} << 32) + 1}) {
    CHECK(refusal<thread_pool>(n) == message("headmix: thread_pool: expected 1 to 4096 threads, found ", n));
    CHECK(refusal<host_threads>(n) == message("headmix: host_threads: expected 1 to 4096 threads, found ", n));
  }
  CHECK(refusal<thread_pool>(1) == "it has 1 threads");
  CHECK(refusal<host_threads>(4096) == "it has 4096 threads");
}

#if defined(__linux__) && !defined(HEADMIX_TEST_SANITIZER)
TEST_CASE("threads that the system refuses are an error, and none of the others is left") {
  std::string const text = in_child([] {
    limit_memory(std::size_t{200} << 20);
    std::string refused;
    try {
      thread_pool pool(2000);
    } catch (Error const& e) {
      refused = e.what();
    }
    thread_pool pool(3);
    return message(refused, "; ", threads_of_process(), " threads, and ", sum_of_tasks(pool));
  });
  CAPTURE(text);
  CHECK(text.starts_with("headmix: thread_pool: expected 2000 threads, found "));
  CHECK(text.ends_with(
      ": the system refuses the next one (Resource temporarily unavailable); 3 threads, and the sum is 4950"));
}
#ifdef __GLIBC__
TEST_CASE("a pool that has its threads, but no memory, is an error") {
  CHECK(in_child([] {
          pthread_attr_t small;
          pthread_attr_init(&small);
          pthread_attr_setstacksize(&small, std::size_t{128} << 10);
          REQUIRE(pthread_setattr_default_np(&small) == 0);
          limit_memory(std::size_t{85} << 20);
          thread_pool pool(500);
          return std::string("it is there");
        }) == "headmix: thread_pool: there is not enough memory for 500 threads");
}
#endif
#endif

TEST_CASE("a pool works in a child of fork(), and ends there") {
  auto pool = std::make_unique<thread_pool>(4);
  CHECK(sum_of_tasks(*pool) == "the sum is 4950");
  // At fork() the pool's threads search for work, or already sleep.
  for (int const milliseconds : {0, 100}) {
    CAPTURE(milliseconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    CHECK(in_child([&] {
            for (int again = 0; again < 3000; ++again) {
              if (sum_of_tasks(*pool) != "the sum is 4950") return std::string("another sum");
            }
            pool.reset();
            thread_pool own(3);  // a pool of the child
            return sum_of_tasks(own);
          }) == "the sum is 4950");
    CHECK(sum_of_tasks(*pool) == "the sum is 4950");
  }
}

}  // namespace threads_test

// SPDX-License-Identifier: MIT
// The CPU kernels against the reference, bitwise equal on one and two threads; and the executors that run them.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/testing/backend_conformance.hpp"

// A count of malloc finds allocations that operator new would hide. Sanitizers replace malloc.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADMIX_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HEADMIX_TEST_SANITIZED
#endif
#endif
#if defined(__GLIBC__) && !defined(HEADMIX_TEST_SANITIZED)
#define HEADMIX_TEST_COUNTS_MALLOC
#include <atomic>
namespace {
std::atomic<long> malloc_calls{0};
}
extern "C" {
void* __libc_malloc(std::size_t);
void* malloc(std::size_t bytes) noexcept {
  malloc_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
}
#endif

namespace cpu_kernels_test {

namespace {

using namespace headmix;

/// Runs a kernel and returns its number of calls of malloc; 0 where they are not counted.
template <class F>
long mallocs(F&& f) {
#ifdef HEADMIX_TEST_COUNTS_MALLOC
  long const before = malloc_calls.load();
  f();
  return malloc_calls.load() - before;
#else
  f();
  return 0;
#endif
}

}  // namespace

// ---------------------------------------------------------------- kernels

namespace {

/// Every kernel against the reference; none of them calls malloc.
template <class T>
std::uint64_t check_kernels(Cpu<T, thread_pool> backend, bool large) {
  long allocated = 0;
  conformance_options options{.large = large};
#ifdef HEADMIX_TEST_COUNTS_MALLOC
  options.watch = [&allocated](bool begins) { allocated += begins ? -malloc_calls.load() : malloc_calls.load(); };
#endif
  auto const found = backend_conformance(backend, options);
  INFO(found.text());
  CHECK(found.ok());
  CHECK(found.checks > 1800);
  CHECK(allocated == 0);
  return found.digest;
}

}  // namespace

#ifdef HEADMIX_TEST_SANITIZED
// The conformance tests of one type take minutes to compile and to run; double uses the code of float.
TEST_CASE_TEMPLATE("cpu kernels do what the reference does on two threads", T, float, bfloat16) {
  thread_pool two(2);
  check_kernels(Cpu<T, thread_pool>(two), true);
}
#else
TEST_CASE_TEMPLATE("cpu kernels do what the reference does, on two threads to the same bits, and allocate nothing", T,
                   float, double, bfloat16) {
  thread_pool one(1), two(2);
  CHECK(check_kernels(Cpu<T, thread_pool>(one), true) == check_kernels(Cpu<T, thread_pool>(two), true));
}
#endif
TEST_CASE("cpu kernels do what the reference does where probabilities are stored") {
  thread_pool two(2);
  Cpu<float, thread_pool> backend(two);
  backend.set_probability_budget(1 << 20);
  check_kernels(backend, false);
}

// ---------------------------------------------------------------- threads

#ifdef HEADMIX_TEST_COUNTS_MALLOC
TEST_CASE("the count of mallocs counts") {
  std::vector<double> room;
  volatile std::size_t n = 1000;
  CHECK(mallocs([&] { room.resize(n); }) == 1);
}
#endif

TEST_CASE("thread pool runs every task once, nested calls too") {
  for (Index threads : {1, 2, 5}) {
    thread_pool pool(threads);
    CHECK(pool.concurrency() == threads);
    for (Index n : {0, 1, 2, 3, 100}) {
      std::vector<int> hits(static_cast<std::size_t>(n * 3), 0);
      pool.parallel_for(
          n, [&](Index i) { pool.parallel_for(3, [&](Index j) { ++hits[static_cast<std::size_t>(i * 3 + j)]; }); });
      for (int h : hits) CHECK(h == 1);
    }
  }
}

TEST_CASE("thread pool survives many short calls") {
  thread_pool pool(3);
  std::vector<long> sums(64, 0);
  long const calls = mallocs([&] {
    for (int round = 0; round < 20000; ++round)
      pool.parallel_for(5, [&](Index i) { ++sums[static_cast<std::size_t>(i * 8)]; });
  });
  for (std::size_t i = 0; i < 5; ++i) CHECK(sums[i * 8] == 20000);
  CHECK(calls == 0);
}

TEST_CASE("tasks that run at the same time have different workers") {
  thread_pool pool(2);
  std::vector<int> owner(2, 0), hits(1000, 0);
  bool shared = false;
  cpu_kernels::for_each_task(pool, 1000, [&](Index task, Index worker) {
    auto const w = static_cast<std::size_t>(worker);
    if (owner[w]++ != 0) shared = true;
    ++hits[static_cast<std::size_t>(task)];
    if (--owner[w] != 0) shared = true;
  });
  CHECK_FALSE(shared);
  for (int h : hits) CHECK(h == 1);
}

TEST_CASE("the exponential of scores") {
  using vector = cpu_kernels::detail::vector<float>;
  auto const e = [](float x) { return cpu_kernels::detail::exp_of_negative(vector{} + x)[0]; };
  for (float x = 0; x > -86; x -= 0.37f) CHECK(e(x) == doctest::Approx(std::exp(x)).epsilon(1e-5));
  CHECK(e(0) == 1);
  CHECK(e(-100) == 0);
  CHECK(e(-std::numeric_limits<float>::infinity()) == 0);
  CHECK(std::isnan(e(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace cpu_kernels_test

#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the tests of CPU kernels against the reference.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"

namespace headmix::test {

inline void check_close(auto const& found, auto const& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double const a = static_cast<double>(found[i]), b = static_cast<double>(expected[i]);
    if (!(std::abs(a - b) / (1 + std::abs(b)) <= worst)) worst = std::abs(a - b) / (1 + std::abs(b));
  }
  CHECK(worst <= tolerance);
}

/// The results of run(backend) with the reference, and with the CPU on one thread and on two.
template <class T, class F>
void check_backends(double tolerance, F run) {
  thread_pool one(1), two(2);
  auto const found = run(Cpu<T, thread_pool>(one));
  check_close(found, run(Reference<T>{}), tolerance);
  CHECK(run(Cpu<T, thread_pool>(two)) == found);
}

}  // namespace headmix::test

// SPDX-License-Identifier: MIT
// Sums that slide along sequences on the CPU, against the reference.

#include "headmix/backend/cpu/sequence.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/backend/thread_pool.hpp"

using namespace headmix;

namespace {

template <class T>
void check(segments s, Index cols, Index window, double tolerance) {
  CAPTURE(s.rows);
  CAPTURE(cols);
  CAPTURE(window);
  auto const size = static_cast<std::size_t>(s.rows * cols);
  std::vector<T> a(size), y(size), by_threads(size);
  std::vector<double> exact(size), expected(size);
  for (std::size_t i = 0; i < size; ++i) exact[i] = static_cast<double>(a[i] = static_cast<T>(Random(3).uniform(i)));
  thread_pool pool(3);
  serial one;
  for (bool const transposed : {false, true}) {
    Reference<double>{}.window_mean(view<double>(expected.data(), s.rows, cols),
                                    view<double const>(exact.data(), s.rows, cols), s, window, transposed);
    view<T const> const from(a.data(), s.rows, cols);
    cpu::window_mean(one, view<T>(y.data(), s.rows, cols), from, s, window, transposed);
    cpu::window_mean(pool, view<T>(by_threads.data(), s.rows, cols), from, s, window, transposed);
    CHECK(y == by_threads);
    double worst = 0;
    for (std::size_t i = 0; i < size; ++i) {
      worst = (std::max)(worst, std::abs(static_cast<double>(y[i]) - expected[i]) / (1 + std::abs(expected[i])));
    }
    CHECK(worst <= tolerance);
  }
}

}  // namespace

TEST_CASE("cpu: means over windows of sequences") {
  std::vector<Int> const offsets{0, 0, 3, 300, 300, 701, 701};
  for (Index const window : {Index{1}, Index{3}, Index{256}, Index{257}, Index{2147483647}}) {
    for (segments const s : {uniform(1, 0), uniform(1, 1), uniform(2, 300), ragged(offsets.data(), 6)}) {
      check<float>(s, 5, window, 1e-6);
      check<double>(s, 70, window, 1e-14);
    }
  }
}

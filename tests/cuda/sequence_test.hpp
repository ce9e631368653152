#pragma once
// SPDX-License-Identifier: MIT
// Means over windows of sequences, numbers of sequences and rows of choices against the reference. Whoever includes
// this names the device by `using test_device = ...;` at global scope.

#include <doctest/doctest.h>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"

namespace sequence_test {

using namespace headmix;
using headmix::testing::converted;
using headmix::testing::device_array;
using headmix::testing::relative_error;

/// Sequences of the rows on the host, whose offsets are in `offsets` where they are ragged.
struct Rows {
  std::vector<Int> offsets;
  Index count, rows;

  [[nodiscard]] segments on_host() const { return {offsets.empty() ? nullptr : offsets.data(), count, rows}; }
};

template <class T>
void check_window_mean(Rows const& s, Index cols, Index window, bool transposed, double tolerance) {
  CAPTURE(s.rows);
  CAPTURE(cols);
  CAPTURE(window);
  CAPTURE(transposed);
  [[maybe_unused]] testing::strict_scope<test_device> const strict;
  typename test_device::queue queue;
  auto const numbers = testing::random_numbers<T>(s.rows * cols, 5);
  device_array<T, test_device> a(queue, numbers), y(queue, numbers.size());
  device_array<Int, test_device> offsets(queue, s.offsets);
  segments const on_device{s.offsets.empty() ? nullptr : offsets.data(), s.count, s.rows};
  Cuda<T, test_device>(queue).window_mean(y.matrix(s.rows, cols), view<T const>(a.matrix(s.rows, cols)), on_device,
                                          window, transposed);
  auto const exact = converted<double>(numbers);
  std::vector<double> expected(exact.size());
  Reference<double>{}.window_mean(view<double>(expected.data(), s.rows, cols),
                                  view<double const>(exact.data(), s.rows, cols), s.on_host(), window, transposed);
  CHECK(relative_error(y.get(), expected) <= tolerance);
}

inline std::vector<Rows> cases() {
  return {{{}, 1, 0}, {{}, 1, 1}, {{}, 2, 150}, {{}, 7, 21}, {{0, 0, 3, 70, 70, 201, 201}, 6, 201}};
}

}  // namespace sequence_test

TEST_CASE("means over windows of sequences") {
  using namespace sequence_test;
  for (auto const& rows : cases()) {
    for (Index const window : {Index{1}, Index{3}, Index{64}, Index{1000}, Index{2147483647}}) {
      for (bool const transposed : {false, true}) {
        check_window_mean<float>(rows, 5, window, transposed, 1e-5);
        check_window_mean<headmix::bfloat16>(rows, 5, window, transposed, 6e-3);
      }
    }
    check_window_mean<double>(rows, 130, 4, true, 1e-13);
  }
}

TEST_CASE("numbers of sequences, and rows of a table of choices") {
  using namespace sequence_test;
  for (auto const& s : cases()) {
    [[maybe_unused]] headmix::testing::strict_scope<test_device> const strict;
    typename test_device::queue queue;
    device_array<Int, test_device> y(queue, static_cast<std::size_t>(s.rows)), offsets(queue, s.offsets);
    segments const on_device{s.offsets.empty() ? nullptr : offsets.data(), s.count, s.rows};
    Cuda<float, test_device> backend(queue);
    backend.sequence_numbers(y.matrix(s.rows, 1), on_device);
    std::vector<Int> expected(static_cast<std::size_t>(s.rows));
    Reference<float>{}.sequence_numbers({expected.data(), s.rows, 1}, s.on_host());
    CHECK(y.get() == expected);
  }
  Int const big = 2147483646;  // not a float
  typename test_device::queue queue;
  device_array<Int, test_device> table(queue, std::vector<Int>{big, -1, 5, 6}), y(queue, 6),
      index(queue, std::vector<Int>{1, -1, 0});
  Cuda<float, test_device>(queue).gather_rows(y.matrix(3, 2), view<Int const>(table.matrix(2, 2)),
                                              view<Int const>(index.matrix(3, 1)));
  CHECK(y.get() == std::vector<Int>{5, 6, -1, -1, big, -1});
}

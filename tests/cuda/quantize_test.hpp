#pragma once
// SPDX-License-Identifier: MIT
// Roundings to 8-bit activations and ternary weights, and experts that take a limited number of rows, against the
// reference. Whoever includes this names the device by `using test_device = ...;` at global scope.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"

namespace quantize_test {

using namespace headmix;
using headmix::testing::device_array;
using headmix::testing::relative_error;

/// Multiples of 1/16, whose sums are exact in float and so do not depend on their order.
template <class T>
std::vector<T> sixteenths(Index n, std::uint64_t stream) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>((static_cast<double>(Random(31, stream).below(i, 41)) - 20) / 16);
  }
  return values;
}

/// A stack that lies in memory row by row or column by column.
template <class T>
view<T> stack(T* data, Index count, Index rows, Index cols, bool transposed) {
  return transposed ? view<T>(data, count, cols, rows).transposed() : view<T>(data, count, rows, cols);
}

/// What f(backend, y, a) makes of the numbers on the device and by the reference over the same type.
template <class T, class F>
void check_same(std::vector<T> const& numbers, Index count, Index rows, Index cols, F const& f) {
  for (bool const transposed : {false, true}) {
    CAPTURE(count);
    CAPTURE(rows);
    CAPTURE(cols);
    CAPTURE(transposed);
    [[maybe_unused]] testing::strict_scope<test_device> const strict;
    typename test_device::queue queue;
    device_array<T, test_device> a(queue, numbers), y(queue, numbers.size());
    Cuda<T, test_device> backend(queue);
    f(backend, stack(y.data(), count, rows, cols, transposed),
      view<T const>(stack(a.data(), count, rows, cols, transposed)));
    std::vector<T> expected(numbers.size());
    Reference<T> reference;
    f(reference, stack(expected.data(), count, rows, cols, transposed),
      stack(numbers.data(), count, rows, cols, transposed));
    CHECK(relative_error(y.get(), expected) == 0);
  }
}

constexpr auto round_rows = [](auto& backend, auto y, auto a) { backend.absmax_int8(y, a); };
constexpr auto round_matrices = [](auto& backend, auto y, auto a) { backend.absmean_ternary(y, a); };

}  // namespace quantize_test

TEST_CASE_TEMPLATE("cuda: 8-bit activations", T, headmix::bfloat16, float, double) {
  using namespace quantize_test;
  struct {
    Index rows, cols;
  } const cases[] = {{0, 5}, {3, 0}, {1, 1}, {37, 3}, {9, 131}, {2, 1500}};
  for (auto const& c : cases) {
    check_same(testing::random_numbers<T>(c.rows * c.cols, 1), 1, c.rows, c.cols, round_rows);
  }
  auto numbers = testing::random_numbers<T>(4 * 70, 2);
  for (std::size_t j = 0; j < 70; ++j) {
    numbers[j] = T(0);
    numbers[70 + j] = static_cast<T>(1e-7 * static_cast<double>(j));  // less than the least scale
  }
  numbers[2 * 70 + 33] = static_cast<T>(std::numeric_limits<double>::quiet_NaN());
  numbers[3 * 70 + 69] = static_cast<T>(-std::numeric_limits<double>::infinity());
  check_same(numbers, 1, 4, 70, round_rows);
}

TEST_CASE_TEMPLATE("cuda: ternary weights", T, headmix::bfloat16, float, double) {
  using namespace quantize_test;
  struct {
    Index count, rows, cols;
  } const cases[] = {{0, 4, 4},   {3, 0, 5},     {2, 5, 0},   {1, 1, 1},    {1, 1, 37},  {5, 7, 3},
                     {3, 33, 65}, {1, 70, 1100}, {900, 9, 2}, {4100, 3, 1}, {1, 4099, 2}};
  for (auto const& c : cases) {
    check_same(sixteenths<T>(c.count * c.rows * c.cols, 3), c.count, c.rows, c.cols, round_matrices);
  }
  auto numbers = sixteenths<T>(3 * 35, 4);
  for (std::size_t i = 0; i < 35; ++i) numbers[35 + i] = T(0);
  check_same(numbers, 3, 5, 7, round_matrices);
}

TEST_CASE("cuda: experts that take a limited number of rows") {
  using namespace quantize_test;
  struct {
    Index rows, cols, experts, most;
  } const cases[] = {{0, 2, 3, 1}, {5, 0, 3, 1},    {1, 1, 1, 0},     {1, 1, 1, 1},
                     {9, 3, 4, 0}, {201, 3, 7, 40}, {60, 4, 2, 1000}, {3000, 2, 5, 17}};
  for (auto const& c : cases) {
    CAPTURE(c.rows);
    CAPTURE(c.cols);
    [[maybe_unused]] headmix::testing::strict_scope<test_device> const strict;
    auto const slots = static_cast<std::size_t>(c.rows * c.cols);
    std::vector<Int> chosen(slots);
    for (std::size_t s = 0; s < slots; ++s) {  // some nothing, and some what there is not
      chosen[s] = static_cast<Int>(Random(41, 1).below(s, static_cast<std::uint64_t>(c.experts + 2))) - 1;
    }
    typename test_device::queue queue;
    device_array<Int, test_device> index(queue, chosen), perm(queue, slots), y(queue, slots),
        offsets(queue, static_cast<std::size_t>(c.experts + 1));
    view<Int const> const choices = index.matrix(c.rows, c.cols);
    Cuda<float, test_device> backend(queue);
    backend.sort_by_expert(perm.matrix(1, perm.size()), offsets.matrix(1, c.experts + 1), choices.transposed(),
                           uniform(1, c.cols));
    backend.apply_capacity(y.matrix(c.rows, c.cols), choices, perm.matrix(1, perm.size()),
                           offsets.matrix(1, c.experts + 1), c.most);
    std::vector<Int> expected(slots), order(slots), begins(static_cast<std::size_t>(c.experts + 1));
    view<Int> const host_order(order.data(), 1, perm.size()), host_begins(begins.data(), 1, c.experts + 1);
    view<Int const> const host_choices(chosen.data(), c.rows, c.cols);
    Reference<float> const reference;
    reference.sort_by_expert(host_order, host_begins, host_choices.transposed(), uniform(1, c.cols));
    reference.apply_capacity({expected.data(), c.rows, c.cols}, host_choices, host_order, host_begins, c.most);
    CHECK(y.get() == expected);
  }
}

#pragma once
// SPDX-License-Identifier: MIT
// The fused router against the composed one, on the same device. A file that includes this names the device by
// `using test_device = ...;` at global scope, and for the names of tests by the macro HEADMIX_TEST_DEVICE.

#include <doctest/doctest.h>

#include <bit>
#include <limits>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"

namespace route_test {

namespace {  // a program has these tests for several devices

using namespace headmix;
using headmix::testing::device_array;
using headmix::testing::relative_error;

/// Which of the values that follow from the choices a program reads.
struct wanted {
  bool z = true, log_sum = true, squares = true, p_sum = true, chosen = true, chosen_sum = true, first = true,
       first_sum = true, order = true, begins = true;
};

/// The results of a router for n rows of `width` numbers.
template <class T>
struct Routed {
  using W = accumulator_t<T>;
  typename test_device::queue queue;
  device_array<T, test_device> x, w;
  device_array<W, test_device> z, p, log_sum, squares, p_sum, chosen, chosen_sum, first, first_sum;
  device_array<Int, test_device> index, order, begins;
  Index n, width, experts, k;

  Routed(Index rows, Index d, Index e, Index choices)
      : x(queue, testing::random_numbers<T>(rows * d, 1)),
        w(queue, testing::random_numbers<T>(d * e, 2)),
        z(queue, untouched<W>(rows * e)),
        p(queue, untouched<W>(rows * e)),
        log_sum(queue, untouched<W>(rows)),
        squares(queue, untouched<W>(1)),
        p_sum(queue, untouched<W>(e)),
        chosen(queue, untouched<W>(rows * e)),
        chosen_sum(queue, untouched<W>(e)),
        first(queue, untouched<W>(rows * e)),
        first_sum(queue, untouched<W>(e)),
        index(queue, untouched<Int>(rows * choices)),
        order(queue, untouched<Int>(rows * choices)),
        begins(queue, untouched<Int>(e + 1)),
        n(rows),
        width(d),
        experts(e),
        k(choices) {}

  void run(bool fused, wanted which = {}) {
    [[maybe_unused]] testing::strict_scope<test_device> const strict;
    Cuda<T, test_device> backend(queue);
    auto const given = [](auto v, bool is_wanted) {
      if (!is_wanted) v.data = nullptr;
      return v;
    };
    route_problem<T> const r = {given(z.matrix(n, experts), which.z),
                                p.matrix(n, experts),
                                index.matrix(n, k),
                                given(log_sum.matrix(n, 1), which.log_sum),
                                given(squares.matrix(1, 1), which.squares),
                                given(p_sum.matrix(1, experts), which.p_sum),
                                given(chosen.matrix(n, experts), which.chosen),
                                given(chosen_sum.matrix(1, experts), which.chosen_sum),
                                given(first.matrix(n, experts), which.first),
                                given(first_sum.matrix(1, experts), which.first_sum),
                                given(order.matrix(1, n * k), which.order),
                                given(begins.matrix(1, experts + 1), which.begins),
                                x.matrix(n, width),
                                w.matrix(width, experts)};
    if (fused) {
      std::size_t const bytes = backend.route_scratch(r);
      typename test_device::memory const scratch(bytes);
      backend.route(r, scratch.bytes());
      return;
    }
    view<W const> const logits(r.z), probabilities(r.p), hot(chosen.matrix(n, experts));
    auto const sum = [&](view<W> y, view<W const> a) {
      backend.col_sum(y, lazy<tree_leaf<W, false, false>>{{a}, n, experts}, false);
    };
    backend.gemm(r.z, r.x, r.w, false);
    backend.softmax(r.p, logits);
    backend.top_k(r.index, probabilities);
    backend.log_sum_exp(r.log_sum, logits);
    view<W const> const log_sums(r.log_sum);
    backend.gemm(r.squares, log_sums.transposed(), log_sums, false);
    sum(r.p_sum, probabilities);
    backend.one_hot(r.chosen, view<Int const>(r.index));
    sum(r.chosen_sum, hot);
    backend.sort_by_expert(r.order, r.begins, view<Int const>(r.index), uniform(1, n));
  }

  template <class U>
  static std::vector<U> untouched(Index count) {
    return std::vector<U>(static_cast<std::size_t>(count), static_cast<U>(-7));
  }
};

TEST_CASE(HEADMIX_TEST_DEVICE ": a router without scratch memory that it needs is refused") {
  Routed<bfloat16> aligned(5, 16, 8, 2), odd(5, 16, 7, 2);
  Cuda<bfloat16, test_device> backend(aligned.queue);
  auto const route = [&](Routed<bfloat16> const& r) {
    backend.route(r.z.matrix(5, r.experts), r.p.matrix(5, r.experts), r.index.matrix(5, 2), r.x.matrix(5, 16),
                  r.w.matrix(16, r.experts));
  };
  route(aligned);
  CHECK_THROWS_WITH_AS(route(odd), doctest::Contains("route: the scratch memory has 0 bytes, expected "), Error);
}

template <class T>
void check_route(Index rows, Index width, Index experts, Index k, bool ties = false) {
  CAPTURE(rows);
  CAPTURE(width);
  CAPTURE(experts);
  CAPTURE(k);
  Routed<T> fused(rows, width, experts, k), composed(rows, width, experts, k);
  if (ties) {
    std::vector<T> const same(static_cast<std::size_t>(width * experts), static_cast<T>(0.25f));
    fused.w.set(same);
    composed.w.set(same);
  }
  fused.run(true);
  composed.run(false);
  CHECK(relative_error(fused.z.get(), composed.z.get()) < 1e-5);
  CHECK(relative_error(fused.p.get(), composed.p.get()) < 1e-5);
  CHECK(relative_error(fused.log_sum.get(), composed.log_sum.get()) < 1e-5);
  CHECK(relative_error(fused.squares.get(), composed.squares.get()) < 1e-5);
  CHECK(relative_error(fused.p_sum.get(), composed.p_sum.get()) < 1e-5);
  auto const found = fused.index.get(), expected = composed.index.get();
  auto const p = composed.p.get();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    // Another order of additions may swap what is nearly equal.
    auto const at = [&](Int e) {
      return p[i / static_cast<std::size_t>(k) * static_cast<std::size_t>(experts) + static_cast<std::size_t>(e)];
    };
    REQUIRE(found[i] >= 0);
    CHECK(static_cast<double>(std::abs(at(found[i]) - at(expected[i]))) < 1e-5 * static_cast<double>(at(expected[i])));
  }
  // What follows from the choices, whichever of nearly equal ones they are.
  std::vector<std::vector<Int>> slots(static_cast<std::size_t>(experts));
  for (std::size_t i = 0; i < found.size(); ++i) {
    slots[static_cast<std::size_t>(found[i])].push_back(static_cast<Int>(i));
  }
  std::vector<Int> order, begins = {0};
  std::vector<accumulator_t<T>> counts, hot(fused.chosen.get().size()), first_hot(hot.size()), firsts(slots.size());
  for (auto const& of_expert : slots) {
    order.insert(order.end(), of_expert.begin(), of_expert.end());
    begins.push_back(static_cast<Int>(order.size()));
    counts.push_back(static_cast<accumulator_t<T>>(of_expert.size()));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    auto const expert = static_cast<std::size_t>(found[i]), row = i / static_cast<std::size_t>(k);
    hot[row * static_cast<std::size_t>(experts) + expert] = 1;
    if (i % static_cast<std::size_t>(k) != 0) continue;
    first_hot[row * static_cast<std::size_t>(experts) + expert] = 1;
    firsts[expert] += 1;
  }
  CHECK(fused.order.get() == order);
  CHECK(fused.begins.get() == begins);
  CHECK(fused.chosen_sum.get() == counts);
  CHECK(fused.chosen.get() == hot);
  CHECK(fused.first_sum.get() == firsts);
  CHECK(fused.first.get() == first_hot);
}

TEST_CASE(HEADMIX_TEST_DEVICE ": a fused router on tensor cores equals the composed one") {
  for (Index const experts : {8, 16, 32, 40, 64, 128}) check_route<bfloat16>(70, 72, experts, experts < 16 ? 2 : 4);
  check_route<bfloat16>(1, 200, 32, 8);
  check_route<bfloat16>(0, 64, 32, 8);
  check_route<bfloat16>(64, 64, 8, 8);
  check_route<bfloat16>(65, 64, 32, 1);
  check_route<bfloat16>(129, 8, 104, 3);
  check_route<bfloat16>(70, 72, 12, 4);  // whose weights are padded
  check_route<bfloat16>(33, 8, 1, 1);
  check_route<bfloat16>(70, 8, 100, 3);
}
TEST_CASE(HEADMIX_TEST_DEVICE ": a fused router of a deep product equals the composed one") {
  for (Index const experts : {8, 16, 32, 48, 96, 128}) check_route<bfloat16>(70, 1032, experts, experts < 16 ? 2 : 4);
  check_route<bfloat16>(1, 1024, 32, 8);
  check_route<bfloat16>(0, 1024, 32, 8);
  check_route<bfloat16>(65, 1280, 12, 12);
}
TEST_CASE(HEADMIX_TEST_DEVICE ": rows of a fused router do not depend on the other rows") {
  for (Index const width : {72, 1088}) {
    CAPTURE(width);
    Routed<bfloat16> all(150, width, 48, 6);
    all.run(true);
    auto const x = all.x.get(), w = all.w.get();
    for (auto const& part : {std::pair<Index, Index>{0, 1}, {1, 64}, {65, 85}, {30, 3}}) {
      Routed<bfloat16> some(part.second, width, 48, 6);
      auto const rows = [&](auto const& v, Index n) {
        auto const first = v.begin() + static_cast<std::ptrdiff_t>(part.first * n);
        return std::vector(first, first + static_cast<std::ptrdiff_t>(part.second * n));
      };
      some.x.set(rows(x, width));
      some.w.set(w);
      some.run(true);
      CHECK(some.z.get() == rows(all.z.get(), 48));
      CHECK(some.p.get() == rows(all.p.get(), 48));
      CHECK(some.index.get() == rows(all.index.get(), 6));
      CHECK(some.log_sum.get() == rows(all.log_sum.get(), 1));
    }
  }
}
TEST_CASE(HEADMIX_TEST_DEVICE ": a fused router over more blocks than a warp sums up at once") {
  check_route<bfloat16>(64 * 131 + 1, 8, 8, 3);
}
TEST_CASE(HEADMIX_TEST_DEVICE ": a fused router without tensor cores equals the composed one") {
  check_route<float>(70, 33, 7, 3);
  check_route<double>(5, 16, 300, 5);
  check_route<bfloat16>(9, 12, 5, 5);
  check_route<float>(0, 8, 4, 2);
  check_route<bfloat16>(33, 8, 136, 1);
}
TEST_CASE(HEADMIX_TEST_DEVICE ": a fused router writes what is wanted of it") {
  struct sizes {
    Index width, experts;
  };
  for (auto const& size : {sizes{8, 16}, sizes{8, 12}, sizes{7, 12}}) {  // the last not on tensor cores
    Index const width = size.width, experts = size.experts;
    CAPTURE(width);
    CAPTURE(experts);
    Routed<bfloat16> all(70, width, experts, 2);
    all.run(true);
    for (int which = 0; which < 1024; ++which) {
      int const bits = std::popcount(static_cast<unsigned>(which));
      if (bits > 2 && bits < 8) continue;  // one value or two with and without the others
      CAPTURE(which);
      auto const bit = [&](int i) { return (which >> i & 1) != 0; };
      wanted const some = {bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6), bit(7), bit(8), bit(9)};
      Routed<bfloat16> r(70, width, experts, 2);
      auto const check = [](auto const& found, auto const& expected, bool is_wanted) {
        if (is_wanted) {
          CHECK(found.get() == expected.get());
        } else {
          for (auto const number : found.get()) CHECK(number == -7);
        }
      };
      r.run(true, some);
      check(r.z, all.z, some.z);
      check(r.p, all.p, true);
      check(r.index, all.index, true);
      check(r.log_sum, all.log_sum, some.log_sum);
      check(r.squares, all.squares, some.squares);
      check(r.p_sum, all.p_sum, some.p_sum);
      check(r.chosen, all.chosen, some.chosen);
      check(r.chosen_sum, all.chosen_sum, some.chosen_sum);
      check(r.first, all.first, some.first);
      check(r.first_sum, all.first_sum, some.first_sum);
      check(r.order, all.order, some.order);
      check(r.begins, all.begins, some.begins);
    }
  }
}
TEST_CASE(HEADMIX_TEST_DEVICE ": of equal experts a fused router chooses the first ones") {
  check_route<bfloat16>(3, 64, 32, 5, true);
  check_route<float>(3, 9, 32, 5, true);
  Routed<bfloat16> r(3, 64, 32, 5);
  r.w.set(std::vector<bfloat16>(64 * 32, bfloat16(0.5)));
  r.run(true);
  for (std::size_t i = 0; i < 15; ++i) CHECK(r.index.get()[i] == static_cast<Int>(i % 5));
  for (std::size_t e = 0; e < 32; ++e) CHECK(r.chosen_sum.get()[e] == (e < 5 ? 3.f : 0.f));
}
TEST_CASE(HEADMIX_TEST_DEVICE ": a router passes on what is not a number, and chooses it last") {
  Routed<bfloat16> r(2, 64, 16, 3);
  auto x = r.x.get();
  x[3] = bfloat16(std::numeric_limits<float>::quiet_NaN());
  r.x.set(x);
  r.run(true);
  auto const p = r.p.get();
  for (std::size_t e = 0; e < 16; ++e) CHECK(p[e] != p[e]);
  for (std::size_t e = 16; e < 32; ++e) CHECK(p[e] == p[e]);
  CHECK(r.index.get()[0] == 0);  // all are equally last
}

}  // namespace

}  // namespace route_test

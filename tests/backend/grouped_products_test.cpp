// SPDX-License-Identifier: MIT
// CPU products with one matrix per expert against the reference: weights that are blocks of one matrix and their
// transposes, rows shared by several slots; bitwise equal on one and two threads.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "against_reference.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace grouped_products_test {

namespace {

using namespace headmix;
using test::check_backends;

enum class layout { stack, transposed, column_blocks, row_blocks, blocks_transposed, every_other };

struct Case {
  Index rows, choices, experts, depth, width;
  bool twice = false;  ///< a row may choose an expert twice
  Index alike = 0;     ///< number of successive rows with equal choices in ascending order, except for one row
  Index shared = 0;    ///< number of slots of every row that choose the first experts
};

/// Whole numbers exact in bfloat16, so that sums in float are exact.
template <class T>
std::vector<T> numbers(Index n, std::uint64_t stream) {
  Random const random(7, stream);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) {
    double const z = std::sqrt(12.0) * (random.uniform(i) - 0.5);  // variance 1
    v[i] = static_cast<T>(std::is_same_v<T, bfloat16> ? std::round(5 * z) : z);
  }
  return v;
}

/// A stack of matrices; `room` holds 2 * count * rows * cols elements.
template <class T>
view<T> stack_of(T* room, Index count, Index rows, Index cols, layout how) {
  view<T> v(room, count, rows, cols);
  if (how == layout::transposed) return view<T>(room, count, cols, rows).transposed();
  if (how == layout::column_blocks) {
    v.row_stride = count * cols;
    v.stack_stride = cols;
  }
  if (how == layout::blocks_transposed) {
    v = view<T>(room, count, cols, rows);
    v.row_stride = count * rows;
    v.stack_stride = rows;
    return v.transposed();
  }
  if (how == layout::every_other) {
    v.col_stride = 2;
    v.row_stride *= 2;
    v.stack_stride *= 2;
  }
  return v;
}

/// Experts of slots: expert 1 has no slots, and some slots have no expert.
struct Order {
  std::vector<Int> index, perm, offsets;
  view<Int const> slots, begins;

  explicit Order(Case const& c)
      : index(static_cast<std::size_t>(c.rows * c.choices)),
        perm(index.size() + 1),
        offsets(static_cast<std::size_t>(c.experts + 1)) {
    Random const random(3);
    for (std::size_t i = 0; i < index.size(); ++i) {
      auto const k = static_cast<std::size_t>(c.choices), e = static_cast<std::size_t>(c.experts);
      index[i] = static_cast<Int>(c.twice ? random.below(i, e) : (random.below(i / k, e) + i % k) % e);
      if (index[i] == 1 || i % 11 == 5 || i / k == 3) index[i] = -1;
      auto const j = static_cast<Index>(i % k), row = static_cast<Index>(i / k);
      if (c.alike > 0) index[i] = static_cast<Int>(j < row / c.alike % c.experts ? j : j + 1);
      if (j < c.shared) index[i] = static_cast<Int>(j);
      if (c.shared > 0 && j >= c.shared && index[i] >= 0 && c.shared > index[i]) index[i] = -1;
    }
    Index const n = c.rows * c.choices;
    slots = view<Int const>(perm.data(), 1, n);
    begins = view<Int const>(offsets.data(), 1, c.experts + 1);
    cpu_kernels::sort_by_expert(view<Int>(perm.data(), 1, n), view<Int>(offsets.data(), 1, c.experts + 1),
                                view<Int const>(index.data(), c.rows, c.choices), uniform(1, c.rows));
  }
};

/// Exact sums are rounded to bfloat16 once, by the reference and by the CPU.
template <class T>
inline constexpr double tolerance = std::is_same_v<T, bfloat16> ? 0
                                    : std::is_same_v<T, float>  ? 1e-3
                                                                : 1e-11;

std::vector<Case> cases() {
  return {{37, 3, 5, 19, 23, true}, {1, 1, 3, 4, 4},      {0, 2, 3, 5, 6},           {410, 2, 4, 20, 150, true},
          {300, 4, 6, 32, 70},      {150, 2, 4, 300, 64}, {90, 5, 16, 33, 97, false}};
}
std::vector<layout> layouts(Case const& c) {
  if (c.rows > 40) return {layout::column_blocks, layout::blocks_transposed};
  return {layout::stack,      layout::transposed,        layout::column_blocks,
          layout::row_blocks, layout::blocks_transposed, layout::every_other};
}

/// y as a plain matrix, or with gaps between its elements.
template <class T>
view<T> matrix(std::vector<T>& v, Index rows, Index cols, bool gaps) {
  view<T> m(v.data(), rows, cols);
  if (gaps) {
    m.row_stride = 2 * cols + 1;
    m.col_stride = 2;
  }
  return m;
}

template <class T>
void check_sums(Case const& c, layout how, bool accumulate, bool gaps) {
  Order const order(c);
  Index const slots = c.rows * c.choices;
  auto const w = numbers<T>(2 * c.experts * c.depth * c.width, 1);
  auto x = numbers<T>(slots * (2 * c.depth + 1), 2);
  check_backends<T>(tolerance<T>, [&](auto backend) {
    auto y = numbers<T>(c.rows * (2 * c.width + 1), 3);
    view<T> const vy = matrix(y, c.rows, c.width, gaps), vx = matrix(x, slots, c.depth, gaps);
    view<T const> const vw = stack_of(w.data(), c.experts, c.depth, c.width, how);
    AlignedBuffer scratch(backend.grouped_sum_scratch(vy, view<T const>(vx), vw));
    backend.grouped_sum(vy, view<T const>(vx), vw, order.slots, order.begins, c.choices, accumulate, scratch.bytes());
    return y;
  });
}

template <class T>
void check_products(Case const& c, layout how, bool shared) {
  Order const order(c);
  Index const slots = c.rows * c.choices, rows = shared ? c.rows : slots;
  auto const w = numbers<T>(2 * c.experts * c.depth * c.width, 1), x = numbers<T>(rows * c.depth, 2);
  check_backends<T>(tolerance<T>, [&](auto backend) {
    auto y = numbers<T>(slots * c.width, 3);
    view<T> const vy(y.data(), slots, c.width);
    view<T const> const vw = stack_of(w.data(), c.experts, c.depth, c.width, how), vx(x.data(), rows, c.depth);
    AlignedBuffer scratch(backend.grouped_gemm_scratch(vy, vx, vw));
    backend.grouped_gemm(vy, vx, vw, order.slots, order.begins, shared ? c.choices : 1, scratch.bytes());
    return y;
  });
}

template <class T>
void check_outer(Case const& c, layout how, bool accumulate, int which) {
  Order const order(c);
  Index const slots = c.rows * c.choices, x_slots = which == 0 ? c.choices : 1, g_slots = which == 1 ? c.choices : 1;
  auto x = numbers<T>(slots * (2 * c.depth + 1), 1), g = numbers<T>(slots * (2 * c.width + 1), 2);
  view<T const> const vx = matrix(x, slots / x_slots, c.depth, which == 2),
                      vg = matrix(g, slots / g_slots, c.width, which == 2);
  check_backends<T>(tolerance<T>, [&](auto backend) {
    auto w = numbers<T>(2 * c.experts * c.depth * c.width, 3);
    view<T> const vw = stack_of(w.data(), c.experts, c.depth, c.width, how);
    AlignedBuffer scratch(backend.grouped_outer_scratch(vw, vx, vg));
    backend.grouped_outer(vw, vx, vg, order.slots, order.begins, x_slots, g_slots, accumulate, scratch.bytes());
    return w;
  });
}

TEST_CASE("sums over the experts of a row equal the reference") {
  for (Case const& c : cases()) {
    CAPTURE(c.rows);
    for (layout const how : layouts(c)) {
      check_sums<double>(c, how, false, false);
      check_sums<double>(c, how, true, how == layout::stack);
    }
    check_sums<float>(c, layout::stack, false, false);
    check_sums<float>(c, layout::blocks_transposed, true, false);
    check_sums<bfloat16>(c, layout::stack, false, false);
    check_sums<bfloat16>(c, layout::blocks_transposed, true, true);
  }
}
TEST_CASE("sums over experts that many rows share equal the reference") {
  for (Case const& c : {Case{205, 3, 4, 20, 70, false, 60},
                        {205, 7, 8, 96, 150, false, 130},
                        {700, 3, 4, 5, 9, false, 1},
                        {150, 4, 6, 200, 33, false, 0, 3},
                        {97, 2, 9, 17, 300, false, 0, 2}}) {
    CAPTURE(c.rows);
    for (layout const how : {layout::stack, layout::blocks_transposed}) {
      check_sums<double>(c, how, false, false);
      check_sums<double>(c, how, true, false);
    }
    check_sums<float>(c, layout::column_blocks, false, false);
    check_sums<bfloat16>(c, layout::stack, true, false);
  }
}
TEST_CASE("sums over weights that are packed some columns at a time equal the reference") {
  for (Case const& c : {Case{150, 8, 16, 260, 300}, Case{205, 9, 16, 260, 300, false, 60}}) {
    view<double const> const w(nullptr, c.experts, c.depth, c.width);
    for (Index const workers : {1, 2}) CHECK(cpu_kernels::detail::sum_columns_at_once(c.rows, w, workers) < c.width);
    check_sums<double>(c, layout::stack, false, false);
    check_sums<double>(c, layout::blocks_transposed, true, false);
  }
}
TEST_CASE("products with experts equal the reference") {
  for (Case const& c : cases()) {
    CAPTURE(c.rows);
    for (layout const how : layouts(c)) {
      check_products<double>(c, how, true);
      check_products<double>(c, how, false);
    }
    check_products<float>(c, layout::column_blocks, true);
    check_products<bfloat16>(c, layout::column_blocks, true);
    check_products<bfloat16>(c, layout::blocks_transposed, false);
  }
}
TEST_CASE("gradients by the matrices of experts equal the reference") {
  for (Case const& c : cases()) {
    CAPTURE(c.rows);
    for (layout const how : layouts(c)) {
      for (int const which : {0, 1, 2}) check_outer<double>(c, how, which == 1, which);
    }
    check_outer<float>(c, layout::column_blocks, false, 0);
    check_outer<float>(c, layout::row_blocks, true, 1);
    check_outer<bfloat16>(c, layout::column_blocks, false, 0);
    check_outer<bfloat16>(c, layout::blocks_transposed, true, 1);
    check_outer<bfloat16>(c, layout::row_blocks, true, 2);
  }
}

}  // namespace

}  // namespace grouped_products_test

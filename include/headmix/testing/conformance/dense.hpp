#pragma once
// SPDX-License-Identifier: MIT
// Pointwise kernels and kernels of rows and matrices against the reference.

#include "headmix/expr/pointwise.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/testing/conformance/bench.hpp"

namespace headmix::detail::conformance {

/// a * b + exp(c) with a matrix (or stack), a row and a column.
template <class W, class T>
using tree_of_three =
    tree_node<W, ops::add, tree_node<W, ops::multiply, tree_leaf<T, false, false>, tree_leaf<T, true, false>>,
              tree_node<W, ops::exp, tree_leaf<T, false, true>>>;

/// The operands of this tree.
template <class B>
struct three {
  using T = typename B::scalar;
  three(bench<B>& b, Index rows, Index cols, layout form = layout::gaps)
      : a(b, rows, cols, form), r(b, 1, cols), c(b, rows, 1) {}
  [[nodiscard]] lazy<tree_of_three<accumulator_t<T>, T>> device() {
    return {{{{a.in()}, {r.in()}}, {{c.in()}}}, a.host().rows, a.host().cols};
  }
  [[nodiscard]] lazy<tree_of_three<double, double>> host() {
    return {{{{a.host()}, {r.host()}}, {{c.host()}}}, a.host().rows, a.host().cols};
  }
  operand<B, T> a, r, c;
};

template <class B>
void check_map(bench<B>& b) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  for (auto const [rows, cols] : odd_extents) {
    for (layout const form : all_layouts) {
      for (bool const accumulate : {false, true}) {
        b.begin("map", "[", rows, ", ", cols, "]", accumulate ? " added" : "");
        three<B> tree(b, rows, cols);
        operand<B, T> y(b, rows, cols, form);
        operand<B, W> wide(b, rows, cols, form);
        b.run([&] { b.backend.map(y.device(), tree.device().tree, accumulate); });
        b.reference.map(y.host(), tree.host().tree, accumulate);
        y.check("y");
        b.run([&] { b.backend.map(wide.device(), tree.device().tree, accumulate); });
        b.reference.map(wide.host(), tree.host().tree, accumulate);
        wide.check("y");
      }
    }
  }
  for (layout const form : {layout::plain, layout::gaps}) {
    b.begin("map", "a stack [5, 6, 11], repeated rows and a number");
    auto const tree = []<class V, class L>(std::type_identity<V>, view<L const> of_a, view<L const> of_r) {
      using leaf = tree_leaf<L, false, false>;
      return tree_node<V, ops::subtract, leaf, tree_node<V, ops::divide, tree_repeat<leaf>, tree_number<V>>>{
          {of_a}, {{{of_r}, 3}, {V(4)}}};
    };
    operand<B, T> y(b, 6, 11, form, 5), a(b, 6, 11, layout::gaps, 5), r(b, 10, 11);
    b.run([&] { b.backend.map(y.device(), tree(std::type_identity<W>{}, a.in(), r.in()), true); });
    b.reference.map(
        y.host(), tree(std::type_identity<double>{}, view<double const>(a.host()), view<double const>(r.host())), true);
    y.check("y");
  }
  b.begin("map", "random values");
  randomness const seed(5, 6, 7, 8);
  int_operand<B> key(b, std::vector<Int>(seed.word, seed.word + 6), 1, 6);
  operand<B, W> y(b, 40, 17), z(b, 40, 17);
  b.run([&] {
    b.backend.map(y.device(), tree_random<draws::normal, random_stream::gating_noise>{key.device().data, 17, 4}, false);
  });
  b.reference.map(y.host(), tree_random<draws::normal, random_stream::gating_noise>{key.host().data, 17, 4}, false);
  y.check("y");
  b.run([&] {
    b.backend.map(z.device(), tree_random<draws::keep<1, 3>, random_stream::output_dropout>{key.device().data, 17, 4},
                  false);
  });
  b.reference.map(z.host(), tree_random<draws::keep<1, 3>, random_stream::output_dropout>{key.host().data, 17, 4},
                  false);
  z.check("y");
}

template <class B>
void check_sums(bench<B>& b) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  std::vector<extent> extents(std::begin(odd_extents), std::end(odd_extents));
  for (extent const e : {extent{9, 300}, extent{700, 3}, extent{2001, 1}, extent{3, 1500}}) extents.push_back(e);
  for (auto const [rows, cols] : extents) {
    for (layout const form : all_layouts) {
      bool const accumulate = form == layout::gaps;
      three<B> tree(b, rows, cols, form);
      operand<B, W> y(b, rows, 1, layout::gaps), z(b, 1, cols, form);
      b.begin("row_sum", "[", rows, ", ", cols, "]", accumulate ? " added" : "");
      b.run([&] { b.backend.row_sum(y.device(), tree.device(), accumulate); });
      b.reference.row_sum(y.host(), tree.host(), accumulate);
      y.check("y");
      b.begin("col_sum", "[", rows, ", ", cols, "]", accumulate ? " added" : "");
      b.run([&] { b.backend.col_sum(z.device(), tree.device(), accumulate); });
      b.reference.col_sum(z.host(), tree.host(), accumulate);
      z.check("y");
    }
  }
  for (Index const n : {1, 3, 8}) {
    for (auto const [rows, cols] : odd_extents) {
      b.begin("group_sum", "[", rows * n, ", ", cols, "] by ", n);
      three<B> tree(b, rows * n, cols);
      operand<B, T> y(b, rows, cols);
      b.run([&] { b.backend.group_sum(y.device(), tree.device(), n, n == 3); });
      b.reference.group_sum(y.host(), tree.host(), n, n == 3);
      y.check("y");
    }
  }
}

/// y (+)= a b in the types Y, A and C.
template <class Y, class A, class C, class B>
void check_product(bench<B>& b, Index m, Index k, Index n, layout of_y, layout of_a, layout of_b, bool accumulate) {
  b.begin("gemm", "[", m, ", ", k, "] by [", k, ", ", n, "], layouts ", static_cast<int>(of_y), static_cast<int>(of_a),
          static_cast<int>(of_b), accumulate ? ", added" : "");
  operand<B, Y> y(b, m, n, of_y);
  operand<B, A> left(b, m, k, of_a);
  operand<B, C> right(b, k, n, of_b);
  b.run([&] { b.backend.gemm(y.device(), left.in(), right.in(), accumulate); });
  b.reference.gemm(y.host(), view<double const>(left.host()), view<double const>(right.host()), accumulate);
  y.check("y");
}
template <class B>
void check_gemm(bench<B>& b) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  struct sizes {
    Index m, k, n;
  };
  for (auto const [m, k, n] : {sizes{0, 3, 4}, sizes{3, 4, 0}, sizes{3, 0, 4}, sizes{1, 1, 1}, sizes{1, 33, 65},
                               sizes{65, 33, 1}, sizes{5, 100, 7}, sizes{67, 17, 70}}) {
    for (layout const of_a : all_layouts) {
      for (layout const of_b : all_layouts) {
        layout const of_y = all_layouts[(static_cast<int>(of_a) + static_cast<int>(of_b)) % 3];
        check_product<T, T, T>(b, m, k, n, of_y, of_a, of_b, (of_y == layout::gaps) == (of_a == layout::gaps));
      }
    }
  }
  for (bool const accumulate : {false, true}) {
    check_product<W, T, T>(b, 20, 9, 70, layout::plain, layout::plain, layout::plain, accumulate);
    check_product<T, W, T>(b, 20, 9, 70, layout::plain, layout::gaps, layout::transposed, accumulate);
    check_product<T, T, W>(b, 7, 19, 66, layout::plain, layout::transposed, layout::plain, accumulate);
  }
  check_product<W, T, T>(b, 3, 1100, 5, layout::plain, layout::plain, layout::transposed, false);
  if (b.options().large) {
    for (layout const form : all_layouts) {
      check_product<T, T, T>(b, 300, 700, 130, layout::plain, form, layout::plain, form == layout::gaps);
    }
    check_product<T, T, T>(b, 70, 300, 530, layout::plain, layout::plain, layout::transposed, false);
  }
}

/// Edge-case rows: all or some minus infinity, infinity, some or all NaN; and, for choices, ties.
template <class B>
void set_odd_rows(operand<B, typename B::scalar>& a, bool ties) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  view<double> const v = a.host();
  for (Index j = 0; j < v.cols; ++j) {
    if (v.rows > 1) v(1, j) = -infinity;
    if (v.rows > 2 && j % 3 == 0) v(2, j) = -infinity;
    if (v.rows > 6) v(6, j) = ties ? (j % 3 == 0 ? 0.0 : -0.0) : nan;
    if (v.rows > 7) v(7, j) *= 64;
    if (v.rows > 9) v(9, j) = j == v.cols / 2 ? nan : -infinity;
    if (v.rows > 8 && ties) v(8, j) = j % 2 == 0 ? nan : static_cast<double>(j / 4);
  }
  if (v.rows > 3 && v.cols > 2) v(3, v.cols / 2) = infinity;
  if (v.rows > 4 && v.cols > 2) v(4, v.cols / 2) = nan;
  if (v.rows > 5 && v.cols > 2) v(5, 0) = nan, v(5, v.cols - 1) = -infinity;
  a.send();
}
template <class B>
void check_softmax(bench<B>& b) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  for (Index const rows : {0, 1, 9, 40}) {
    for (Index const cols : {0, 1, 3, 8, 33, 300, 1025, 2500}) {
      if (rows * cols > 12000) continue;
      for (layout const form : all_layouts) {
        operand<B, T> a(b, rows, cols, form), y(b, rows, cols, form);
        operand<B, W> wide(b, rows, cols), lse(b, rows, 1, layout::gaps);
        set_odd_rows(a, false);
        view<double const> const in = a.host();
        b.begin("softmax", "[", rows, ", ", cols, "]");
        b.run([&] { b.backend.softmax(y.device(), a.in()); });
        b.run([&] { b.backend.softmax(wide.device(), a.in()); });
        b.reference.softmax(y.host(), in);
        b.reference.softmax(wide.host(), in);
        y.check("y");
        wide.check("y");
        b.begin("log_sum_exp", "[", rows, ", ", cols, "]");
        b.run([&] { b.backend.log_sum_exp(lse.device(), a.in()); });
        b.reference.log_sum_exp(lse.host(), in);
        lse.check("y");
      }
    }
  }
}

template <class B>
void check_choices(bench<B>& b) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  for (Index const rows : {0, 1, 9, 40}) {
    for (Index const cols : {1, 2, 7, 33, 300}) {
      for (Index const k : {1, 2, 8, 32}) {
        if (k > cols || rows * cols * k > 50000) continue;
        for (layout const form : all_layouts) {
          b.begin("top_k", "the best ", k, " of [", rows, ", ", cols, "]");
          operand<B, T> a(b, rows, cols, form);
          set_odd_rows(a, true);
          int_operand<B> y(b, rows, k);
          b.run([&] { b.backend.top_k(y.device(), a.in()); });
          b.reference.top_k(y.host(), view<double const>(a.host()));
          y.check("y");
        }
      }
    }
  }
  for (Index const rows : {0, 1, 9, 70}) {
    for (Index const cols : {1, 5, 40}) {
      for (Index const k : {1, 3}) {
        if (k > cols) continue;
        for (bool const distinct : {true, false}) {
          auto const chosen = distinct ? distinct_choices(rows, k, cols) : random_choices(rows * k, cols);
          int_operand<B> index(b, chosen, rows, k), y(b, rows, 2 * k);
          operand<B, T> a(b, rows, cols, layout::gaps), taken(b, rows, k), put(b, rows, cols, layout::transposed),
              few(b, rows, k, layout::transposed);
          operand<B, W> hot(b, rows, cols);
          view<Int const> const host = index.host();
          auto const begin = [&](char const* kernel) { b.begin(kernel, k, " choices of [", rows, ", ", cols, "]"); };
          begin("gather_cols");
          b.run([&] { b.backend.gather_cols(taken.device(), a.in(), index.in()); });
          b.reference.gather_cols(taken.host(), view<double const>(a.host()), host);
          taken.check_exact("y");
          begin("scatter_cols");
          b.run([&] { b.backend.scatter_cols(put.device(), few.in(), index.in()); });
          b.reference.scatter_cols(put.host(), view<double const>(few.host()), host);
          put.check("y");
          begin("one_hot");
          b.run([&] { b.backend.one_hot(hot.device(), index.in()); });
          b.reference.one_hot(hot.host(), host);
          hot.check_exact("y");
          begin("renumber");
          view<Int const> const none(nullptr, rows, k);
          b.run([&] { b.backend.renumber(y.device().middle_cols(0, k), none, 5, 2); });
          b.reference.renumber(y.host().middle_cols(0, k), none, 5, 2);
          b.run([&] { b.backend.renumber(y.device().middle_cols(k, k), index.in(), 7, cols); });
          b.reference.renumber(y.host().middle_cols(k, k), host, 7, cols);
          y.check("y");
          begin("renumber");
          b.run([&] { b.backend.renumber(y.device().middle_cols(0, k), none, 5, 2, 3); });
          b.reference.renumber(y.host().middle_cols(0, k), none, 5, 2, 3);
          b.run([&] { b.backend.renumber(y.device().middle_cols(k, k), index.in(), 0, 0, 2); });
          b.reference.renumber(y.host().middle_cols(k, k), host, 0, 0, 2);
          y.check("y");
        }
      }
    }
  }
  b.begin("renumber", "large numbers");
  int_operand<B> large(b, {2147483647, -2147483647, 16777217, -1}, 2, 2), y(b, 2, 2);
  b.run([&] { b.backend.renumber(y.device(), large.in(), 0, 0); });
  b.reference.renumber(y.host(), view<Int const>(large.host()), 0, 0);
  y.check("y");
}

/// Multiples of 1/16, whose sums are exact and thus independent of their order.
template <class B>
void check_ternary(bench<B>& b, Index count, Index rows, Index cols, layout form) {
  using T = typename B::scalar;
  b.begin("absmean_ternary", "[", count, ", ", rows, ", ", cols, "]");
  operand<B, T, T> w(b, rows, cols, form, count), y(b, rows, cols, form, count);
  for (Index e = 0; e < count; ++e) {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        bool const zeros = count > 2 && e == 1;
        w.host()[e](i, j) = static_cast<T>(zeros ? 0.f : static_cast<float>((7 * i + 3 * j + e) % 41 - 20) / 16);
      }
    }
  }
  if (count > 2 && cols > 0 && rows > 1)
    w.host()[2](1, cols - 1) = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  w.send();
  b.run([&] { b.backend.absmean_ternary(y.device(), w.in()); });
  Reference<T>{}.absmean_ternary(y.host(), view<T const>(w.host()));
  y.check_exact("y");
}
/// Rounding kernels: equal to the reference of the same scalar.
template <class B>
void check_roundings(bench<B>& b) {
  using T = typename B::scalar;
  std::vector<extent> extents(std::begin(odd_extents), std::end(odd_extents));
  for (extent const e : {extent{3, 16}, extent{9, 131}, extent{2, 1500}}) extents.push_back(e);
  for (auto const [rows, cols] : extents) {
    for (layout const form : all_layouts) {
      b.begin("absmax_int8", "[", rows, ", ", cols, "]");
      operand<B, T, T> a(b, rows, cols, form), y(b, rows, cols, form);
      for (Index j = 0; rows > 6 && j < cols; ++j) {
        a.host()(1, j) = T(0);
        a.host()(2, j) = static_cast<T>(1e-7f * static_cast<float>(j));  // below the smallest scale
        if (j == cols / 2) a.host()(3, j) = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
        if (j == cols - 1) a.host()(4, j) = static_cast<T>(-std::numeric_limits<float>::infinity());
      }
      a.send();
      b.run([&] { b.backend.absmax_int8(y.device(), a.in()); });
      Reference<T>{}.absmax_int8(y.host(), view<T const>(a.host()));
      y.check_exact("y");
      check_ternary(b, 3, rows, cols, form);
      check_ternary(b, 1, rows, cols, form);
    }
  }
  check_ternary(b, 0, 4, 4, layout::plain);
  check_ternary(b, 1, 70, 1100, layout::plain);
  check_ternary(b, 2, 150, 300, layout::plain);
  check_ternary(b, 900, 9, 2, layout::plain);
  check_ternary(b, 4100, 3, 1, layout::plain);
}

}  // namespace headmix::detail::conformance

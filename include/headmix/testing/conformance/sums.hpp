#pragma once
// SPDX-License-Identifier: MIT
// Long sums, whose error must not grow with the number of terms. Equal terms round to the same side each time, so that
// a sequential sum of 2^20 terms of 0.1f is off by 1 %.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "headmix/testing/conformance/bench.hpp"

namespace headmix::detail::conformance {

/// A column of numbers for long sums, in T: equal ones, or numbers from 0 to 1. More of them follow the last row, for
/// matrices with overlapping rows.
template <class B, class T>
class long_column {
 public:
  static constexpr Index most_columns = 16;

  long_column(bench<B>& b, Index rows, bool equal)
      : rows_(rows), memory_(headmix::backend_memory<B>(static_cast<std::size_t>(rows + most_columns) * sizeof(T))) {
    std::vector<T> values(static_cast<std::size_t>(rows + most_columns), static_cast<T>(0.1f));
    for (std::size_t i = 0; i < values.size() && !equal; ++i)
      values[i] = static_cast<T>(static_cast<float>(static_cast<std::uint32_t>(i) * 2654435761u >> 16) / 65536.0f);
    upload(b.backend, memory_.template as<T>(), values.data(), values.size());
    double total = 0, squares = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const x = static_cast<double>(values[i]);
      if (i < static_cast<std::size_t>(rows)) total += x, squares += x * x;
      if (i < most_columns) first_.push_back(x);
      if (i >= static_cast<std::size_t>(rows)) behind_.push_back(x);
    }
    total_ = total, squares_ = squares;
  }

  /// Element (i, j) is number i + j.
  [[nodiscard]] view<T const> matrix(Index cols) const {
    view<T const> v(memory_.template as<T>(), rows_, cols);
    v.row_stride = 1;
    return v;
  }
  [[nodiscard]] double sum_of(Index col) const {
    double sum = total_;
    for (std::size_t i = 0; i < static_cast<std::size_t>(col); ++i) sum += behind_[i] - first_[i];
    return sum;
  }
  [[nodiscard]] double squares() const { return squares_; }

 private:
  Index rows_;
  headmix::backend_memory<B> memory_;
  double total_, squares_;
  std::vector<double> first_, behind_;
};

/// Sums of `options().sum_rows` rows. Each may be off by 256 roundings of an addition, and by the rounding to its
/// storage type.
template <class B>
void check_long_sums(bench<B>& b) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  Index const rows = b.options().sum_rows;
  auto const check = [&b]<class Y>(operand<B, Y> const& y) {
    y.check("y", std::is_same_v<Y, float> ? 256 * 0x1p-23 / b.template tolerance<Y>() : 1.0);
  };
  for (bool const equal : {true, false}) {
    char const* const terms = equal ? " equal terms" : " terms";
    long_column<B, T> const a(b, rows, equal);
    auto const tree = [](view<T const> v) { return lazy<tree_leaf<T, false, false>>{{v}, v.rows, v.cols}; };
    for (Index const cols : {Index{1}, long_column<B, T>::most_columns}) {
      b.begin("col_sum", cols, " columns of ", rows, terms);
      operand<B, W> y(b, 1, cols);
      for (Index j = 0; j < cols; ++j) y.host()(0, j) = a.sum_of(j);
      b.run([&] { b.backend.col_sum(y.device(), tree(a.matrix(cols)), false); });
      check(y);
    }
    for (Index const cols : {Index{1}, Index{2}}) {
      b.begin("row_sum", cols, " rows of ", rows, terms);
      operand<B, W> y(b, cols, 1);
      for (Index j = 0; j < cols; ++j) y.host()(j, 0) = a.sum_of(j);
      b.run([&] { b.backend.row_sum(y.device(), tree(a.matrix(cols).transposed()), false); });
      check(y);
    }
    operand<B, T> y(b, 1, 1);
    b.begin("group_sum", rows, terms);
    y.host()(0, 0) = a.sum_of(0);
    b.run([&] { b.backend.group_sum(y.device(), tree(a.matrix(1)), rows, false); });
    check(y);
    b.begin("scatter_rows", rows, terms);
    int_operand<B> zero(b, std::vector<Int>{0}, 1, 1);
    view<Int const> index = zero.in();
    index.rows = rows, index.row_stride = 0;
    b.run([&] { b.backend.scatter_rows(y.device(), a.matrix(1), index, false); });
    check(y);
    b.begin("gemm", rows, terms);
    operand<B, W> product(b, 1, 1);
    product.host()(0, 0) = a.squares();
    b.run([&] { b.backend.gemm(product.device(), a.matrix(1).transposed(), a.matrix(1), false); });
    check(product);
  }
  std::vector<Int> order(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Int>(i);
  int_operand<B> perm(b, order, 1, rows), offsets(b, std::vector<Int>{0, static_cast<Int>(rows)}, 1, 2);
  for (bool const equal : {true, false}) {
    b.begin("grouped_outer", rows, equal ? " equal terms" : " terms");
    long_column<B, T> const a(b, rows, equal);
    operand<B, T> y(b, 1, 1);
    y.host()(0, 0) = a.squares();
    view<T const> const x = a.matrix(1);
    auto const scratch = b.scratch(b.backend.grouped_outer_scratch(y.device(), x, x));
    b.run([&] { b.backend.grouped_outer(y.device(), x, x, perm.in(), offsets.in(), 1, 1, false, scratch); });
    check(y);
  }
}

}  // namespace headmix::detail::conformance

#pragma once
// SPDX-License-Identifier: MIT
// Kernels over fused trees: map and sums. Rows or columns are cut into tasks by shape; a row is computed in simd<T>
// where all operations and strides allow it, and number by number elsewhere.

#include <algorithm>

#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/cpu/simd/simd.hpp"
#include "headmix/backend/cpu/tuning.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/scalar.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {
/// A caller's function of a range, by reference: its body is compiled once, for serial and parallel calls.
struct range_task {
  void const* object;
  void (*call)(void const*, Index first, Index last);
};
template <class F>
void call_range(void const* f, Index first, Index last) {
  (*static_cast<F const*>(f))(first, last);
}
inline void run_ranges(executor_ref executor, Index n, Index cost, range_task task) {
  Index const each = std::max<Index>(1, tuning::task_elements / std::max<Index>(1, cost));
  Index const tasks = (n + each - 1) / each;
  if (tasks <= 1) {
    if (n > 0) task.call(task.object, 0, n);
    return;
  }
  executor.parallel_for(tasks, [&](Index t) { task.call(task.object, t * each, (std::min)(n, (t + 1) * each)); });
}
}  // namespace detail

/// f(first, last) over ranges of `n` items of `cost` elements each.
template <class F>
void for_each_range(executor_ref executor, Index n, Index cost, F const& f) {
  detail::run_ranges(executor, n, cost, {&f, detail::call_range<F>});
}

template <class Tree, class T>
inline constexpr bool vectorizes = (Tree::vectorizable) && !std::is_same_v<T, Int>;

/// y[j] (+)= row(j) for n elements
template <bool Vectors, class T, class Row>
void write_row(T* y, Index stride, Row const& row, Index n, bool accumulate) {
  Index j = 0;
  if constexpr (Vectors) {
    using P = simd<accumulator_t<T>>;
    if (accumulate) {
      for (; j + P::width <= n; j += P::width) (P::load(y + j) + row.template at<P>(j)).store(y + j);
    } else {
      for (; j + P::width <= n; j += P::width) row.template at<P>(j).store(y + j);
    }
  }
  using W = accumulator_t<T>;
  for (; j < n; ++j) {
    W const value = row.template at<W>(j);
    T& element = y[j * stride];
    element = static_cast<T>(accumulate ? static_cast<W>(element) + value : value);
  }
}

/// f(std::bool_constant<whether strides and operations allow vectors>)
template <class T, class Tree, class F>
void choose_way(Tree const& tree, Index y_stride, F f) {
  if constexpr (vectorizes<Tree, T>) {
    if (tree.unit_stride() && y_stride == 1) return f(std::true_type{});
  }
  f(std::false_type{});
}

template <class T, class Tree>
void map(executor_ref executor, view<T> y, Tree const& tree, bool accumulate) {
  choose_way<T>(tree, y.col_stride, [&](auto vectors) {
    for_each_range(executor, y.count * y.rows, y.cols, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        write_row<decltype(vectors)::value>(y.row(i), y.col_stride, tree.row(i), y.cols, accumulate);
      }
    });
  });
}

/// The sum of elements [j, end) of a row.
template <bool Vectors, class W, class Row>
W row_block(Row const& row, Index j, Index end) {
  W sum = 0;
  if constexpr (Vectors) {
    using P = simd<W>;
    P total(0.0);
    for (; j + P::width <= end; j += P::width) total = total + row.template at<P>(j);
    sum = total.sum();
  }
  for (; j < end; ++j) sum += row.template at<W>(j);
  return sum;
}
/// The sum of a row of more than a block: see block_terms. Not inlined, so that its callers stay small.
template <bool Vectors, class W, class Row>
[[gnu::noinline]] W row_total(Row const& row, Index cols, Index block) {
  double total = 0;
  for (Index j = 0; j < cols; j += block)
    total += static_cast<double>(row_block<Vectors, W>(row, j, (std::min)(cols, j + block)));
  return static_cast<W>(total);
}

template <class T, class Tree>
void row_sum(executor_ref executor, view<T> y, lazy<Tree> const& a, bool accumulate) {
  using W = accumulator_t<T>;
  choose_way<T>(a.tree, 1, [&](auto vectors) {
    constexpr bool by_vectors = decltype(vectors)::value;
    constexpr Index block = block_terms * (by_vectors ? simd<W>::width : 1);
    for_each_range(executor, a.rows, a.cols, [&](Index first, Index last) {
      auto const put = [&](auto const& sum_of) {
        for (Index i = first; i < last; ++i) {
          W const sum = sum_of(a.tree.row(i));
          T& element = *y.row(i);
          element = static_cast<T>(accumulate ? static_cast<W>(element) + sum : sum);
        }
      };
      if (a.cols <= block) {
        put([&](auto const& row) { return row_block<by_vectors, W>(row, 0, a.cols); });
      } else {
        put([&](auto const& row) { return row_total<by_vectors, W>(row, a.cols, block); });
      }
    });
  });
}

/// The width of P, a vector or a number.
template <class P>
inline constexpr Index width_of = 1;
template <class W, Index Width>
inline constexpr Index width_of<simd<W, Width>> = Width;

/// The sum of rows [begin, end) of a tree in column j, or in the columns of a vector from j on.
template <class P, class Tree>
P column_block(Tree const& tree, Index begin, Index end, Index j) {
  P sum(0.0);
  for (Index i = begin; i < end; ++i) sum = sum + tree.row(i).template at<P>(j);
  return sum;
}
/// column_block for more rows than a block: see block_terms. Not inlined, so that its callers stay small.
template <class P, class W, class Tree>
[[gnu::noinline]] P column_total_of_blocks(Tree const& tree, Index begin, Index end, Index j) {
  constexpr Index width = width_of<P>;
  double total[width] = {};
  W number[width];
  for (Index i = begin; i < end; i += block_terms) {
    P const sum = column_block<P>(tree, i, (std::min)(end, i + block_terms), j);
    if constexpr (width == 1) {
      number[0] = sum;
    } else {
      sum.store(number);
    }
    for (Index c = 0; c < width; ++c) total[c] += static_cast<double>(number[c]);
  }
  for (Index c = 0; c < width; ++c) number[c] = static_cast<W>(total[c]);
  if constexpr (width == 1) {
    return number[0];
  } else {
    return P::load(number);
  }
}
/// The sum of rows [first, first + n) of a tree in column j, or in the columns of a vector from j on.
template <class P, class W, class Tree>
P column_total(Tree const& tree, Index first, Index n, Index j) {
  return n <= block_terms ? column_block<P>(tree, first, first + n, j)
                          : column_total_of_blocks<P, W>(tree, first, first + n, j);
}

/// y[j] (+)= the sum of rows [first, first + n) of a tree in column j, for the columns [j, end)
template <bool Vectors, class T, class Tree>
void write_column_totals(T* y, Index stride, Tree const& tree, Index first, Index n, Index j, Index end,
                         bool accumulate) {
  using W = accumulator_t<T>;
  if constexpr (Vectors) {
    using P = simd<W>;
    for (; j + P::width <= end; j += P::width) {
      P const total = column_total<P, W>(tree, first, n, j);
      (accumulate ? P::load(y + j) + total : total).store(y + j);
    }
  }
  for (; j < end; ++j) {
    W const total = column_total<W, W>(tree, first, n, j);
    T& element = y[j * stride];
    element = static_cast<T>(accumulate ? static_cast<W>(element) + total : total);
  }
}

template <class T, class Tree>
void col_sum(executor_ref executor, view<T> y, lazy<Tree> const& a, bool accumulate) {
  constexpr Index block = tuning::column_sums * simd<accumulator_t<T>>::width;
  choose_way<T>(a.tree, y.col_stride, [&](auto vectors) {
    for_each_range(executor, (a.cols + block - 1) / block, a.rows * block, [&](Index first, Index last) {
      write_column_totals<decltype(vectors)::value>(y.data, y.col_stride, a.tree, 0, a.rows, first * block,
                                                    (std::min)(a.cols, last * block), accumulate);
    });
  });
}

/// y[j] (+)= the sum of rows [i, i + n) of a tree in column j, for all columns
template <bool Vectors, class T, class Tree>
void write_sum(T* y, Index stride, Tree const& tree, Index i, Index n, Index cols, bool accumulate) {
  using W = accumulator_t<T>;
  Index j = 0;
  if constexpr (Vectors) {
    using P = simd<accumulator_t<T>>;
    constexpr Index several = tuning::sums_at_once;  // independent sums
    for (; j + several * P::width <= cols; j += several * P::width) {
      P sum[several] = {P(0.0), P(0.0), P(0.0), P(0.0)};
      if (accumulate)
        for (Index q = 0; q < several; ++q) sum[q] = P::load(y + j + q * P::width);
      for (Index s = 0; s < n; ++s) {
        auto const row = tree.row(i + s);
        for (Index q = 0; q < several; ++q) sum[q] = sum[q] + row.template at<P>(j + q * P::width);
      }
      for (Index q = 0; q < several; ++q) sum[q].store(y + j + q * P::width);
    }
  }
  for (; j < cols; ++j) {
    T& element = y[j * stride];
    W sum = accumulate ? static_cast<W>(element) : W(0);
    for (Index s = 0; s < n; ++s) sum += tree.row(i + s).template at<W>(j);
    element = static_cast<T>(sum);
  }
}

template <class T, class Tree>
void group_sum(executor_ref executor, view<T> y, lazy<Tree> const& a, Index n, bool accumulate) {
  choose_way<T>(a.tree, y.col_stride, [&](auto vectors) {
    for_each_range(executor, y.rows, n * y.cols, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        constexpr bool by_vectors = decltype(vectors)::value;
        if (n <= block_terms) {
          write_sum<by_vectors>(y.row(i), y.col_stride, a.tree, i * n, n, y.cols, accumulate);
        } else {
          write_column_totals<by_vectors>(y.row(i), y.col_stride, a.tree, i * n, n, 0, y.cols, accumulate);
        }
      }
    });
  });
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

HEADMIX_END_QUIET_BOUNDS

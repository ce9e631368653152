#pragma once
// SPDX-License-Identifier: MIT
// Products with one weight matrix per expert, summed over the slots of a row.

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "headmix/backend/cpu/experts/expert.hpp"
#include "headmix/backend/cpu/products/packed_b.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// Rows and columns of y in a task of grouped_sum.
struct sum_block {
  Index rows = tuning::sum_rows, cols = tuning::sum_cols;
};
[[nodiscard]] constexpr sum_block sum_blocks(Index rows, Index cols, Index depth) {
  sum_block shape;
  auto const few = [&] {
    return ((rows + shape.rows - 1) / shape.rows) * ((cols + shape.cols - 1) / shape.cols) < tuning::enough_tasks;
  };
  if (depth < tuning::sum_deep || few()) shape = {tuning::sum_shallow_rows, tuning::sum_wide_cols};
  if (few()) shape.cols = tuning::sum_cols;
  if (few()) shape = {tuning::sum_medium_rows, tuning::sum_wide_cols};
  if (few()) shape.cols = tuning::sum_cols;
  if (few()) shape.rows = tuning::sum_small_rows;
  if (few()) shape.cols = tuning::sum_small_cols;
  return shape;
}

/// True if rows choose enough of the experts for products of neighbouring rows to be joined to one deeper product.
template <class S>
[[nodiscard]] bool may_join(Index slots_per_row, view<S const> const& w) {
  return !widens<S> && 2 * slots_per_row >= w.count;
}
/// True if the weights are packed to scratch for joined products. Otherwise every task packs its panels on its stack,
/// which takes less time than to write them to memory.
template <class S>
[[nodiscard]] bool packs_for_joins(Index slots, Index slots_per_row, view<S const> const& w) {
  return may_join<S>(slots_per_row, w) && slots > 2 * register_block<accumulator_t<S>>::mr * w.count;
}

/// Columns of y whose weights are packed at a time: fewer than all where all take much memory and fewer make enough
/// tasks.
template <class S>
[[nodiscard]] Index sum_columns_at_once(Index rows, view<S const> const& w, Index workers) {
  sum_block const shape = sum_blocks(rows, w.cols, w.rows);
  Index const across = (w.cols + shape.cols - 1) / shape.cols, down = (rows + shape.rows - 1) / shape.rows;
  Index const bytes = packed_b<S>::size(w) * static_cast<Index>(sizeof(accumulator_t<S>));
  Index const parts = (std::min)(bytes / tuning::sum_panel_bytes, down * across / (2 * workers));
  return parts <= 1 ? w.cols : (across + parts - 1) / parts * shape.cols;
}

/// The expert of each slot of some rows, row by row: -1 for none, and for a slot that was added already.
class slot_choices {
 public:
  slot_choices(Int* experts, Index rows, Index slots_per_row)
      : experts_(experts), rows_(rows), slots_per_row_(slots_per_row) {
    std::fill_n(experts, rows * slots_per_row, Int{-1});
  }
  [[nodiscard]] Int& operator[](Index slot) const { return experts_[slot]; }
  [[nodiscard]] Int& operator()(Index r, Index j) const { return experts_[r * slots_per_row_ + j]; }

  /// f(begin, end) for groups of rows. A run of min_joined_rows rows with the same expert in the same slot, as in a
  /// sequence whose heads are chosen once, begins and ends with a group.
  template <class F>
  void for_each_group(F f) const {
    constexpr Index many = tuning::min_joined_rows;
    bool cut[sum_block{}.rows + 1] = {};
    cut[rows_] = true;
    for (Index j = 0; j < slots_per_row_; ++j)
      for (Index begin = 0, end; begin < rows_; begin = end) {
        for (end = begin + 1; end < rows_ && (*this)(end, j) == (*this)(begin, j);) ++end;
        if (end - begin >= many && (*this)(begin, j) >= 0) cut[begin] = cut[end] = true;
      }
    for (Index begin = 0, end; begin < rows_; begin = end) {
      for (end = begin + 1; !cut[end];) ++end;
      f(begin, end);
    }
  }
  /// The number of slots from j on that have successive experts e, e + 1, ..., the same in all rows [begin, end).
  [[nodiscard]] Index run(Index j, Index begin, Index end) const {
    Int const expert = (*this)(begin, j);
    Index count = 0;
    auto const agree = [&] {
      for (Index r = begin; r < end; ++r)
        if ((*this)(r, j + count) != expert + count) return false;
      return true;
    };
    while (expert >= 0 && j + count < slots_per_row_ && agree()) ++count;
    return count;
  }

 private:
  Int* experts_;
  Index rows_, slots_per_row_;
};

/// Scratch of a worker of grouped_sum.
/// @tparam S  the type in memory
template <class S>
struct sum_worker {
  using T = accumulator_t<S>;
  T const** from;    ///< rows of x, `slots` of them
  S const** narrow;  ///< rows of x for dot products
  T** to;            ///< rows of y
  Int* choices;
  T *gathered, *products;
  T* sums;  ///< of the task, for narrow numbers
  Index depth;

  static constexpr Index sums_size =
      widens<S> ? (std::max)(tuning::sum_rows * tuning::sum_cols, tuning::sum_shallow_rows* tuning::sum_wide_cols) : 0;
  static constexpr Index bytes(Index slots, Index depth, Index width) {
    return 3 * scratch_bytes<T*>(slots) + scratch_bytes<Int>(slots) + scratch_bytes<T>(tuning::gathered_rows * depth) +
           scratch_bytes<T>(tuning::gathered_rows * width) + scratch_bytes<T>(sums_size);
  }
  sum_worker(scratch_cutter cut, Index slots, Index depth_, Index width) : depth(depth_) {
    from = cut.take<T const*>(slots);
    narrow = cut.take<S const*>(slots);
    to = cut.take<T*>(slots);
    choices = cut.take<Int>(slots);
    gathered = cut.take<T>(tuning::gathered_rows * depth);
    products = cut.take<T>(tuning::gathered_rows * width);
    sums = cut.take<T>(sums_size);
  }
  /// from[n] = a widened copy of a row of x.
  void widen_row(Index n, S const* row, Index stride) const {
    T* const to_row = gathered + n * depth;
    if (stride == 1) {
      convert_row(to_row, row, depth);
    } else {
      for (Index j = 0; j < depth; ++j) to_row[j] = static_cast<T>(row[j * stride]);
    }
    from[n] = to_row;
  }
  /// Row n of the copies = a row of x, with unit stride.
  S const* copy_row(Index n, S const* row, Index stride) const {
    S* const to_row = reinterpret_cast<S*>(gathered) + n * depth;
    for (Index j = 0; j < depth; ++j) to_row[j] = row[j * stride];
    return to_row;
  }
  /// to += from w for the first n rows, for strides other than 1.
  void multiply_gathered(Index n, view<S const> w, Index from_stride, Index to_stride) const {
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < depth; ++j) gathered[i * depth + j] = from[i][j * from_stride];
    view<T> const result(products, n, w.cols);
    multiply(result, view<T const>(gathered, n, depth), w, false);
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < w.cols; ++j) to[i][j * to_stride] += result(i, j);
  }
};

/// grouped_sum of some columns, in tasks of the shape.
template <class S, class Products>
void sum_columns(executor_ref executor, sum_block const& shape, view<S> y, view<S const> x, view<S const> w,
                 view<Int const> perm, view<Int const> offsets, Index slots_per_row, bool accumulate,
                 std::span<std::byte> scratch, accumulator_t<S>* prepared) {
  using T = accumulator_t<S>;
  // Narrow numbers: rows of x are widened, and y is summed, in the worker's scratch.
  constexpr bool widens = detail::widens<S>;
  scratch_cutter cut(scratch);
  bool const in_place = (widens || (x.col_stride == 1 && y.col_stride == 1)) && w.rows > 0;
  bool const by_dots = multiplies_pairs<S>() && w.rows > 0;
  bool const rounds = may_round<S, Products> && rounds_products<Products>() && in_place;
  bool const packs = !prepared && packs_for_joins<S>(x.rows, slots_per_row, w);
  T* const memory = packs ? cut.take<T>(packed_b<S>::size(w)) : prepared;
  bool const has_panels = memory && !by_dots && !rounds && in_place;
  bool const joins = has_panels && x.row_stride == w.rows && may_join<S>(slots_per_row, w);
  packed_b<S> const packed(w, memory);
  if (packs && has_panels) packed.pack(executor);
  std::byte* const begin = cut.position();
  Index const slots = slots_per_row * sum_block{}.rows;
  Index const bytes = sum_worker<S>::bytes(slots, w.rows, w.cols);
  Index const across = (y.cols + shape.cols - 1) / shape.cols, down = (y.rows + shape.rows - 1) / shape.rows;
  for_each_task(executor, down * across, [&](Index task, Index worker) {
    Index const first = task / across * shape.rows, rows = (std::min)(shape.rows, y.rows - first);
    Index const col = task % across * shape.cols, cols = (std::min)(shape.cols, y.cols - col);
    sum_worker<S> own(scratch_cutter(begin + worker * bytes), slots, w.rows, w.cols);
    view<S> const result = block(y, first, col, rows, cols);
    view<T> to;
    if constexpr (widens) {
      to = view<T>(own.sums, rows, cols);
      if (accumulate) convert(to, result);
    } else {
      to = result;
    }
    // to = or += from w for the first n rows, w the weights of experts [e, e + experts). Rows of y must differ.
    auto const multiply_rows = [&](Index e, Index experts, Index n, bool add) {
      if constexpr (may_multiply_pairs<S>) {
        if (by_dots) {
          pairs_a<listed_rows<S const>> const a{{own.narrow}};
          return multiply_dots(n, listed_rows<T>{own.to}, a, w.rows, cols,
                               expert_pairs{packed, e, col, {w[e].middle_cols(col, cols)}}, add);
        }
      }
      if (!in_place) {
        if constexpr (!widens) own.multiply_gathered(n, w[e].middle_cols(col, cols), x.col_stride, y.col_stride);
        return;
      }
      if constexpr (may_round<S, Products>) {
        if (rounds)
          return multiply_rounded<Products>(n, listed_rows<T>{own.to}, listed_rows<T const>{own.from},
                                            w[e].middle_cols(col, cols), add);
      }
      if (!has_panels) {
        unpacked_a<listed_rows<T const>> const a{{own.from}};
        return multiply_panels<T>(n, listed_rows<T>{own.to}, a, w[e].middle_cols(col, cols), add);
      }
      packed.multiply(own.to, own.from, n, e, experts, col, cols, add);
    };
    // f(e, first slot, last slot) for the slots of every expert in the task's rows.
    auto const for_each_list = [&](auto f) {
      for (Index e = 0; e < w.count; ++e) {
        Int const *const list = perm.data, *const list_end = list + offsets(0, e + 1);
        Int const* const slot = std::lower_bound(list + offsets(0, e), list_end, first * slots_per_row);
        f(e, slot, std::lower_bound(slot, list_end, (first + rows) * slots_per_row));
      }
    };
    slot_choices const chosen(own.choices, rows, slots_per_row);
    for_each_list([&](Index e, Int const* slot, Int const* last) {
      for (; slot != last; ++slot) chosen[*slot - first * slots_per_row] = static_cast<Int>(e);
    });
    if (!joins && !accumulate) clear(to);
    if (joins)
      chosen.for_each_group([&](Index group, Index group_end) {
        bool add = accumulate;
        for (Index j = 0, run; j < slots_per_row; j += run) {
          run = chosen.run(j, group, group_end);
          if (run < 2) {
            run = 1;
            continue;
          }
          for (Index r = group; r < group_end; ++r) {
            if constexpr (!widens) own.from[r - group] = x.row((first + r) * slots_per_row + j);
            own.to[r - group] = to.row(r);
          }
          multiply_rows(chosen(group, j), run, group_end - group, std::exchange(add, true));
          for (Index r = group; r < group_end; ++r) std::fill_n(&chosen(r, j), run, Int{-1});
        }
        if (!add) clear(to.middle_rows(group, group_end - group));
      });
    for_each_list([&](Index e, Int const* slot, Int const* last) {
      bool const copies = by_dots ? x.col_stride != 1 : !in_place || widens;
      Index const most = copies ? tuning::gathered_rows : slots;
      while (slot != last) {
        Index n = 0, previous = -1;
        for (; slot != last && n < most; ++slot) {
          if (chosen[*slot - first * slots_per_row] < 0) continue;
          Index const r = row_of(*slot, slots_per_row) - first;
          if (r == previous) break;  // the row chose the expert twice
          previous = r;
          if (by_dots) {
            own.narrow[n] = copies ? own.copy_row(n, x.row(*slot), x.col_stride) : x.row(*slot);
          } else if constexpr (widens) {
            own.widen_row(n, x.row(*slot), x.col_stride);
          } else {
            own.from[n] = x.row(*slot);
          }
          own.to[n++] = to.row(r);
        }
        if (n > 0) multiply_rows(e, 1, n, true);
      }
    });
    if constexpr (widens) convert(result, to);
  });
}

}  // namespace detail

/// Scratch that grouped_sum needs, in bytes: packed weights, if it packs them, and the rows of a task for each worker.
template <class S>
[[nodiscard]] Index grouped_sum_scratch_bytes(view<S> y, view<S const> x, view<S const> w, Index concurrency) {
  Index const slots_per_row = y.rows > 0 ? x.rows / y.rows : 0;
  Index const columns = (std::min)(w.cols, detail::sum_columns_at_once<S>(y.rows, w, concurrency));
  Index const packed =
      detail::packs_for_joins<S>(x.rows, slots_per_row, w) ? detail::packed_b<S>::size(w.middle_cols(0, columns)) : 0;
  return (scratch_begins + scratch_bytes<accumulator_t<S>>(packed) +
          checked(concurrency) * detail::sum_worker<S>::bytes(slots_per_row * detail::sum_block{}.rows, w.rows, w.cols))
      .value;
}

/// y.row(r) = the sum over the slots s of row r, s / slots_per_row = r, of x.row(s) w[e], e the expert of the slot; or
/// += with `accumulate`. Rows without slots of an expert get 0, or keep their numbers. First the slots whose experts a
/// row shares with its neighbours are added, in one joined product, then the others in the order of the experts.
template <ProductPrecision Products, class S>
void grouped_sum(Products, executor_ref executor, view<S> y, view<std::type_identity_t<S const>> x,
                 view<std::type_identity_t<S const>> w, view<Int const> perm, view<Int const> offsets,
                 Index slots_per_row, bool accumulate, std::span<std::byte> scratch,
                 accumulator_t<S>* prepared = nullptr) {
  if (y.rows == 0 || y.cols == 0) return;
  detail::sum_block const shape = detail::sum_blocks(y.rows, y.cols, w.rows);
  bool const packs = !prepared && detail::packs_for_joins<S>(x.rows, slots_per_row, w);
  Index const step = packs ? detail::sum_columns_at_once<S>(y.rows, w, executor.concurrency()) : y.cols;
  for (Index first = 0; first < y.cols; first += step) {
    Index const n = (std::min)(step, y.cols - first);
    detail::sum_columns<S, Products>(executor, shape, y.middle_cols(first, n), x, w.middle_cols(first, n), perm,
                                     offsets, slots_per_row, accumulate, scratch, prepared);
  }
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

HEADMIX_END_QUIET_BOUNDS

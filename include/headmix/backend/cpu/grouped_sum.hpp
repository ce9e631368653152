#pragma once
// SPDX-License-Identifier: MIT
// Products with one weight matrix per expert, summed over the slots of a row.

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "headmix/backend/cpu/expert.hpp"

namespace headmix::cpu {

namespace detail {

/// Rows and columns of y that a task of grouped_sum makes: they stay in the L2 cache while it walks through the
/// experts. Deep products read more weights for each of them, so more rows shall share those.
struct sum_block {
  Index rows = 1024, cols = 128;
};
[[nodiscard]] constexpr sum_block sum_blocks(Index rows, Index cols, Index depth) {
  sum_block shape;
  auto const few = [&] { return ((rows + shape.rows - 1) / shape.rows) * ((cols + shape.cols - 1) / shape.cols) < 8; };
  if (depth < 256 || few()) shape = {512, 256};
  if (few()) shape.cols = 128;
  if (few()) shape = {192, 256};
  if (few()) shape.cols = 128;
  if (few()) shape.rows = 96;
  if (few()) shape.cols = 64;
  return shape;
}

/// A stack of weights in panels of columns, each as wide as a register block or a part of one. `joined`: the panels of
/// the same columns of all experts follow each other, so that several experts are as good as a deeper one; else those
/// of the same expert do.
template <class T>
class weight_panels {
 public:
  [[nodiscard]] static constexpr Index size(view<T const> const& w) { return w.count * w.rows * padded_cols(w.cols); }

  weight_panels(view<T const> w, bool joined, T* memory) : w_(w), joined_(joined), memory_(memory) {}

  template <Executor E>
  void pack(E& executor) const {
    if (w_.col_stride == 1) {
      // Row by row, as they lie.
      constexpr Index each = 32;
      Index const blocks = (w_.rows + each - 1) / each;
      executor.parallel_for(w_.count * blocks, [this, blocks](Index t) {
        Index const e = t / blocks, first = t % blocks * each;
        for (Index k = first; k < (std::min)(w_.rows, first + each); ++k)
          for_each(0, w_.cols, [&](Index j, Index cols, int, Index width) {
            pack_panel<T>(panel(e, j, width) + k * width, width, block(w_[e], k, j, 1, cols));
          });
      });
      return;
    }
    constexpr Index width = register_block<T>::cols;
    Index const across = (w_.cols + width - 1) / width;
    executor.parallel_for(w_.count * across, [this](Index t) {
      // Neighbours in memory follow each other: the same columns of all experts.
      Index const e = t % w_.count, first = t / w_.count * width;
      for_each(first, (std::min)(first + width, w_.cols), [&](Index j, Index cols, int, Index panel_width) {
        pack_panel<T>(panel(e, j, panel_width), panel_width, w_[e].middle_cols(j, cols));
      });
    });
  }
  /// f(first column, columns, vectors, width) for the panels of columns [begin, end); begin is a multiple of a register
  /// block's columns.
  template <class F>
  void for_each(Index begin, Index end, F f) const {
    for (Index j = begin; j < end;) {
      int const vectors = panel_vectors<T>(end - j);
      Index const width = Index{vectors} * register_block<T>::lanes, cols = (std::min)(width, end - j);
      f(j, cols, vectors, width);
      j += cols;
    }
  }
  /// The panel of expert e that begins with column j.
  [[nodiscard]] T* panel(Index e, Index j, Index width) const {
    return memory_ + (joined_ ? j * w_.count + e * width : e * padded_cols(w_.cols) + j) * w_.rows;
  }

 private:
  [[nodiscard]] static constexpr Index padded_cols(Index cols) {
    constexpr Index lanes = register_block<T>::lanes;
    return (cols + lanes - 1) / lanes * lanes;
  }
  view<T const> w_;
  bool joined_;
  T* memory_;
};

/// What the slots of some rows chose, row by row: -1 for nothing, and for what was added already.
class slot_choices {
 public:
  slot_choices(Int* experts, Index rows, Index slots_per_row)
      : experts_(experts), rows_(rows), slots_per_row_(slots_per_row) {
    std::fill_n(experts, rows * slots_per_row, Int{-1});
  }
  [[nodiscard]] Int& operator[](Index slot) const { return experts_[slot]; }
  [[nodiscard]] Int& operator()(Index r, Index j) const { return experts_[r * slots_per_row_ + j]; }

  /// f(begin, end) for groups of rows: where many successive rows chose the same expert with the same slot, as do those
  /// of a sequence whose heads are chosen once, a group begins and ends with them.
  template <class F>
  void for_each_group(F f) const {
    constexpr Index many = 48;
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
  /// How many slots from slot j on chose an expert and those that follow it, the same in the rows [begin, end).
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

/// What a worker of grouped_sum keeps.
template <class T>
struct sum_worker {
  T const** from;  ///< where rows of x begin, `slots` of them
  T** to;          ///< and those of y
  Int* choices;
  T *gathered, *products;
  Index depth;

  static constexpr Index bytes(Index slots, Index depth, Index width) {
    return 2 * scratch_bytes<T*>(slots) + scratch_bytes<Int>(slots) + scratch_bytes<T>(gather_rows * depth) +
           scratch_bytes<T>(gather_rows * width);
  }
  sum_worker(scratch_cutter cut, Index slots, Index depth_, Index width) : depth(depth_) {
    from = cut.take<T const*>(slots);
    to = cut.take<T*>(slots);
    choices = cut.take<Int>(slots);
    gathered = cut.take<T>(gather_rows * depth);
    products = cut.take<T>(gather_rows * width);
  }
  /// The first n rows, where elements of rows do not follow each other.
  void multiply_gathered(Index n, view<T const> w, Index from_stride, Index to_stride) const {
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < depth; ++j) gathered[i * depth + j] = from[i][j * from_stride];
    view<T> const result(products, n, w.cols);
    multiply(result, view<T const>(gathered, n, depth), w, false);
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < w.cols; ++j) to[i][j * to_stride] += result(i, j);
  }
};

}  // namespace detail

/// Scratch that grouped_sum needs, in bytes: the weights in panels, and the rows of a task for each worker.
template <class T>
[[nodiscard]] Index grouped_sum_scratch_bytes(view<T> y, view<T const> x, view<T const> w, Index concurrency) {
  Index const slots = y.rows > 0 ? (x.rows / y.rows) * detail::sum_block{}.rows : 0;
  return scratch_alignment + scratch_bytes<T>(detail::weight_panels<T>::size(w)) +
         concurrency * detail::sum_worker<T>::bytes(slots, w.rows, w.cols);
}

/// y.row(r) = the sum over the slots s of row r, s / slots_per_row = r, of x.row(s) w[e], e the expert of the slot; or
/// += with `accumulate`. Rows without slots of an expert get 0, or keep what they have. A row's slots are added in the
/// order of the experts, those first whose experts it shares with the rows around it: they make one deep product, while
/// every other expert reads and writes its rows of y once more.
template <Executor E, class T>
void grouped_sum(E& executor, view<T> y, view<std::type_identity_t<T const>> x, view<std::type_identity_t<T const>> w,
                 view<Int const> perm, view<Int const> offsets, Index slots_per_row, bool accumulate,
                 std::span<std::byte> scratch) {
  if (y.rows == 0 || y.cols == 0) return;
  detail::sum_block const shape = detail::sum_blocks(y.rows, y.cols, w.rows);
  scratch_cutter cut(scratch);
  bool const in_place = x.col_stride == 1 && y.col_stride == 1 && w.rows > 0;
  bool const packs = in_place && x.rows > 2 * register_block<T>::rows * w.count;
  // Where rows choose many of the experts, neighbours may well choose the same.
  bool const joins = packs && x.row_stride == w.rows && 2 * slots_per_row >= w.count;
  detail::weight_panels<T> const panels(w, joins, cut.take<T>(detail::weight_panels<T>::size(w)));
  if (packs) panels.pack(executor);
  std::byte* const begin = cut.position();
  Index const slots = slots_per_row * detail::sum_block{}.rows;
  Index const bytes = detail::sum_worker<T>::bytes(slots, w.rows, w.cols);
  Index const across = (y.cols + shape.cols - 1) / shape.cols, down = (y.rows + shape.rows - 1) / shape.rows;
  for_each_task(executor, down * across, [&](Index task, Index worker) {
    Index const first = task / across * shape.rows, rows = (std::min)(shape.rows, y.rows - first);
    Index const col = task % across * shape.cols, cols = (std::min)(shape.cols, y.cols - col);
    detail::sum_worker<T> own(scratch_cutter(begin + worker * bytes), slots, w.rows, w.cols);
    view<T> const to = block(y, first, col, rows, cols);
    // The first n rows of the lists times the weights of `experts` experts from e on. Rows of y must differ.
    auto const multiply_rows = [&](Index e, Index experts, Index n, bool add) {
      if (!in_place) return own.multiply_gathered(n, w[e].middle_cols(col, cols), x.col_stride, y.col_stride);
      detail::left_operand<detail::listed_rows<T const>> const left{{own.from}};
      if (!packs)
        return detail::multiply_panels<T>(n, detail::listed_rows<T>{own.to}, left, w[e].middle_cols(col, cols), add);
      panels.for_each(col, col + cols, [&](Index j, Index width, int vectors, Index panel_width) {
        T const* const panel = panels.panel(e, j, panel_width);
        for (Index k = 0, end = experts * w.rows; k < end; k += register_block<T>::depth) {
          Index const depth = (std::min)(register_block<T>::depth, end - k);
          detail::multiply_panel<T>(n, width, vectors, k, depth, left, panel + k * panel_width, panel_width,
                                    detail::listed_rows<T>{own.to, j - col}, add || k > 0,
                                    detail::read_rows_ahead<T>{own.from, own.to, k, depth, j - col, width, n});
        }
      });
    };
    // f(slots of expert e in these rows) for every expert.
    auto const for_each_list = [&](auto f) {
      for (Index e = 0; e < w.count; ++e) {
        Int const *const list = perm.data, *const list_end = list + offsets(0, e + 1);
        Int const* const slot = std::lower_bound(list + offsets(0, e), list_end, first * slots_per_row);
        f(e, slot, std::lower_bound(slot, list_end, (first + rows) * slots_per_row));
      }
    };
    detail::slot_choices const chosen(own.choices, rows, slots_per_row);
    for_each_list([&](Index e, Int const* slot, Int const* last) {
      for (; slot != last; ++slot) chosen[*slot - first * slots_per_row] = static_cast<Int>(e);
    });
    if (!joins && !accumulate) detail::clear(to);
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
            own.from[r - group] = x.row((first + r) * slots_per_row + j);
            own.to[r - group] = to.row(r);
          }
          multiply_rows(chosen(group, j), run, group_end - group, std::exchange(add, true));
          for (Index r = group; r < group_end; ++r) std::fill_n(&chosen(r, j), run, Int{-1});
        }
        if (!add) detail::clear(to.middle_rows(group, group_end - group));
      });
    for_each_list([&](Index e, Int const* slot, Int const* last) {
      Index const most = in_place ? slots : gather_rows;
      while (slot != last) {
        Index n = 0, previous = -1;
        for (; slot != last && n < most; ++slot) {
          if (chosen[*slot - first * slots_per_row] < 0) continue;
          Index const r = detail::row_of(*slot, slots_per_row) - first;
          if (r == previous) break;  // the row chose the expert twice
          previous = r;
          own.from[n] = x.row(*slot);
          own.to[n++] = to.row(r);
        }
        if (n > 0) multiply_rows(e, 1, n, true);
      }
    });
  });
}

}  // namespace headmix::cpu

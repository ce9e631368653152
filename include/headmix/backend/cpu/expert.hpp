#pragma once
// SPDX-License-Identifier: MIT
// Products with one weight matrix per expert. A slot is one (row, choice) pair, slot = row * slots_per_row + choice;
// the slots of an expert are a list. Products read and write its rows where they lie; only with strides that do not
// allow that, and in outer products, are they gathered into dense blocks.

#include <algorithm>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/gemm.hpp"
#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/executor.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cpu {

/// Sorts the slots by sequence and expert with a stable counting sort: the slots of group g = sequence * experts +
/// expert are perm[offsets[g]] .. perm[offsets[g + 1] - 1], ascending. Slots whose index is outside of [0, experts), as
/// -1 is, follow behind all groups.
/// perm is [1, rows * k], offsets is [1, sequences * experts + 1], index is [rows, k]; `s` divides its rows.
inline void expert_order(view<Int> perm, view<Int> offsets, view<Int const> index, segments s) {
  Index const groups = offsets.cols - 1, experts = s.count > 0 ? groups / s.count : 0;
  // offsets(0, g + 1) first counts the slots of group g, is then where they begin, and while the slots are placed
  // moves on to where they end.
  for (Index g = 0; g <= groups; ++g) offsets(0, g) = 0;
  auto const present = [experts](Index e) { return e >= 0 && e < experts; };
  for (Index b = 0; b < s.count; ++b)
    for (Index i = s.begin(b); i < s.end(b); ++i)
      for (Index j = 0; j < index.cols; ++j)
        if (Index const e = index(i, j); present(e)) ++offsets(0, b * experts + e + 1);
  Int begin = 0;
  for (Index g = 1; g <= groups; ++g) {
    Int const count = offsets(0, g);
    offsets(0, g) = begin;
    begin += count;
  }
  Int left_out = begin;
  for (Index b = 0; b < s.count; ++b)
    for (Index i = s.begin(b); i < s.end(b); ++i)
      for (Index j = 0; j < index.cols; ++j) {
        Index const e = index(i, j);
        perm(0, present(e) ? offsets(0, b * experts + e + 1)++ : left_out++) = static_cast<Int>(i * index.cols + j);
      }
}

/// Rows of a gathered block.
inline constexpr Index gather_rows = 96;

/// Scratch that grouped_gemm needs for weights of depth x width, in bytes.
template <class T>
[[nodiscard]] constexpr Index grouped_scratch_bytes(Index depth, Index width, Index concurrency) {
  return scratch_alignment +
         concurrency * (scratch_bytes<T>(gather_rows * depth) + scratch_bytes<T>(gather_rows * width));
}

namespace detail {

/// Slots of one expert that are multiplied by one copy of its weights, at most: fewer when few blocks would leave
/// threads without work.
inline constexpr Index product_rows = 1152;

/// Blocks of at most `size` slots in the list of expert e.
inline Index slot_blocks(view<Int const> offsets, Index e, Index size) {
  return (offsets(0, e + 1) - offsets(0, e) + size - 1) / size;
}

/// The row of a slot, by a short division.
inline Index row_of(Int slot, Index slots_per_row) {
  return static_cast<Index>(static_cast<std::uint32_t>(slot) / static_cast<std::uint32_t>(slots_per_row));
}

template <Executor E, class T>
void set_to_zero(E& executor, view<T> y) {
  Index const block = 1024, rows = y.count * y.rows;
  executor.parallel_for((rows + block - 1) / block, [&](Index t) {
    for (Index i = t * block; i < (std::min)(rows, (t + 1) * block); ++i) clear_row(y, i, y.cols);
  });
}

/// Copies columns [col, col + to.cols) of the rows that belong to to.rows slots.
template <class T>
void gather(view<T> to, view<T const> from, Int const* slots, Index slot_stride, Index slots_per_row, Index col) {
  for (Index i = 0; i < to.rows; ++i) {
    T const* const source = &from(row_of(slots[i * slot_stride], slots_per_row), col);
    T* const target = to.data + i * to.row_stride;
    if (from.col_stride == 1) {
      std::copy_n(source, to.cols, target);
    } else {
      for (Index j = 0; j < to.cols; ++j) target[j] = source[j * from.col_stride];
    }
  }
}

/// The same, in panels as wide as a register block, each behind `panel_rows` rows of the one before.
template <class T>
void gather_panels(T* to, Index panel_rows, view<T const> from, Int const* slots, Index slot_stride, Index n,
                   Index slots_per_row) {
  constexpr Index width = register_block<T>::cols, ahead = 4, line = 64 / static_cast<Index>(sizeof(T));
  auto const row = [&](Index i) { return from.row(row_of(slots[i * slot_stride], slots_per_row)); };
  for (Index i = 0; i < n; ++i) {
    T const* const source = row(i);
    if (i + ahead < n)
      for (T const *p = row(i + ahead), *const end = p + from.cols; p < end; p += line) __builtin_prefetch(p);
    for (Index j = 0; j < from.cols; j += width) {
      Index const cols = (std::min)(width, from.cols - j);
      T* const target = to + j * panel_rows + i * cols;
      if (from.col_stride == 1 && cols == width) {
        copy_vectors(target, source + j, width);
      } else {
        for (Index c = 0; c < cols; ++c) target[c] = source[(j + c) * from.col_stride];
      }
    }
  }
}

/// Writes the rows of a block to the rows of its slots, from column `col` on.
template <class T>
void scatter(view<T> to, view<T const> from, Int const* slots, Index slot_stride, Index col) {
  for (Index i = 0; i < from.rows; ++i) {
    T const* const source = from.data + i * from.row_stride;
    T* const target = to.row(slots[i * slot_stride]) + col * to.col_stride;
    if (to.col_stride == 1) {
      std::copy_n(source, from.cols, target);
    } else {
      for (Index j = 0; j < from.cols; ++j) target[j * to.col_stride] = source[j];
    }
  }
}

/// Brings the next rows of x and y nearer to the caches while some are multiplied: those of x once, for the first
/// panel.
template <class T>
struct read_rows_ahead {
  T const* const* from;
  T* const* to;
  Index k, depth, col, cols, count;
  Index next = 0;

  rows_to_fetch<T> step() {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    next = (std::min)(next + register_block<T>::rows, count);
    Index const end = (std::min)(next + register_block<T>::rows, count);
    for (Index i = next; i < end; ++i)
      for (Index j = 0; j < cols; j += line) __builtin_prefetch(to[i] + col + j, 1);
    if (col > 0) return {};
    return {from + next, k, depth, end - next};
  }
};

}  // namespace detail

/// For every slot s of every expert e: y.row(s) = x.row(s / slots_per_row) w[e]. Rows of y whose slot has no expert
/// become 0. w is a stack [experts, depth, width], transposed views included; perm and offsets come from expert_order.
template <Executor E, class T>
void grouped_gemm(E& executor, view<T> y, view<std::type_identity_t<T const>> x, view<std::type_identity_t<T const>> w,
                  view<Int const> perm, view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch) {
  if (offsets(0, w.count) < y.count * y.rows) detail::set_to_zero(executor, y);
  Index tasks = 0, most = 2 * detail::product_rows;
  while (tasks < 16 && most > 288) {
    most /= 2;
    tasks = 0;
    for (Index e = 0; e < w.count; ++e) tasks += detail::slot_blocks(offsets, e, most);
  }
  // Few blocks of rows: the columns are cut too.
  Index const parts = tasks >= 8 ? 1 : (std::max)(Index{1}, w.cols / 64);
  Index const part = (w.cols + parts - 1) / parts;
  scratch_cutter const begin(scratch);
  Index const bytes = scratch_bytes<T>(gather_rows * w.rows) + scratch_bytes<T>(gather_rows * w.cols);
  for_each_task(executor, tasks * parts, [&](Index task, Index worker) {
    Index e = 0, b = task / parts, blocks;
    for (; b >= (blocks = detail::slot_blocks(offsets, e, most)); ++e) b -= blocks;
    Index const slots = offsets(0, e + 1) - offsets(0, e);
    Index const begin_row = slots * b / blocks, end_row = slots * (b + 1) / blocks;
    Index const col = task % parts * part, cols = (std::min)(part, w.cols - col);
    if (cols <= 0) return;
    view<T const> const weights = w[e].middle_cols(col, cols);
    // Row by row in place, where rows are successive elements.
    if (x.col_stride == 1 && y.col_stride == 1 && w.rows > 0) {
      T const* from[detail::product_rows];
      T* to[detail::product_rows];
      for (Index i = 0; i < end_row - begin_row; ++i) {
        Index const slot = perm(0, offsets(0, e) + begin_row + i);
        from[i] = x.row(slot / slots_per_row);
        to[i] = y.row(slot) + col;
      }
      detail::left_operand<detail::listed_rows<T const>> const left{{from}};
      auto const ahead = [&](Index k, Index depth, Index j, Index width) {
        return detail::read_rows_ahead<T>{from, to, k, depth, j, width, end_row - begin_row};
      };
      return detail::multiply_panels<T>(end_row - begin_row, detail::listed_rows<T>{to}, left, weights, false, ahead);
    }
    for (Index i = begin_row; i < end_row; i += gather_rows) {
      Index const n = (std::min)(gather_rows, end_row - i);
      scratch_cutter cut(begin.position() + worker * bytes);
      view<T> const rows(cut.take<T>(gather_rows * w.rows), n, w.rows);
      view<T> const products(cut.take<T>(gather_rows * w.cols), n, cols);
      Int const* const list = &perm(0, offsets(0, e) + i);
      detail::gather<T>(rows, x, list, perm.col_stride, slots_per_row, 0);
      multiply(products, rows, weights, false);
      detail::scatter<T>(y, products, list, perm.col_stride, col);
    }
  });
}

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

/// A stack of weights in panels of columns, each as wide as a register block or a part of one.
template <class T>
class weight_panels {
 public:
  [[nodiscard]] static constexpr Index size(view<T const> const& w) { return w.count * w.rows * padded_cols(w.cols); }

  weight_panels(view<T const> w, T* memory) : w_(w), memory_(memory) {}

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
            pack_panel<T>(panel(e, j) + k * width, width, block(w_[e], k, j, 1, cols));
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
        pack_panel<T>(panel(e, j), panel_width, w_[e].middle_cols(j, cols));
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
  [[nodiscard]] T* panel(Index e, Index j) const { return memory_ + (e * padded_cols(w_.cols) + j) * w_.rows; }

 private:
  [[nodiscard]] static constexpr Index padded_cols(Index cols) {
    constexpr Index lanes = register_block<T>::lanes;
    return (cols + lanes - 1) / lanes * lanes;
  }
  view<T const> w_;
  T* memory_;
};

/// What a worker of grouped_sum keeps.
template <class T>
struct sum_worker {
  T const** from;  ///< where rows of x begin, `slots` of them
  T** to;          ///< and those of y
  T *gathered, *products;
  Index depth;

  static constexpr Index bytes(Index slots, Index depth, Index width) {
    return 2 * scratch_bytes<T*>(slots) + scratch_bytes<T>(gather_rows * depth) + scratch_bytes<T>(gather_rows * width);
  }
  sum_worker(scratch_cutter cut, Index slots, Index depth_, Index width) : depth(depth_) {
    from = cut.take<T const*>(slots);
    to = cut.take<T*>(slots);
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

/// y.row(r) = the sum over the slots s of row r, s / slots_per_row = r, of x.row(s) w[e], e the expert of the slot, in
/// the order of the experts; or += with `accumulate`. Rows without slots of an expert get 0, or keep what they have.
template <Executor E, class T>
void grouped_sum(E& executor, view<T> y, view<std::type_identity_t<T const>> x, view<std::type_identity_t<T const>> w,
                 view<Int const> perm, view<Int const> offsets, Index slots_per_row, bool accumulate,
                 std::span<std::byte> scratch) {
  if (y.rows == 0 || y.cols == 0) return;
  detail::sum_block const shape = detail::sum_blocks(y.rows, y.cols, w.rows);
  scratch_cutter cut(scratch);
  detail::weight_panels<T> const panels(w, cut.take<T>(detail::weight_panels<T>::size(w)));
  bool const in_place = x.col_stride == 1 && y.col_stride == 1 && w.rows > 0;
  bool const packs = in_place && x.rows > 2 * register_block<T>::rows * w.count;
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
    if (!accumulate) detail::clear(to);
    // Rows of y must differ among those that are multiplied together.
    auto const multiply_rows = [&](Index e, Index n) {
      if (!in_place) return own.multiply_gathered(n, w[e].middle_cols(col, cols), x.col_stride, y.col_stride);
      detail::left_operand<detail::listed_rows<T const>> const left{{own.from}};
      if (!packs)
        return detail::multiply_panels<T>(n, detail::listed_rows<T>{own.to}, left, w[e].middle_cols(col, cols), true);
      panels.for_each(col, col + cols, [&](Index j, Index width, int vectors, Index panel_width) {
        T const* const panel = panels.panel(e, j);
        for (Index k = 0; k < w.rows; k += register_block<T>::depth) {
          Index const depth = (std::min)(register_block<T>::depth, w.rows - k);
          detail::multiply_panel<T>(n, width, vectors, k, depth, left, panel + k * panel_width, panel_width,
                                    detail::listed_rows<T>{own.to, j - col}, true,
                                    detail::read_rows_ahead<T>{own.from, own.to, k, depth, j - col, width, n});
        }
      });
    };
    for (Index e = 0; e < w.count; ++e) {
      Int const *const list = perm.data, *const list_end = list + offsets(0, e + 1);
      Int const* slot = std::lower_bound(list + offsets(0, e), list_end, first * slots_per_row);
      Int const* const last = std::lower_bound(slot, list_end, (first + rows) * slots_per_row);
      Index const most = in_place ? slots : gather_rows;
      while (slot != last) {
        Index n = 0, previous = -1;
        for (; slot != last && n < most; ++slot, ++n) {
          Index const r = detail::row_of(*slot, slots_per_row) - first;
          if (r == previous) break;  // the row chose the expert twice
          previous = r;
          own.from[n] = x.row(*slot);
          own.to[n] = to.row(r);
        }
        multiply_rows(e, n);
      }
    }
  });
}

namespace detail {

/// What a task of grouped_outer gathers at once: some slots, their rows of x for as many rows of dw, and those of dy in
/// panels of columns. The rows of x go to strips where more than one panel uses them.
struct outer_block {
  static constexpr Index slots = 256;
  /// Rows of a tile of dw.
  [[nodiscard]] static constexpr Index rows(Index total) { return (std::min)(total, task_shape{}.rows); }
  /// Elements from row to row of what is gathered of x without strips: an odd number of cache lines, so that they do
  /// not share places of the cache.
  template <class T>
  [[nodiscard]] static constexpr Index row_stride(Index cols) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    return ((cols + line - 1) / line | 1) * line;
  }
  template <class T>
  [[nodiscard]] static constexpr Index left_size(Index total) {
    return (std::max)(left_strips<T>::size(rows(total), slots), slots * row_stride<T>(rows(total)));
  }
  template <class T>
  [[nodiscard]] static constexpr Index worker_bytes(Index total) {
    return scratch_bytes<T>(left_size<T>(total)) + scratch_bytes<T>(slots * task_shape{}.cols);
  }
};

}  // namespace detail

/// Scratch that grouped_outer needs for matrices of so many rows, in bytes.
template <class T>
[[nodiscard]] constexpr Index grouped_outer_scratch_bytes(Index rows, Index concurrency) {
  return scratch_alignment + concurrency * detail::outer_block::worker_bytes<T>(rows);
}

/// dw[e] = sum over the slots s of expert e, ascending, of x.row(s / x_slots)^T dy.row(s / dy_slots), or += with
/// `accumulate`. An expert without slots gets 0, or keeps what it has.
template <Executor E, class T>
void grouped_outer(E& executor, view<T> dw, view<std::type_identity_t<T const>> x,
                   view<std::type_identity_t<T const>> dy, view<Int const> perm, view<Int const> offsets, Index x_slots,
                   Index dy_slots, bool accumulate, std::span<std::byte> scratch) {
  using gathered = detail::outer_block;
  task_shape shape = task_tiles(dw.rows, dw.cols);
  if (dw.count >= 4) shape = task_shape{};
  Index const across = (dw.cols + shape.cols - 1) / shape.cols;
  Index const tiles = (dw.rows + shape.rows - 1) / shape.rows * across;
  scratch_cutter const begin(scratch);
  Index const bytes = gathered::worker_bytes<T>(dw.rows);
  for_each_task(executor, dw.count * tiles, [&](Index task, Index worker) {
    Index const e = task / tiles, i = task % tiles / across * shape.rows, j = task % across * shape.cols;
    Index const m = (std::min)(shape.rows, dw.rows - i), n = (std::min)(shape.cols, dw.cols - j);
    view<T> const result = block(dw[e], i, j, m, n);
    scratch_cutter cut(begin.position() + worker * bytes);
    T* const left_data = cut.take<T>(gathered::left_size<T>(dw.rows));
    T* const right_data = cut.take<T>(gathered::slots * task_shape{}.cols);
    bool const in_strips = result.col_stride == 1 && n > register_block<T>::cols;
    bool add = accumulate;
    for (Index first = offsets(0, e), end = offsets(0, e + 1); first < end; first += gathered::slots) {
      Index const depth = (std::min)(gathered::slots, end - first);
      Int const* const slots = &perm(0, first);
      view<T> left(left_data, depth, m);
      left.row_stride = gathered::row_stride<T>(m);
      if (in_strips) {
        detail::pack_strips<T>(left_data, m, depth, x.col_stride,
                               [&](Index k) { return &x(detail::row_of(slots[k * perm.col_stride], x_slots), i); });
      } else {
        detail::gather<T>(left, x, slots, perm.col_stride, x_slots, i);
      }
      detail::gather_panels<T>(right_data, gathered::slots, dy.middle_cols(j, n), slots, perm.col_stride, depth,
                               dy_slots);
      for (Index c = 0; c < n; c += register_block<T>::cols) {
        view<T> const right(right_data + c * gathered::slots, depth, (std::min)(register_block<T>::cols, n - c));
        view<T> const to = result.middle_cols(c, right.cols);
        if (in_strips) {
          detail::left_strips<T> const strips{left_data, detail::left_strips<T>::stride_of(depth)};
          detail::multiply_panels<T>(m, detail::strided_rows<T>{to.data, to.row_stride}, strips, right, add);
        } else {
          multiply(to, left.transposed(), right, add);
        }
      }
      add = true;
    }
    if (!add) multiply(result, view<T const>(nullptr, m, 0), view<T const>(nullptr, 0, n), false);
  });
}

}  // namespace headmix::cpu

#pragma once
// SPDX-License-Identifier: MIT
// What a product reads for those after it: few lines of memory can be under way at a time, so they are asked for one by
// one, between its multiply-adds, and a panel may be copied there, too.

#include <algorithm>
#include <cstddef>

#include "headmix/backend/cpu/products/register_block.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu::inline HEADMIX_ISA::detail {

/// What happens to rows of a panel before they are used: they come to the first-level cache, or to the second, or are
/// copied.
enum class panel_reading { first_level, second_level, copied };

/// What is read in the course of a product for the next ones.
template <class T>
struct rows_to_fetch {
  T const* const* rows = nullptr;  ///< `count` of these, `width` elements from `col` on, come nearer to the caches,
  Index col = 0, width = 0, count = 0;
  std::byte const* panel = nullptr;  ///< so do `panel_rows` rows, `panel_stride` bytes apart, each some lines,
  Index panel_stride = 0, panel_rows = 0, panel_lines = 0;
  panel_reading reading = panel_reading::first_level;
  T* copy = nullptr;  ///< or are copied there, and come nearer some rows before that

  void read_panel_row(Index r) const {
    std::byte const* const row = panel + r * panel_stride;
    if (reading == panel_reading::first_level) {
      for (Index l = 0; l < panel_lines; ++l) __builtin_prefetch(row + l * line_bytes);
    } else if (reading == panel_reading::second_level) {
      for (Index l = 0; l < panel_lines; ++l) __builtin_prefetch(row + l * line_bytes, 0, 2);
    } else {
      std::byte const* const later = row + tuning::copy_ahead * panel_stride;
      for (Index l = 0; l < panel_lines; ++l) __builtin_prefetch(later + l * line_bytes);
      copy_row(r, reinterpret_cast<T const*>(row));
    }
  }

 private:
  HEADMIX_WHOLE_VECTORS void copy_row(Index r, T const* from) const {
    constexpr Index each = register_block<T>::cols;
    for (Index j = 0; j < each; j += lanes<T>) store(copy + r * each + j, load(from + j));
  }
};
/// Reads it piece by piece, in the course of a loop over a depth: few lines can be under way at a time.
template <class T>
class line_fetcher {
 public:
  line_fetcher(rows_to_fetch<T> const& next, Index depth) : next_(next), depth_(depth) { begin_row(); }
  /// Reads some, and returns how far to go on before it is called again.
  Index step(Index k) {
    if (row_ < next_.count) {
      __builtin_prefetch(from_);
      __builtin_prefetch(from_ + line);
      from_ += 2 * line;
      if (from_ >= end_) ++row_, begin_row();
      return 4;
    }
    Index const left = next_.panel_rows - panel_row_;
    if (left == 0) return depth_ - k;
    next_.read_panel_row(panel_row_++);
    return (std::max)((depth_ - k) / left, Index{4});
  }
  /// Reads what is left.
  void finish() {
    for (; panel_row_ < next_.panel_rows; ++panel_row_) next_.read_panel_row(panel_row_);
  }

 private:
  static constexpr Index line = line_bytes / static_cast<Index>(sizeof(T));
  void begin_row() {
    if (row_ < next_.count) from_ = next_.rows[row_] + next_.col, end_ = from_ + next_.width;
  }
  rows_to_fetch<T> const& next_;
  Index depth_, row_ = 0, panel_row_ = 0;
  T const *from_ = nullptr, *end_ = nullptr;
};

/// Brings a panel of b nearer to the caches, or copies it, some rows in the course of every step of another product. Of
/// one that lies column by column, columns come nearer.
/// @tparam B  of the panel, T of the product
template <class T, class B = T const>
class read_ahead {
 public:
  /// @param copy  memory for a copy; null for none
  read_ahead(view<B> panel, Index steps, T* copy = nullptr)
      : panel_(panel.col_stride == 1 ? panel : panel.transposed()),
        // Columns may lie a power of 2 apart: in the first-level cache they would push each other out.
        reading_(copy                    ? panel_reading::copied
                 : panel.col_stride == 1 ? panel_reading::first_level
                                         : panel_reading::second_level),
        copy_(copy),
        rows_(steps > 0 ? (panel_.rows + steps - 1) / steps : 0) {}
  rows_to_fetch<T> step(rows_to_fetch<T> next = {}) {
    constexpr Index size = sizeof(B);
    next.panel_rows = (std::min)(rows_, panel_.rows - next_);
    if (next.panel_rows == 0) return next;
    next.panel = reinterpret_cast<std::byte const*>(panel_.row(next_));
    next.panel_stride = panel_.row_stride * size;
    next.panel_lines = (panel_.cols * size + line_bytes - 1) / line_bytes;
    next.reading = reading_;
    if (copy_) next.copy = copy_ + next_ * register_block<T>::cols;
    next_ += next.panel_rows;
    // A column is long: two lines of it at a time.
    if (reading_ == panel_reading::second_level && next.panel_rows == 1) {
      next.panel_stride = 2 * line_bytes;
      next.panel_rows = (next.panel_lines + 1) / 2;
      next.panel_lines = 2;
    }
    return next;
  }

 private:
  view<B> panel_;
  panel_reading reading_;
  T* copy_;
  Index rows_, next_ = 0;
};
template <class T>
struct read_nothing {
  static rows_to_fetch<T> step() { return {}; }
};
template <class T, class B, class Rows>
struct read_both {
  read_ahead<T, B> panel;
  Rows rows;
  rows_to_fetch<T> step() { return panel.step(rows.step()); }
};
/// What multiply_panels reads ahead besides b: a reader for [k, k + depth) and the panel that begins with a column.
template <class T>
struct no_rows_ahead {
  read_nothing<T> operator()(Index, Index, Index) const { return {}; }
};

}  // namespace headmix::cpu::inline HEADMIX_ISA::detail

HEADMIX_END_QUIET_BOUNDS

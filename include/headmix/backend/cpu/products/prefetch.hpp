#pragma once
// SPDX-License-Identifier: MIT
// Prefetching of the operands of the next products, and packing of the next panel of b. A core has few outstanding
// cache misses, so lines are prefetched one by one between the multiply-adds of a product.

#include <algorithm>
#include <cstddef>

#include "headmix/backend/cpu/products/register_block.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// Where the rows of a panel go before they are used: to a cache, or to a copy.
enum class prefetch_target { l1, l2, copy };

/// Memory to prefetch in the course of a product.
template <class T>
struct prefetch_request {
  T const* const* rows = nullptr;  ///< `count` rows, of which `width` elements from `col` on
  Index col = 0, width = 0, count = 0;
  std::byte const* panel = nullptr;  ///< `panel_rows` rows of `panel_lines` cache lines, `panel_stride` bytes apart
  Index panel_stride = 0, panel_rows = 0, panel_lines = 0;
  prefetch_target target = prefetch_target::l1;  ///< of the panel
  T* copy = nullptr;                             ///< memory for a copy of the panel

  void fetch_panel_row(Index r) const {
    std::byte const* const row = panel + r * panel_stride;
    if (target == prefetch_target::l1) {
      for (Index l = 0; l < panel_lines; ++l) __builtin_prefetch(row + l * line_bytes);
    } else if (target == prefetch_target::l2) {
      for (Index l = 0; l < panel_lines; ++l) __builtin_prefetch(row + l * line_bytes, 0, 2);
    } else {
      std::byte const* const later = row + tuning::copy_prefetch * panel_stride;
      for (Index l = 0; l < panel_lines; ++l) __builtin_prefetch(later + l * line_bytes);
      copy_row(r, reinterpret_cast<T const*>(row));
    }
  }

 private:
  HEADMIX_WHOLE_VECTORS void copy_row(Index r, T const* from) const {
    constexpr Index each = register_block<T>::nr;
    for (Index j = 0; j < each; j += lanes<T>) store(copy + r * each + j, load(from + j));
  }
};
/// Serves a request piece by piece in the course of a loop over the depth.
template <class T>
class prefetcher {
 public:
  prefetcher(prefetch_request<T> const& next, Index depth) : next_(next), depth_(depth) { begin_row(); }
  /// Prefetches some lines at step k of the loop; returns the steps until the next call.
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
    next_.fetch_panel_row(panel_row_++);
    return (std::max)((depth_ - k) / left, Index{4});
  }
  /// Serves the rest of the panel.
  void finish() {
    for (; panel_row_ < next_.panel_rows; ++panel_row_) next_.fetch_panel_row(panel_row_);
  }

 private:
  static constexpr Index line = line_bytes / static_cast<Index>(sizeof(T));
  void begin_row() {
    if (row_ < next_.count) from_ = next_.rows[row_] + next_.col, end_ = from_ + next_.width;
  }
  prefetch_request<T> const& next_;
  Index depth_, row_ = 0, panel_row_ = 0;
  T const *from_ = nullptr, *end_ = nullptr;
};

/// Prefetches or packs a panel of b, some rows in each step of another product. A column-major panel is prefetched by
/// columns.
/// @tparam T  the type of the product
/// @tparam B  the type of the panel
template <class T, class B = T const>
class panel_prefetch {
 public:
  /// @param copy  memory for the packed panel, or null
  panel_prefetch(view<B> panel, Index steps, T* copy = nullptr)
      : panel_(panel.col_stride == 1 ? panel : panel.transposed()),
        // Columns a power of 2 apart would evict each other from the L1 cache.
        target_(copy                    ? prefetch_target::copy
                : panel.col_stride == 1 ? prefetch_target::l1
                                        : prefetch_target::l2),
        copy_(copy),
        rows_(steps > 0 ? (panel_.rows + steps - 1) / steps : 0) {}
  prefetch_request<T> step(prefetch_request<T> next = {}) {
    constexpr Index size = sizeof(B);
    next.panel_rows = (std::min)(rows_, panel_.rows - next_);
    if (next.panel_rows == 0) return next;
    next.panel = reinterpret_cast<std::byte const*>(panel_.row(next_));
    next.panel_stride = panel_.row_stride * size;
    next.panel_lines = (panel_.cols * size + line_bytes - 1) / line_bytes;
    next.target = target_;
    if (copy_) next.copy = copy_ + next_ * register_block<T>::nr;
    next_ += next.panel_rows;
    // A column is long: it goes in pieces of two lines.
    if (target_ == prefetch_target::l2 && next.panel_rows == 1) {
      next.panel_stride = 2 * line_bytes;
      next.panel_rows = (next.panel_lines + 1) / 2;
      next.panel_lines = 2;
    }
    return next;
  }

 private:
  view<B> panel_;
  prefetch_target target_;
  T* copy_;
  Index rows_, next_ = 0;
};
template <class T>
struct no_prefetch {
  static prefetch_request<T> step() { return {}; }
};
template <class T, class B, class Rows>
struct prefetch_both {
  panel_prefetch<T, B> panel;
  Rows rows;
  prefetch_request<T> step() { return panel.step(rows.step()); }
};
/// Makes the prefetch of rows for multiply_panels(k, depth, column of the panel): none.
template <class T>
struct no_row_prefetch {
  no_prefetch<T> operator()(Index, Index, Index) const { return {}; }
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail

HEADMIX_END_QUIET_BOUNDS

#pragma once
// SPDX-License-Identifier: MIT
// The weights of experts in panels, as products read them: copied for one pass, or once for all that follow.

#include <algorithm>
#include <utility>
#include <vector>

#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/cpu/products/dot_products.hpp"
#include "headmix/backend/cpu/products/gemm.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace headmix::cpu::inline HEADMIX_ISA {

namespace detail {

/// Brings the next rows of x nearer to the caches while some are multiplied by the first panel.
template <class T>
struct read_rows_ahead {
  T const* const* from;
  Index k, depth, col, count;
  Index next = 0;

  rows_to_fetch<T> step() {
    if (col > 0) return {};
    next = (std::min)(next + register_block<T>::rows, count);
    Index const end = (std::min)(next + register_block<T>::rows, count);
    return {from + next, k, depth, end - next};
  }
};

/// A stack of weights in panels of columns, each as wide as a register block or a part of one. The panels of the same
/// columns of all experts follow each other, so that several experts are as good as a deeper one.
/// @tparam S  the type of the weights; panels are of the type that is calculated with
template <class S>
class weight_panels {
 public:
  using T = accumulator_t<S>;
  [[nodiscard]] static Index size(view<S const> const& w) {
    return (checked(w.count) * deep(w.rows) * padded_cols(w.cols)).value;
  }

  weight_panels(view<S const> w, T* memory) : w_(w), memory_(memory) {}

  void pack(executor_ref executor) const {
    if constexpr (may_multiply_pairs<S>) {
      if (multiplies_pairs<S>()) {
        constexpr Index width = register_block<T>::cols;
        Index const across = (w_.cols + width - 1) / width;
        return executor.parallel_for(w_.count * across, [this, across](Index t) {
          Index const e = t / across, first = t % across * width;
          for_each(first, (std::min)(first + width, w_.cols), [&](Index j, Index cols, int, Index panel_width) {
            pack_pairs(reinterpret_cast<pair*>(panel(e, j, panel_width)), panel_width, w_[e].middle_cols(j, cols));
          });
        });
      }
    }
    if (w_.col_stride == 1) {
      // Row by row, as they lie.
      constexpr Index each = tuning::weight_rows;
      Index const blocks = (w_.rows + each - 1) / each;
      executor.parallel_for(w_.count * blocks, [this, blocks](Index t) {
        Index const e = t / blocks, first = t % blocks * each;
        for (Index k = first; k < (std::min)(w_.rows, first + each); ++k)
          for_each(0, w_.cols, [&](Index j, Index cols, int, Index width) {
            pack_panel(panel(e, j, width) + k * width, width, block(w_[e], k, j, 1, cols));
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
        pack_panel(panel(e, j, panel_width), panel_width, w_[e].middle_cols(j, cols));
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
  /// Columns [col, col + cols) of the weights of `experts` matrices from e on, as one below the other: adds the
  /// products of n rows to, or writes them from, the beginning of the rows `to`.
  void multiply(T* const* to, T const* const* from, Index n, Index e, Index experts, Index col, Index cols,
                bool accumulate) const {
    left_operand<listed_rows<T const>> const left{{from}};
    // Parts of the depth one after another: a part of the rows stays in the L2 cache for all columns.
    Index const all = experts * w_.rows, part = register_block<T>::depth_of(all);
    for (Index k = 0; k < all; k += part) {
      Index const depth = (std::min)(part, all - k);
      for_each(col, col + cols, [&](Index j, Index width, int vectors, Index panel_width) {
        multiply_panel<T>(n, width, vectors, k, depth, left, panel(e, j, panel_width) + k * panel_width, panel_width,
                          listed_rows<T>{to, j - col}, accumulate || k > 0,
                          read_rows_ahead<T>{from, k, depth, j - col, n});
      });
    }
  }
  /// The panel of expert e that begins with column j.
  [[nodiscard]] T* panel(Index e, Index j, Index width) const {
    return memory_ + (j * w_.count + e * width) * deep(w_.rows);
  }
  /// The same in pairs; null without memory for panels.
  [[nodiscard]] pair const* pair_panel(Index e, Index j, Index width) const {
    return reinterpret_cast<pair const*>(memory_ ? panel(e, j, width) : nullptr);
  }

 private:
  /// Numbers, or pairs, in a column of a panel.
  [[nodiscard]] static Index deep(Index rows) { return multiplies_pairs<S>() ? (rows + 1) / 2 : rows; }
  [[nodiscard]] static constexpr Index padded_cols(Index cols) {
    constexpr Index lanes = register_block<T>::lanes;
    return (cols + lanes - 1) / lanes * lanes;
  }
  view<S const> w_;
  T* memory_;
};

/// Columns of the weights w of an expert, from `col` on, for multiply_dots: from panels, if those have memory.
struct expert_pairs {
  weight_panels<bfloat16> const& panels;
  Index e, col;
  packs_pairs<> w;

  [[nodiscard]] pair const* operator()(pair* memory, Index k, Index depth, Index j, Index cols, Index width) const {
    pair const* const panel = panels.pair_panel(e, col + j, width);
    return panel ? panel + k / 2 * width : w(memory, k, depth, j, cols, width);
  }
  [[nodiscard]] view<bfloat16 const> ahead(Index k, Index depth, Index j) const {
    return panels.pair_panel(e, col, 0) ? view<bfloat16 const>(nullptr, 0, 0) : w.ahead(k, depth, j);
  }
};

}  // namespace detail

/// Numbers that the panels of w take.
template <class T>
[[nodiscard]] Index panels_size(view<T const> w) {
  return detail::weight_panels<T>::size(w);
}
/// Copies w to panels.
template <class T>
void pack_panels(executor_ref executor, view<T const> w, accumulator_t<T>* memory) {
  detail::weight_panels<T>(w, memory).pack(executor);
}

/// Panels of weights in memory that stays as it is: a value of whoever owns the weights, such as a module. They are
/// made by the first product that reads such weights.
template <class T>
class prepared_weights {
 public:
  prepared_weights() = default;
  prepared_weights(prepared_weights&&) = default;
  prepared_weights& operator=(prepared_weights&&) = default;

  /// What lies in w stays as it is now: panels of what it was are forgotten.
  void add(view<T const> w) {
    span const all{w.data, w.data + w.size()};
    std::erase_if(entries_, [&all](entry const& e) { return all.contains(e.w.data); });
    std::erase_if(spans_, [&all](span const& s) { return all.contains(s.begin); });
    spans_.push_back(all);
  }
  /// The panels of w, which pack(memory) makes of `size` numbers. Null for weights in other memory.
  template <class Pack>
  [[nodiscard]] accumulator_t<T>* panels(view<T const> const& w, Index size, Pack const& pack) {
    if (std::none_of(spans_.begin(), spans_.end(), [&w](span const& s) { return s.contains(w.data); })) return nullptr;
    auto const same = [&w](entry const& e) {
      return e.w.data == w.data && e.w.count == w.count && e.w.rows == w.rows && e.w.cols == w.cols &&
             e.w.stack_stride == w.stack_stride && e.w.row_stride == w.row_stride && e.w.col_stride == w.col_stride;
    };
    auto found = std::find_if(entries_.begin(), entries_.end(), same);
    if (found == entries_.end()) {
      using number = accumulator_t<T>;
      AlignedBuffer memory(checked_bytes(size, sizeof(number)));
      pack(memory.template as<number>());
      entries_.push_back({w, std::move(memory)});
      found = entries_.end() - 1;
    }
    return found->memory.template as<accumulator_t<T>>();
  }

 private:
  struct span {
    T const *begin, *end;
    [[nodiscard]] bool contains(T const* p) const { return p >= begin && p < end; }
  };
  struct entry {
    view<T const> w;
    AlignedBuffer memory;
  };
  std::vector<span> spans_;
  std::vector<entry> entries_;
};

}  // namespace headmix::cpu::inline HEADMIX_ISA

#pragma once
// SPDX-License-Identifier: MIT
// The weights of experts as packed b: packed for one product, or once for all later products.

#include <algorithm>
#include <utility>
#include <vector>

#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/cpu/products/dot_products.hpp"
#include "headmix/backend/cpu/products/gemm.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// Prefetches the next rows of x while some rows are multiplied by the first panel of b.
template <class T>
struct row_prefetch {
  T const* const* from;
  Index k, depth, col, count;
  Index next = 0;

  prefetch_request<T> step() {
    if (col > 0) return {};
    next = (std::min)(next + register_block<T>::mr, count);
    Index const end = (std::min)(next + register_block<T>::mr, count);
    return {from + next, k, depth, end - next};
  }
};

/// A stack of weight matrices, packed: panels of nr columns, the last ones of fewer vectors. The panels of the same
/// columns of successive experts are adjacent, so several experts are one deeper matrix.
/// @tparam S  the type of the weights; panels are of accumulator_t<S>
template <class S>
class packed_b {
 public:
  using T = accumulator_t<S>;
  [[nodiscard]] static Index size(view<S const> const& w) {
    return (checked(w.count) * deep(w.rows) * padded_cols(w.cols)).value;
  }

  packed_b(view<S const> w, T* memory) : w_(w), memory_(memory) {}

  void pack(executor_ref executor) const {
    if constexpr (may_multiply_pairs<S>) {
      if (multiplies_pairs<S>()) {
        constexpr Index width = register_block<T>::nr;
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
      // By rows, in the order of memory.
      constexpr Index each = tuning::packed_b_rows;
      Index const blocks = (w_.rows + each - 1) / each;
      executor.parallel_for(w_.count * blocks, [this, blocks](Index t) {
        Index const e = t / blocks, first = t % blocks * each;
        for (Index k = first; k < (std::min)(w_.rows, first + each); ++k)
          for_each(0, w_.cols, [&](Index j, Index cols, int, Index width) {
            pack_b_panel(panel(e, j, width) + k * width, width, block(w_[e], k, j, 1, cols));
          });
      });
      return;
    }
    constexpr Index width = register_block<T>::nr;
    Index const across = (w_.cols + width - 1) / width;
    executor.parallel_for(w_.count * across, [this](Index t) {
      // By columns of all experts, in the order of the panels.
      Index const e = t % w_.count, first = t / w_.count * width;
      for_each(first, (std::min)(first + width, w_.cols), [&](Index j, Index cols, int, Index panel_width) {
        pack_b_panel(panel(e, j, panel_width), panel_width, w_[e].middle_cols(j, cols));
      });
    });
  }
  /// f(first column, columns, vectors, width) for the panels of columns [begin, end); begin is a multiple of nr.
  template <class F>
  void for_each(Index begin, Index end, F f) const {
    for (Index j = begin; j < end;) {
      int const vectors = panel_vectors<T>(end - j);
      Index const width = Index{vectors} * register_block<T>::lanes, cols = (std::min)(width, end - j);
      f(j, cols, vectors, width);
      j += cols;
    }
  }
  /// to = or += from w for n rows, where w are columns [col, col + cols) of the weights of experts [e, e + experts),
  /// one below the other.
  void multiply(T* const* to, T const* const* from, Index n, Index e, Index experts, Index col, Index cols,
                bool accumulate) const {
    unpacked_a<listed_rows<T const>> const a{{from}};
    // A part of the depth of all rows stays in the L2 cache for all columns.
    Index const all = experts * w_.rows, part = register_block<T>::kc_of(all);
    for (Index k = 0; k < all; k += part) {
      Index const depth = (std::min)(part, all - k);
      for_each(col, col + cols, [&](Index j, Index width, int vectors, Index panel_width) {
        multiply_panel<T>(n, width, vectors, k, depth, a, panel(e, j, panel_width) + k * panel_width, panel_width,
                          listed_rows<T>{to, j - col}, accumulate || k > 0,
                          row_prefetch<T>{from, k, depth, j - col, n});
      });
    }
  }
  /// The panel of expert e that begins with column j.
  [[nodiscard]] T* panel(Index e, Index j, Index width) const {
    return memory_ + (j * w_.count + e * width) * deep(w_.rows);
  }
  /// The panel in pairs; null without memory.
  [[nodiscard]] pair const* pair_panel(Index e, Index j, Index width) const {
    return reinterpret_cast<pair const*>(memory_ ? panel(e, j, width) : nullptr);
  }

 private:
  /// Numbers or pairs in a column of a panel.
  [[nodiscard]] static Index deep(Index rows) { return multiplies_pairs<S>() ? (rows + 1) / 2 : rows; }
  [[nodiscard]] static constexpr Index padded_cols(Index cols) {
    constexpr Index lanes = register_block<T>::lanes;
    return (cols + lanes - 1) / lanes * lanes;
  }
  view<S const> w_;
  T* memory_;
};

/// The panels of an expert's weights w, from column `col` on, for multiply_dots: those of `panels`, or packed on its
/// stack.
struct expert_pairs {
  packed_b<bfloat16> const& panels;
  Index e, col;
  pair_packer<> w;

  [[nodiscard]] pair const* operator()(pair* memory, Index k, Index depth, Index j, Index cols, Index width) const {
    pair const* const panel = panels.pair_panel(e, col + j, width);
    return panel ? panel + k / 2 * width : w(memory, k, depth, j, cols, width);
  }
  [[nodiscard]] view<bfloat16 const> next_panel(Index k, Index depth, Index j) const {
    return panels.pair_panel(e, col, 0) ? view<bfloat16 const>(nullptr, 0, 0) : w.next_panel(k, depth, j);
  }
};

}  // namespace detail

/// Numbers of the packed w.
template <class T>
[[nodiscard]] Index packed_b_size(view<T const> w) {
  return detail::packed_b<T>::size(w);
}
/// Packs w.
template <class T>
void pack_b(executor_ref executor, view<T const> w, accumulator_t<T>* memory) {
  detail::packed_b<T>(w, memory).pack(executor);
}

/// Packed weights of memory that does not change; their owner, such as a module, keeps them. The first product that
/// reads such weights packs them.
template <class T>
class prepared_weights {
 public:
  prepared_weights() = default;
  prepared_weights(prepared_weights&&) = default;
  prepared_weights& operator=(prepared_weights&&) = default;

  /// The numbers in the memory of w are constant from now on. Packed weights of older numbers are dropped.
  void add(view<T const> w) {
    span const all{w.data, w.data + w.size()};
    std::erase_if(entries_, [&all](entry const& e) { return all.contains(e.w.data); });
    std::erase_if(spans_, [&all](span const& s) { return all.contains(s.begin); });
    spans_.push_back(all);
  }
  /// The packed w, `size` numbers, which pack(memory) writes at first. Null for weights in memory that was not added.
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

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

#pragma once
// SPDX-License-Identifier: MIT
// Gathers and scatters as trees that `map` evaluates, each element computed from the result's side. A negative index
// selects nothing.

#include <type_traits>

#include "headmix/core/config.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// Element (i, k) is a(i, index(i, k)).
template <class T>
struct tree_gather_cols {
  view<T const> a;
  view<Int const> index;

  struct gathered {
    T const* data;
    Int const* chosen;
    Index stride, chosen_stride;
    template <class P>
    HEADMIX_HD P at(Index k) const {
      Int const j = chosen[k * chosen_stride];
      return j < 0 ? P(0) : static_cast<P>(data[j * stride]);
    }
  };
  HEADMIX_HD gathered row(Index i) const { return {&a(i, 0), &index(i, 0), a.col_stride, index.col_stride}; }
};

/// Element (i, j) is the sum of a(i, k) over the k with index(i, k) = j, in order; of ones where a is null.
template <class T>
struct tree_scatter_cols {
  static constexpr bool is_loop = true;
  view<T const> a;
  view<Int const> index;

  struct scattered {
    T const* data;
    Int const* chosen;
    Index stride, chosen_stride, n;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      P sum(0);
      for (Index k = 0; k < n; ++k) {
        if (chosen[k * chosen_stride] == j) sum += data == nullptr ? P(1) : static_cast<P>(data[k * stride]);
      }
      return sum;
    }
  };
  HEADMIX_HD scattered row(Index i) const {
    return {a.data == nullptr ? nullptr : &a(i, 0), &index(i, 0), a.col_stride, index.col_stride, index.cols};
  }
};

/// Element (i, j) is a(i, j) / divide + add + i add_per_row, and -1 where a(i, j) is -1; if a is null, a(i, j) is j.
struct tree_renumber {
  view<Int const> a;
  Index add, add_per_row, divide = 1;

  struct renumbered {
    Int const* data;
    Index stride, add;
    Int divide;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      Int const chosen = data == nullptr ? static_cast<Int>(j) : data[j * stride];
      return static_cast<P>(chosen < 0 ? Index{-1} : chosen / divide + add);
    }
  };
  HEADMIX_HD renumbered row(Index i) const {
    return {a.data == nullptr ? nullptr : &a(i, 0), a.col_stride, add + i * add_per_row, static_cast<Int>(divide)};
  }
};

/// Row i is row index(i, 0) of a table.
template <class T>
struct tree_gather_rows {
  view<T const> table;
  view<Int const> index;

  struct gathered {
    T const* data;  ///< null: zeros, or -1 for indices
    Index stride;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      return data == nullptr ? P(std::is_same_v<T, Int> ? -1 : 0) : static_cast<P>(data[j * stride]);
    }
  };
  HEADMIX_HD gathered row(Index i) const {
    Int const v = index(i, 0);
    return {v < 0 ? nullptr : &table(v, 0), table.col_stride};
  }
};

}  // namespace headmix::cuda_kernels

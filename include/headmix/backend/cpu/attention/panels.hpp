#pragma once
// SPDX-License-Identifier: MIT
// Keys and values as packed b of the products of attention, packed once for all rows.

#include <algorithm>

#include "headmix/backend/cpu/attention/rows.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// f(rows, first column, vectors, columns) for the panels of keys of a tile of scores, and the rows that see some of
/// their keys. Columns are whole vectors.
/// @param begin  the tile's first key, a multiple of the width of panels
template <class T, class F>
void each_visible_panel(view<T> const& scores, tile_rows const& visible_rows, Index begin, F f) {
  using block = register_block<T>;
  Index const cols = (scores.cols + block::lanes - 1) / block::lanes * block::lanes;
  for (Index j = 0, next; j < cols; j = next) {
    int const vectors = panel_vectors<T>(cols - j);
    next = j + vectors * block::lanes;
    tile_rows::span const part = visible_rows.that_see(begin + j, begin + next);
    if (part.first != part.last) f(part, j, vectors, next - j);
  }
}

/// scores = rows times the keys from `begin` on, at least for the visible keys of each row: see each_visible_panel.
/// @param panel_of  the panel with a key below `end`, called for the next panel, too
template <class T, class PanelOf>
void multiply_keys(view<T> scores, view<T const> rows, tile_rows const& visible_rows, Index begin, Index end,
                   PanelOf panel_of) {
  using block = register_block<T>;
  constexpr Index width = block::nr;
  each_visible_panel<T>(scores, visible_rows, begin, [&](tile_rows::span part, Index j, int vectors, Index cols) {
    unpacked_a<strided_rows<T const>> const a{{rows.row(part.first), rows.row_stride}};
    strided_rows<T> const to{scores.row(part.first) + j, scores.row_stride};
    T const* const from = panel_of(begin + j) + (begin + j) % width;
    // The next panel is prefetched, also if it belongs to the next tile.
    view<T const> next(nullptr, 0, 0);
    Index const next_panel = begin + (j / width + 1) * width;
    if (next_panel < end) next = view<T const>(panel_of(next_panel), rows.cols, width);
    for (Index k = 0; k < rows.cols; k += block::kc) {
      Index const depth = (std::min)(block::kc, rows.cols - k);
      multiply_panel<T>(
          part.last - part.first, cols, vectors, k, depth, a, from + k * width, width, to, k > 0,
          panel_prefetch<T>(next.data ? next.middle_rows(k, depth) : next, (part.last - part.first) / block::mr));
    }
  });
}

/// f(first column, vectors, width) for the panels of rows of keys or values: of nr columns, the last ones of fewer
/// vectors.
template <class T, class F>
void each_value_panel(Index dim, F f) {
  constexpr Index lanes = register_block<T>::lanes;
  for (Index j = 0; j < dim;) {
    int const vectors = panel_vectors<T>(dim - j);
    f(j, vectors, Index{vectors * lanes});
    j += vectors * lanes;
  }
}

/// A panel of values of a head: row s begins at data + s stride.
template <class T>
struct value_rows {
  T const* data;
  Index stride;
  [[nodiscard]] T operator()(Index s, Index c) const { return data[s * stride + c]; }
};

/// o = or += p times the values from `begin` on that some row sees; o has padded_dim columns.
/// @param rows_of  (column, width): the value_rows of the panel from the column on
template <class T, class RowsOf>
void multiply_values(view<T> o, view<T const> p, tile_rows const& visible_rows, Index begin, bool accumulate, Index dim,
                     RowsOf rows_of) {
  using block = register_block<T>;
  visible_rows.each_stretch(begin, begin + p.cols, block::mr, [&](tile_rows::span part, Index first, Index last) {
    if (!accumulate && first >= last) return clear(o.middle_rows(part.first, part.last - part.first));
    unpacked_a<strided_rows<T const>> const a{{p.row(part.first), p.row_stride}};
    each_value_panel<T>(dim, [&](Index j, int vectors, Index width) {
      value_rows<T> const from = rows_of(j, width);
      strided_rows<T> const to{o.row(part.first) + j, o.row_stride};
      for (Index k = first - begin; k < last - begin; k += block::kc)
        multiply_panel<T>(part.last - part.first, width, vectors, k, (std::min)(block::kc, last - begin - k), a,
                          from.data + (begin + k) * from.stride, from.stride, to, accumulate || k > first - begin);
    });
  });
}
/// o = or += p times the values from `begin` on, for each row by the keys that it sees: slow, and a value that is not
/// finite reaches no other row.
/// @param values_of  (column, width): the values (key, column) of the panel from the column on
template <AttentionMask M, class T, class P, class ValuesOf>
void multiply_visible_values(view<T> o, view<P> p, tile_rows const& visible_rows, Index begin, bool accumulate,
                             Index dim, ValuesOf values_of) {
  for (Index i = 0; i < visible_rows.count; ++i) {
    if (!accumulate) std::fill_n(o.row(i), o.cols, T(0));
    visible_rows.template each_key<M>(i, begin, begin + p.cols, [&](Index s) {
      auto const by = static_cast<T>(p(i, s - begin));
      each_value_panel<T>(dim, [&](Index j, int, Index width) {
        auto const values = values_of(j, width);
        T* const to = o.row(i) + j;
        for (Index c = 0; c < width; ++c) to[c] += by * values(s, c);
      });
    });
  }
}

/// The last of `count` sequences with first(sequence) <= i.
template <class F>
[[nodiscard]] Index sequence_of_item(Index count, Index i, F first) {
  Index sequence = 0;
  for (Index n = count; n > 1;) {
    Index const half = n / 2;
    if (first(sequence + half) <= i) sequence += half;
    n -= half;
  }
  return sequence;
}

/// The keys (or values) of all sequences as columns: the b of q k^T. Panel p of a sequence has its keys [p width, (p +
/// 1) width), zeros behind the last key.
template <class T>
class key_panels {
 public:
  static constexpr Index width = register_block<T>::nr;

  /// Elements of all panels; the last panel of each sequence may be incomplete.
  [[nodiscard]] static constexpr Index size(attention_extents const& x) {
    return ((checked(x.keys.rows / width) + x.keys.count) * x.kv_heads * x.head_dim * width).value;
  }

  key_panels(attention_extents const& x, T* memory) : x_(x), memory_(memory) {}

  template <class S>
  void pack(executor_ref executor, view<S> k) const {
    if (x_.keys.count == 0) return;
    executor.parallel_for(x_.keys.rows / width + x_.keys.count, [this, k](Index p) {
      Index const sequence = sequence_of_item(x_.keys.count, p, [this](Index b) { return first(b); });
      Index const begin = (p - first(sequence)) * width, n = (std::min)(width, x_.keys.length(sequence) - begin);
      if (n <= 0) return;
      // Some keys of all heads at a time, in the order of memory.
      constexpr Index group = register_block<T>::lanes;
      for (Index i = 0; i < n; i += group)
        for (Index head = 0; head < x_.kv_heads; ++head)
          transpose<T>(panel(p, head) + i, width,
                       keys_of(x_, k, sequence, head).middle_rows(begin + i, (std::min)(group, n - i)));
      for (Index head = 0; n < width && head < x_.kv_heads; ++head)
        for (T* to = panel(p, head); to != panel(p, head) + x_.head_dim * width; to += width)
          std::fill(to + n, to + width, T(0));
    });
  }

  /// See multiply_keys. `Between` has no steps.
  template <class Between = no_prefetch<T>>
  void multiply(view<T> scores, view<T const> rows, tile_rows const& visible_rows, Index sequence, Index head,
                Index begin, Between const& = {}) const {
    multiply_keys<T>(scores, rows, visible_rows, begin, x_.keys.length(sequence),
                     [&](Index key) { return panel(first(sequence) + key / width, head); });
  }

 private:
  [[nodiscard]] Index first(Index sequence) const { return x_.keys.begin(sequence) / width + sequence; }
  [[nodiscard]] T* panel(Index p, Index head) const {
    return memory_ + (head * (x_.keys.rows / width + x_.keys.count) + p) * x_.head_dim * width;
  }

  attention_extents x_;
  T* memory_;
};

/// The values of all sequences in panels of nr columns: the b of p v.
template <class T>
class value_panels {
 public:
  using block = register_block<T>;
  [[nodiscard]] static constexpr Index padded_dim(attention_extents const& x) {
    return (x.head_dim + block::lanes - 1) / block::lanes * block::lanes;
  }
  /// Elements of all panels.
  [[nodiscard]] static constexpr Index size(attention_extents const& x) {
    return (checked(x.keys.rows) * x.kv_heads * padded_dim(x)).value;
  }

  value_panels(attention_extents const& x, T* memory) : x_(x), memory_(memory) {}

  template <class S>
  void pack(executor_ref executor, view<S> v) const {
    constexpr Index each = tuning::value_rows;
    executor.parallel_for((x_.keys.rows + each - 1) / each, [this, v](Index task) {
      // By rows, in the order of memory.
      for (Index row = task * each; row < (std::min)(x_.keys.rows, (task + 1) * each); ++row)
        for (Index head = 0; head < x_.kv_heads; ++head)
          each_value_panel<T>(x_.head_dim, [&](Index j, int, Index width) {
            Index const cols = (std::min)(width, x_.head_dim - j);
            pack_b_panel(panel(head, j) + row * width, width,
                         cpu_kernels::block(v, row, head * x_.head_dim + j, 1, cols));
          });
    });
  }

  /// See multiply_values. `Between` has no steps.
  template <class Between = no_prefetch<T>>
  void multiply(view<T> o, view<T const> p, tile_rows const& visible_rows, Index sequence, Index head, Index begin,
                bool accumulate, Between const& = {}) const {
    multiply_values<T>(o, p, visible_rows, begin, accumulate, x_.head_dim, rows_of(sequence, head));
  }
  /// See multiply_visible_values.
  template <AttentionMask M, class P>
  void multiply_visible(view<T> o, view<P> p, tile_rows const& visible_rows, Index sequence, Index head, Index begin,
                        bool accumulate) const {
    multiply_visible_values<M, T>(o, p, visible_rows, begin, accumulate, x_.head_dim, rows_of(sequence, head));
  }

 private:
  [[nodiscard]] auto rows_of(Index sequence, Index head) const {
    return [this, sequence, head](Index j, Index width) {
      return value_rows<T>{panel(head, j) + x_.keys.begin(sequence) * width, width};
    };
  }
  [[nodiscard]] T* panel(Index head, Index j) const { return memory_ + x_.keys.rows * (head * padded_dim(x_) + j); }

  attention_extents x_;
  T* memory_;
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail

#pragma once
// SPDX-License-Identifier: MIT
// Keys and values as the products of attention read them: copied once for all rows.

#include <algorithm>

#include "headmix/backend/cpu/attention_rows.hpp"

namespace headmix::cpu::inline HEADMIX_ISA::detail {

/// The keys (or values) of all sequences as columns: what q k^T reads as whole vectors. Made once, where every block of
/// rows would else transpose them for itself. A panel is as wide as a register block; panel p of a sequence holds its
/// keys [p width, (p + 1) width), zeros behind the last one.
template <class T>
class key_panels {
 public:
  static constexpr Index width = register_block<T>::cols;

  /// Elements of all panels: every sequence may waste a part of one.
  [[nodiscard]] static constexpr Index size(attention_extents const& x) {
    return (x.keys.rows / width + x.keys.count) * x.kv_heads * x.head_dim * width;
  }

  key_panels(attention_extents const& x, T* memory) : x_(x), memory_(memory) {}

  void pack(executor_ref executor, view<T const> k) const {
    if (x_.keys.count == 0) return;
    executor.parallel_for(x_.keys.rows / width + x_.keys.count, [this, k](Index p) {
      Index sequence = 0;  // the last one whose panels do not begin behind p
      for (Index n = x_.keys.count; n > 1;) {
        Index const half = n / 2;
        if (first(sequence + half) <= p) sequence += half;
        n -= half;
      }
      Index const begin = (p - first(sequence)) * width, n = (std::min)(width, x_.keys.length(sequence) - begin);
      if (n <= 0) return;
      // Some keys of all heads after each other: they are read as they lie.
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

  /// scores = rows times the keys from `begin` on, which is a multiple of `width`, for the rows and keys that see each
  /// other, and some of the others. Whole vectors are written: columns of scores up to the next multiple of their
  /// length.
  void multiply(view<T> scores, view<T const> rows, tile_rows const& visible_rows, Index sequence, Index head,
                Index begin) const {
    using block = register_block<T>;
    scores.cols = (scores.cols + block::lanes - 1) / block::lanes * block::lanes;
    for (Index j = 0, next; j < scores.cols; j = next) {
      int const vectors = panel_vectors<T>(scores.cols - j);
      next = j + vectors * block::lanes;
      tile_rows::span const part = visible_rows.that_see(begin + j, begin + next);
      if (part.first == part.last) continue;
      left_operand<strided_rows<T const>> const left{{rows.row(part.first), rows.row_stride}};
      strided_rows<T> const to{scores.row(part.first) + j, scores.row_stride};
      T const* const from = panel(first(sequence) + (begin + j) / width, head) + (begin + j) % width;
      // The panel behind this one, if only to be read by the next tile.
      view<T const> behind(nullptr, 0, 0);
      if (begin + (j / width + 1) * width < x_.keys.length(sequence))
        behind = view<T const>(panel(first(sequence) + (begin + j) / width + 1, head), rows.cols, width);
      for (Index k = 0; k < rows.cols; k += block::depth) {
        Index const depth = (std::min)(block::depth, rows.cols - k);
        multiply_panel<T>(
            part.last - part.first, next - j, vectors, k, depth, left, from + k * width, width, to, k > 0,
            read_ahead<T>(behind.data ? behind.middle_rows(k, depth) : behind, (part.last - part.first) / block::rows));
      }
    }
  }

 private:
  [[nodiscard]] Index first(Index sequence) const { return x_.keys.begin(sequence) / width + sequence; }
  [[nodiscard]] T* panel(Index p, Index head) const {
    return memory_ + (head * (x_.keys.rows / width + x_.keys.count) + p) * x_.head_dim * width;
  }

  attention_extents x_;
  T* memory_;
};

/// The values of all sequences in panels of columns, each as wide as a register block or a part of one: what p v reads
/// is then near to each other.
template <class T>
class value_panels {
 public:
  using block = register_block<T>;
  [[nodiscard]] static constexpr Index padded_dim(attention_extents const& x) {
    return (x.head_dim + block::lanes - 1) / block::lanes * block::lanes;
  }
  /// Elements of all panels.
  [[nodiscard]] static constexpr Index size(attention_extents const& x) {
    return x.keys.rows * x.kv_heads * padded_dim(x);
  }

  value_panels(attention_extents const& x, T* memory) : x_(x), memory_(memory) {}

  void pack(executor_ref executor, view<T const> v) const {
    constexpr Index each = tuning::value_rows;
    executor.parallel_for((x_.keys.rows + each - 1) / each, [this, v](Index task) {
      // Row by row, as they lie.
      for (Index row = task * each; row < (std::min)(x_.keys.rows, (task + 1) * each); ++row)
        for (Index head = 0; head < x_.kv_heads; ++head)
          for_each_panel([&](Index j, int, Index width) {
            Index const cols = (std::min)(width, x_.head_dim - j);
            pack_panel<T>(panel(head, j) + row * width, width, cpu::block(v, row, head * x_.head_dim + j, 1, cols));
          });
    });
  }

  /// o = or += p times the values from `begin` on, without those that no row sees; o has padded_dim columns.
  void multiply(view<T> o, view<T const> p, tile_rows const& visible_rows, Index sequence, Index head, Index begin,
                bool accumulate) const {
    visible_rows.each_stretch(begin, begin + p.cols, block::rows, [&](tile_rows::span part, Index first, Index last) {
      if (!accumulate && first >= last) return clear(o.middle_rows(part.first, part.last - part.first));
      left_operand<strided_rows<T const>> const left{{p.row(part.first), p.row_stride}};
      for_each_panel([&](Index j, int vectors, Index width) {
        T const* const from = panel(head, j) + (x_.keys.begin(sequence) + begin) * width;
        strided_rows<T> const to{o.row(part.first) + j, o.row_stride};
        for (Index k = first - begin; k < last - begin; k += block::depth)
          multiply_panel<T>(part.last - part.first, width, vectors, k, (std::min)(block::depth, last - begin - k), left,
                            from + k * width, width, to, accumulate || k > first - begin);
      });
    });
  }
  /// The same with nothing but what the rows see: slow, and values that are not finite reach no other row.
  template <AttentionMask M>
  void multiply_seen(view<T> o, view<T const> p, tile_rows const& visible_rows, Index sequence, Index head, Index begin,
                     bool accumulate) const {
    for (Index i = 0; i < visible_rows.count; ++i) {
      if (!accumulate) std::fill_n(o.row(i), o.cols, T(0));
      visible_rows.template each_key<M>(i, begin, begin + p.cols, [&](Index s) {
        T const by = p(i, s - begin);
        for_each_panel([&](Index j, int, Index width) {
          T const* const from = panel(head, j) + (x_.keys.begin(sequence) + s) * width;
          T* const to = o.row(i) + j;
          for (Index c = 0; c < width; ++c) to[c] += by * from[c];
        });
      });
    }
  }

 private:
  template <class F>
  void for_each_panel(F f) const {
    for (Index j = 0; j < x_.head_dim;) {
      int const vectors = panel_vectors<T>(x_.head_dim - j);
      f(j, vectors, Index{vectors * block::lanes});
      j += vectors * block::lanes;
    }
  }
  [[nodiscard]] T* panel(Index head, Index j) const { return memory_ + x_.keys.rows * (head * padded_dim(x_) + j); }

  attention_extents x_;
  T* memory_;
};

}  // namespace headmix::cpu::inline HEADMIX_ISA::detail

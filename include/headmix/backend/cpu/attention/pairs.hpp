#pragma once
// SPDX-License-Identifier: MIT
// The operands of attention's products: wide numbers in panels (panels.hpp), or bfloat16s in pairs for dot products.
// With pairs, probabilities and the gradients of the scores are rounded to bfloat16, and all sums are floats.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/attention/panels.hpp"
#include "headmix/backend/cpu/products/dot_products.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// multiply_keys in pairs: panel_of(key) is the panel with the key.
/// @param between  work of which a step runs after some products of tiles
template <class PanelOf, class Between = no_prefetch<float>>
void multiply_key_pairs(view<float> scores, view<bfloat16 const> rows, tile_rows const& visible_rows, Index begin,
                        PanelOf panel_of, Between between = {}) {
  constexpr Index width = key_panels<float>::width;
  each_visible_panel<float>(scores, visible_rows, begin, [&](tile_rows::span part, Index j, int vectors, Index cols) {
    pairs_a<strided_rows<bfloat16 const>> const a{{rows.row(part.first), rows.row_stride}};
    strided_rows<float> const to{scores.row(part.first) + j, scores.row_stride};
    multiply_pair_columns(vectors, part.last - part.first, cols, 0, rows.cols, a,
                          panel_of(begin + j) + (begin + j) % width, width, false, to, between);
  });
}
/// multiply_values in pairs of rows: rows_of(column, width, key) are the rows from an even key on in the panel from the
/// column on.
/// @param between  work of which a step runs after some products of tiles
template <class RowsOf, class Between = no_prefetch<float>>
void multiply_value_pairs(view<float> o, view<bfloat16 const> p, tile_rows const& visible_rows, Index begin,
                          bool accumulate, Index dim, RowsOf rows_of, Between between = {}) {
  visible_rows.each_stretch(
      begin, begin + p.cols, register_block<float>::mr, [&](tile_rows::span part, Index from, Index to) {
        if (from >= to) {
          if (!accumulate) clear(o.middle_rows(part.first, part.last - part.first));
          return;
        }
        from -= (from - begin) % 2;  // whole pairs: a masked key has a probability of 0
        pairs_a<strided_rows<bfloat16 const>> const a{{p.row(part.first), p.row_stride}};
        each_value_panel<float>(dim, [&](Index j, int vectors, Index width) {
          auto const rows = rows_of(j, width, from);
          multiply_pair_columns(vectors, part.last - part.first, width, from - begin, to - from, a, rows.data,
                                rows.stride, accumulate, strided_rows<float>{o.row(part.first) + j, o.row_stride},
                                between);
        });
      });
}

/// key_panels in pairs of successive elements of a key.
class key_pairs {
 public:
  static constexpr Index width = key_panels<float>::width;

  /// Pairs of all panels.
  [[nodiscard]] static constexpr Index size(attention_extents const& x) {
    return ((checked(x.keys.rows / width) + x.keys.count) * x.kv_heads * deep(x) * width).value;
  }

  key_pairs(attention_extents const& x, pair* memory) : x_(x), memory_(memory) {}

  template <class S>
  void pack(executor_ref executor, view<S const> k) const {
    if (x_.keys.count == 0) return;
    executor.parallel_for(x_.keys.rows / width + x_.keys.count, [this, k](Index p) {
      Index const sequence = sequence_of_item(x_.keys.count, p, [this](Index b) { return first(b); });
      Index const begin = (p - first(sequence)) * width, n = (std::min)(width, x_.keys.length(sequence) - begin);
      if (n <= 0) return;
      for (Index head = 0; head < x_.kv_heads; ++head)
        pack_pairs(panel(p, head), width, keys_of(x_, k, sequence, head).middle_rows(begin, n).transposed());
    });
  }

  /// See multiply_keys.
  template <class Between = no_prefetch<float>>
  void multiply(view<float> scores, view<bfloat16 const> rows, tile_rows const& visible_rows, Index sequence,
                Index head, Index begin, Between between = {}) const {
    multiply_key_pairs(
        scores, rows, visible_rows, begin, [&](Index key) { return panel(first(sequence) + key / width, head); },
        between);
  }

 private:
  [[nodiscard]] static constexpr Index deep(attention_extents const& x) { return (x.head_dim + 1) / 2; }
  [[nodiscard]] Index first(Index sequence) const { return x_.keys.begin(sequence) / width + sequence; }
  [[nodiscard]] pair* panel(Index p, Index head) const {
    return memory_ + (head * (x_.keys.rows / width + x_.keys.count) + p) * deep(x_) * width;
  }

  attention_extents x_;
  pair* memory_;
};

/// value_panels in pairs of successive rows of a sequence.
class value_pairs {
 public:
  using block = register_block<float>;
  [[nodiscard]] static constexpr Index padded_dim(attention_extents const& x) {
    return value_panels<float>::padded_dim(x);
  }
  /// Pairs of all panels.
  [[nodiscard]] static constexpr Index size(attention_extents const& x) {
    return (checked(all_rows(x)) * x.kv_heads * padded_dim(x)).value;
  }

  value_pairs(attention_extents const& x, pair* memory) : x_(x), memory_(memory) {}

  template <class S>
  void pack(executor_ref executor, view<S const> v) const {
    constexpr Index each = tuning::value_rows / 2;
    if (x_.keys.count == 0) return;
    executor.parallel_for((all_rows(x_) + each - 1) / each, [this, v](Index task) {
      for (Index row = task * each; row < (std::min)(all_rows(x_), (task + 1) * each); ++row) {
        Index const b = sequence_of_item(x_.keys.count, row, [this](Index sequence) { return first(sequence); });
        Index const key = 2 * (row - first(b)), n = (std::min)(Index{2}, x_.keys.length(b) - key);
        if (n <= 0) continue;
        for (Index head = 0; head < x_.kv_heads; ++head)
          each_value_panel<float>(x_.head_dim, [&](Index j, int, Index width) {
            pack_pairs(panel(head, j) + row * width, width, n, (std::min)(width, x_.head_dim - j), v.col_stride,
                       [&](Index k) { return &v(x_.keys.begin(b) + key + k, head * x_.head_dim + j); });
          });
      }
    });
  }

  /// See multiply_values.
  template <class Between = no_prefetch<float>>
  void multiply(view<float> o, view<bfloat16 const> p, tile_rows const& visible_rows, Index sequence, Index head,
                Index begin, bool accumulate, Between between = {}) const {
    multiply_value_pairs(
        o, p, visible_rows, begin, accumulate, x_.head_dim,
        [&](Index j, Index width, Index key) {
          return value_rows<pair>{panel(head, j) + (first(sequence) + key / 2) * width, width};
        },
        between);
  }
  /// See multiply_visible_values.
  template <AttentionMask M, class P>
  void multiply_visible(view<float> o, view<P> p, tile_rows const& visible_rows, Index sequence, Index head,
                        Index begin, bool accumulate) const {
    multiply_visible_values<M, float>(
        o, p, visible_rows, begin, accumulate, x_.head_dim, [this, sequence, head](Index j, Index width) {
          return [from = panel(head, j) + first(sequence) * width, width](Index s, Index c) {
            pair const both = from[s / 2 * width + c];
            return element_of(both, s % 2);
          };
        });
  }

 private:
  [[nodiscard]] static constexpr Index all_rows(attention_extents const& x) { return x.keys.rows / 2 + x.keys.count; }
  [[nodiscard]] Index first(Index sequence) const { return x_.keys.begin(sequence) / 2 + sequence; }
  [[nodiscard]] pair* panel(Index head, Index j) const { return memory_ + all_rows(x_) * (head * padded_dim(x_) + j); }

  attention_extents x_;
  pair* memory_;
};

/// Operands of products in T.
template <class T>
struct wide_operands {
  using number = T;  ///< of queries and probabilities
  using keys = key_panels<T>;
  using values = value_panels<T>;
  using element = T;  ///< of the memory of keys and values
  /// True if exponentials overlap products of other rows.
  [[nodiscard]] static constexpr bool overlaps() { return false; }
  /// Lives during the products of a task.
  struct in_use {};
};
/// Operands of dot products.
struct paired_operands {
  using number = bfloat16;
  using keys = key_pairs;
  using values = value_pairs;
  using element = pair;
  [[nodiscard]] static bool overlaps() { return has_tiles(); }
#if defined(HEADMIX_ISA_HAS_TILES)
  struct in_use : tiles_in_use {
    in_use() : tiles_in_use(has_tiles()) {}
  };
#else
  struct in_use {};
#endif
};
/// f(operands) with the fastest operands on this machine for numbers of S; Products may round floats.
template <class S, class Products = products::exact, class F>
auto with_operands(F f) {
  if constexpr (may_multiply_pairs<S>) {
    if (multiplies_pairs<S>()) return f(paired_operands{});
  } else if constexpr (may_round<S, Products> && Products::passes == 1) {
    if (rounds_products<Products>()) return f(paired_operands{});
  }
  return f(wide_operands<accumulator_t<S>>{});
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail

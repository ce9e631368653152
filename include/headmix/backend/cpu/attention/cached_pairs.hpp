#pragma once
// SPDX-License-Identifier: MIT
// The cache of a decoder over bfloat16, packed in pairs for dot products and tiles: a step reads half the memory of
// float and copies nothing. The layout depends on the machine, its size does not.

#include "headmix/backend/cpu/attention/pairs.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// The cached keys, in panels like key_pairs: page, head, panel, pair of columns, key. head_dim is even.
class cached_key_pairs {
 public:
  static constexpr Index width = key_pairs::width;
  [[nodiscard]] static constexpr Index widened_size(Index) { return 0; }

  cached_key_pairs(attention_extents const& x, attention_cache<bfloat16> const& cache, float* = nullptr)
      : x_(x), cache_(cache) {}

  /// Copies keys [first, last) of sequence b to the cache.
  void put(view<bfloat16 const> k, Index b, Index first, Index last) const {
    Index const past = x_.keys.first_position(b);
    for (Index s = first; s < last; ++s)
      for (Index head = 0; head < x_.kv_heads; ++head) {
        bfloat16 const* const row = &k(x_.keys.begin(b) + s - past, head * x_.head_dim);
        pair* to = panel(b, head, s) + s % width;
        for (Index j = 0; j < x_.head_dim; j += 2, to += width)
          *to = word_of(row[j * k.col_stride]) | word_of(row[(j + 1) * k.col_stride]) << 16;
      }
  }
  /// See multiply_keys; the tile is in one page.
  void multiply(view<float> scores, view<bfloat16 const> rows, tile_rows const& visible_rows, Index b, Index head,
                Index begin) const {
    multiply_key_pairs(scores, rows, visible_rows, begin, [&](Index key) { return panel(b, head, key); });
  }

 private:
  [[nodiscard]] pair* panel(Index b, Index head, Index s) const {
    Index const rows = cache_.pages.rows, part = cache_.pages.page(b, s) * x_.kv_heads + head;
    return reinterpret_cast<pair*>(cache_.keys.data + (part * rows + s % rows / width * width) * x_.head_dim);
  }

  attention_extents const& x_;
  attention_cache<bfloat16> const& cache_;
};

/// The cached values: page, head, pair of keys, column.
class cached_value_pairs {
 public:
  [[nodiscard]] static constexpr Index widened_size(Index) { return 0; }

  cached_value_pairs(attention_extents const& x, attention_cache<bfloat16> const& cache, float* = nullptr)
      : x_(x), cache_(cache) {}

  /// Copies values [first, last) of sequence b to the cache. The missing second value of the last pair is 0: it is
  /// multiplied by a probability of 0.
  void put(view<bfloat16 const> v, Index b, Index first, Index last) const {
    Index const past = x_.keys.first_position(b), dim = x_.head_dim;
    for (Index s = first; s < last; ++s)
      for (Index head = 0; head < x_.kv_heads; ++head) {
        bfloat16 const* const row = &v(x_.keys.begin(b) + s - past, head * dim);
        pair* const to = row_pair(b, head, s);
        for (Index j = 0; j < dim; ++j) {
          pair const word = word_of(row[j * v.col_stride]);
          to[j] = s % 2 == 0 ? word : (to[j] & 0xFFFFu) | word << 16;
        }
      }
  }
  /// See multiply_values; `begin` is the first key of a tile.
  void multiply(view<float> o, view<bfloat16 const> p, tile_rows const& visible_rows, Index b, Index head,
                Index begin) const {
    multiply_value_pairs(o, p, visible_rows, begin, false, x_.head_dim, [&](Index j, Index, Index key) {
      return value_rows<pair>{row_pair(b, head, begin) + (key - begin) / 2 * x_.head_dim + j, x_.head_dim};
    });
  }
  /// See multiply_visible_values.
  template <AttentionMask M>
  void multiply_visible(view<float> o, view<bfloat16 const> p, tile_rows const& visible_rows, Index b, Index head,
                        Index begin) const {
    multiply_visible_values<M, float>(o, p, visible_rows, begin, false, x_.head_dim, [&](Index j, Index) {
      return [this, b, head, j](Index s, Index c) { return element_of(row_pair(b, head, s)[j + c], s % 2); };
    });
  }

 private:
  [[nodiscard]] pair* row_pair(Index b, Index head, Index s) const {
    Index const rows = cache_.pages.rows, part = cache_.pages.page(b, s) * x_.kv_heads + head;
    return reinterpret_cast<pair*>(cache_.values.data + (part * rows + s % rows / 2 * 2) * x_.head_dim);
  }

  attention_extents const& x_;
  attention_cache<bfloat16> const& cache_;
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail

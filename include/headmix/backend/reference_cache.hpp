#pragma once
// SPDX-License-Identifier: MIT
// The definition of a decoder's kernels (contract/optional_kernels.hpp: Decodes).

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "headmix/contract/attention_problem.hpp"

namespace headmix::detail {

/// The keys and values of a cache, sequence by sequence. The constructor copies those of the problem to the cache
/// first.
template <class T>
class cached_rows {
 public:
  template <class Problem>
  cached_rows(Problem const& p, attention_cache<T> const& cache) {
    attention_extents const& x = p.extents;
    offsets_.push_back(0);
    for (Index b = 0; b < x.keys.count; ++b) {
      Index const past = x.keys.first_position(b), n = x.key_length(b);
      for (Index s = past; s < n; ++s) {
        Index const row = x.keys.begin(b) + s - past;
        each_number(x, cache, b, s, [&](Index c, T& key, T& value) { key = p.k(row, c), value = p.v(row, c); });
      }
      for (Index s = 0; s < n; ++s) {
        each_number(x, cache, b, s, [&](Index, T& key, T& value) { keys_.push_back(key), values_.push_back(value); });
      }
      offsets_.push_back(static_cast<Int>(offsets_.back() + n));
    }
  }
  /// Sets the keys and values of the problem to all cached ones.
  template <class Problem>
  void use(Problem& p) const {
    Index const n = offsets_.back();
    p.extents.keys = ragged(offsets_.data(), p.extents.keys.count);
    p.k = {keys_.data(), n, p.k.cols};
    p.v = {values_.data(), n, p.v.cols};
  }

 private:
  /// f(column, key, value) for position s of sequence b.
  template <class F>
  static void each_number(attention_extents const& x, attention_cache<T> const& cache, Index b, Index s, F f) {
    for (Index c = 0; c < x.kv_heads * x.head_dim; ++c) {
      Index const part = cache.pages.page(b, s) * x.kv_heads + c / x.head_dim,
                  i = (part * cache.pages.rows + s % cache.pages.rows) * x.head_dim + c % x.head_dim;
      f(c, cache.keys.data[i], cache.values.data[i]);
    }
  }

  std::vector<Int> offsets_;
  std::vector<T> keys_, values_;
};

/// The type of a sum in a cache of T: double, or float for narrow T, in the memory of two T.
template <class T>
using cached_sum = std::conditional_t<(sizeof(T) >= 4), double, float>;

/// Copies a to the cache; y_t = the mean of the cached rows of the latest `window` positions.
template <class T>
void cached_window_mean(view<T> y, view<T const> a, segments s, view<T> cache, cache_pages pages, Index window) {
  for (Index b = 0; b < s.count; ++b) {
    for (Index i = s.begin(b); i < s.end(b); ++i) {
      Index const t = s.first_position(b) + i - s.begin(b), n = (std::min)(t + 1, window);
      auto const row = [&](Index at) { return pages.page(b, at) * pages.rows + at % pages.rows; };
      for (Index j = 0; j < a.cols; ++j) {
        cache(row(t), j) = a(i, j);
        cached_sum<T> sum = 0;
        for (Index at = t + 1 - n; at <= t; ++at) sum += static_cast<cached_sum<T>>(cache(row(at), j));
        y(i, j) = static_cast<T>(sum / static_cast<cached_sum<T>>(n));
      }
    }
  }
}
/// y_t = the mean of a over all positions up to t; the cache has the prefix sums.
template <class T>
void cached_prefix_mean(view<T> y, view<T const> a, segments s, view<T> cache, cache_pages pages) {
  using sum_type = cached_sum<T>;
  for (Index b = 0; b < s.count; ++b) {
    for (Index i = s.begin(b); i < s.end(b); ++i) {
      Index const t = s.first_position(b) + i - s.begin(b);
      auto const at = [&](Index position, Index j) {
        return cache.row(pages.page(b, position) * pages.rows + position % pages.rows) + 2 * j;
      };
      for (Index j = 0; j < a.cols; ++j) {
        sum_type sum = 0;
        if (t > 0) std::memcpy(&sum, at(t - 1, j), sizeof sum);
        sum += static_cast<sum_type>(a(i, j));
        std::memcpy(at(t, j), &sum, sizeof sum);
        y(i, j) = static_cast<T>(sum / static_cast<sum_type>(t + 1));
      }
    }
  }
}

}  // namespace headmix::detail

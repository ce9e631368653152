#pragma once
// SPDX-License-Identifier: MIT
// Attention of a decoder: a few query rows against the keys and values of a cache, which are stored packed, so only new
// ones are copied. Every tile of keys is summed alone, and the sums are merged in the order of the tiles
// (flash-decoding, Dao et al. 2023), so tiles can go to threads, and a row is bitwise equal in a step and in prefill,
// in chunks of any size, on any number of threads.

#include "headmix/backend/cpu/attention/attention.hpp"
#include "headmix/backend/cpu/attention/cached_pairs.hpp"
#include "headmix/backend/cpu/rows/map_reduce.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// The cached keys, in panels like key_panels: page, head, panel, column, key.
template <class S>
class cached_keys {
 public:
  using T = accumulator_t<S>;
  static constexpr Index width = register_block<T>::nr;

  /// @param widened  memory for widened_size numbers, for multiply()
  cached_keys(attention_extents const& x, attention_cache<S> const& cache, T* widened = nullptr)
      : x_(x), cache_(cache), widened_(widened) {}
  [[nodiscard]] static constexpr Index widened_size(Index head_dim) { return widens<S> ? head_dim * width : 0; }

  /// Copies keys [first, last) of sequence b to the cache, in stretches of at most a vector.
  void put(view<S const> k, Index b, Index first, Index last) const {
    constexpr Index group = register_block<T>::lanes;
    Index const past = x_.keys.first_position(b);
    for (Index s = first, next; s < last; s = next) {
      next = (std::min)(last, (s / group + 1) * group);
      for (Index head = 0; head < x_.kv_heads; ++head) {
        auto const rows = cpu_kernels::block(k, x_.keys.begin(b) + s - past, head * x_.head_dim, next - s, x_.head_dim);
        S* const to = panel(b, head, s) + s % width;
        if constexpr (widens<S>) {
          for (Index i = 0; i < rows.rows; ++i)
            for (Index j = 0; j < rows.cols; ++j) to[j * width + i] = rows(i, j);
        } else {
          transpose<T>(to, width, rows);
        }
      }
    }
  }
  /// See multiply_keys; the tile is in one page.
  void multiply(view<T> scores, view<T const> rows, tile_rows const& visible_rows, Index b, Index head,
                Index begin) const {
    if constexpr (widens<S>) {
      for (Index j = 0; j < scores.cols; j += width) {
        Index const keys = (std::min)(width, scores.cols - j);
        convert_row(widened_, panel(b, head, begin + j), x_.head_dim * width);
        multiply_keys<T>(scores.middle_cols(j, keys), rows, visible_rows, begin + j, begin + j + keys,
                         [&](Index) { return widened_; });
      }
    } else {
      multiply_keys<T>(scores, rows, visible_rows, begin, begin + scores.cols,
                       [&](Index key) { return panel(b, head, key); });
    }
  }

 private:
  [[nodiscard]] S* panel(Index b, Index head, Index s) const {
    Index const rows = cache_.pages.rows, part = cache_.pages.page(b, s) * x_.kv_heads + head;
    return cache_.keys.data + (part * rows + s % rows / width * width) * x_.head_dim;
  }

  attention_extents const& x_;
  attention_cache<S> const& cache_;
  T* widened_;
};
/// The cached values: page, head, key, column.
template <class S>
class cached_values {
 public:
  using T = accumulator_t<S>;
  /// @param widened  memory for widened_size numbers, for rows_of()
  cached_values(attention_extents const& x, attention_cache<S> const& cache, T* widened = nullptr)
      : x_(x), cache_(cache), widened_(widened) {}
  /// With whole vectors behind the last row, which products read.
  [[nodiscard]] static constexpr Index widened_size(Index head_dim) {
    return widens<S> ? attention_tile::keys * head_dim + lanes<T> * register_block<T>::vectors : 0;
  }

  void put(view<S const> v, Index b, Index first, Index last) const {
    Index const past = x_.keys.first_position(b), dim = x_.head_dim;
    for (Index s = first; s < last; ++s)
      for (Index head = 0; head < x_.kv_heads; ++head)
        copy_scaled<T>(row(b, head, s), 1, &v(x_.keys.begin(b) + s - past, head * dim), v.col_stride, dim, T(1));
  }
  /// See multiply_values; `begin` is the first key of a tile.
  void multiply(view<T> o, view<T const> p, tile_rows const& visible_rows, Index b, Index head, Index begin) const {
    multiply_values<T>(o, p, visible_rows, begin, false, x_.head_dim, rows_of(b, head, begin, p.cols));
  }
  /// See multiply_visible_values.
  template <AttentionMask M>
  void multiply_visible(view<T> o, view<T const> p, tile_rows const& visible_rows, Index b, Index head,
                        Index begin) const {
    multiply_visible_values<M, T>(o, p, visible_rows, begin, false, x_.head_dim, rows_of(b, head, begin, p.cols));
  }

 private:
  /// The value_rows of a tile of `keys` keys from `begin` on.
  [[nodiscard]] auto rows_of(Index b, Index head, Index begin, [[maybe_unused]] Index keys) const {
    Index const dim = x_.head_dim;
    T const* first;
    if constexpr (widens<S>) {
      convert_row(widened_, row(b, head, begin), keys * dim);
      std::fill_n(widened_ + keys * dim, lanes<T> * register_block<T>::vectors, T(0));
      first = widened_ - begin * dim;
    } else {
      first = row(b, head, begin) - begin * dim;
    }
    return [first, dim](Index j, Index) { return value_rows<T>{first + j, dim}; };
  }
  [[nodiscard]] S* row(Index b, Index head, Index s) const {
    Index const rows = cache_.pages.rows, part = cache_.pages.page(b, s) * x_.kv_heads + head;
    return cache_.values.data + (part * rows + s % rows) * x_.head_dim;
  }

  attention_extents const& x_;
  attention_cache<S> const& cache_;
  T* widened_;
};

/// Tiles of keys: each is in one page, and page n has the tiles [n per_page, (n + 1) per_page).
struct cache_tiles {
  Index page_rows, per_page;

  explicit cache_tiles(cache_pages const& pages)
      : page_rows(pages.rows), per_page((pages.rows + attention_tile::keys - 1) / attention_tile::keys) {}
  [[nodiscard]] Index tile_of(Index key) const {
    return key / page_rows * per_page + key % page_rows / attention_tile::keys;
  }
  [[nodiscard]] key_range keys(Index tile) const {
    Index const page = tile / per_page * page_rows, in_page = tile % per_page * attention_tile::keys;
    return {page + in_page, page + (std::min)(in_page + attention_tile::keys, page_rows)};
  }
};

/// The softmax of the rows of a block over some keys: row_max, the largest score, row_sum, sum_s e^(score_s - row_max),
/// and o, sum_s e^(score_s - row_max) v_s.
template <class T>
struct partial_softmax {
  T *row_max, *row_sum;
  view<T> o;

  static constexpr Index size(Index rows, Index o_cols) { return rows * (o_cols + 2); }
  partial_softmax(T* memory, Index rows, Index o_cols)
      : row_max(memory), row_sum(memory + rows), o(memory + 2 * rows, rows, o_cols) {}

  void clear() const {
    std::fill_n(row_max, o.rows, -std::numeric_limits<T>::infinity());
    std::fill_n(row_sum, o.rows, T(0));
    cpu_kernels::detail::clear(o);
  }
  /// Merges the partial softmax of later keys.
  void add(partial_softmax const& later) const {
    constexpr T masked = -std::numeric_limits<T>::infinity();
    for (Index i = 0; i < o.rows; ++i) {
      if (later.row_sum[i] == T(0)) continue;  // not for NaN
      T const new_max = (std::max)(row_max[i], later.row_max[i]);
      T const rescale = row_max[i] == masked ? T(0) : std::exp(row_max[i] - new_max),
              rescale_later = std::exp(later.row_max[i] - new_max);
      row_max[i] = new_max;
      row_sum[i] = row_sum[i] * rescale + later.row_sum[i] * rescale_later;
      array_map<T> sum(o.row(i), o.cols);
      sum = sum * rescale + array_map<T>(later.o.row(i), o.cols) * rescale_later;
    }
  }
};

/// A cache of single numbers, which are widened if S is narrow.
template <class S>
struct wide_cache {
  using number = accumulator_t<S>;
  using keys = cached_keys<S>;
  using values = cached_values<S>;
};
/// A cache of pairs, for dot products.
struct paired_cache {
  using number = bfloat16;
  using keys = cached_key_pairs;
  using values = cached_value_pairs;
};
/// f(cache) with the fastest cache on this machine for heads of this width.
template <class S, class F>
auto with_cache(Index head_dim, F f) {
  if constexpr (may_multiply_pairs<S>) {
    if (multiplies_pairs<S>() && head_dim % 2 == 0) return f(paired_cache{});
  }
  return f(wide_cache<S>{});
}

/// A block of rows against the cache.
template <AttentionMask M, class Cache, class S, class Map>
class cached_block {
 public:
  using T = accumulator_t<S>;
  using number = typename Cache::number;
  static constexpr Index most_rows = attention_tile::rows;

  cached_block(attention_forward<S, Map> const& a, attention_cache<S> const& cache, row_block const& block,
               scratch_cutter cut)
      : a_(a),
        cache_(cache),
        block_(block),
        kv_head_(a.extents.kv_head_of(block.list)),
        rows_(cut.take<block_row>(most_rows)),
        row_lanes_(cut.take<T>(most_rows * lanes<T>)),
        fold_scratch_(cut.take<T>(most_rows * lanes<T>)),
        q_(cut.take<number>(most_rows * a.extents.head_dim), block.rows, a.extents.head_dim),
        scores_(cut.take<T>(most_rows * attention_tile::keys)),
        own_(cut.take<T>(partial_softmax<T>::size(most_rows, o_cols(a.extents)))),
        of_tile_(cut.take<T>(partial_softmax<T>::size(most_rows, o_cols(a.extents)))),
        keys_(cut.take<T>(Cache::keys::widened_size(a.extents.head_dim))),
        values_(cut.take<T>(Cache::values::widened_size(a.extents.head_dim))),
        visible_(describe_rows<M, visible_range<M>>(a.extents, block, rows_)) {
    gather_heads<T>(q_, a.q, rows_, std::is_same_v<number, T> ? static_cast<T>(a.scores.scale) : T(1));
  }
  static constexpr Index bytes(Index head_dim) {
    attention_extents x;
    x.head_dim = head_dim;
    return scratch_bytes<block_row>(most_rows) + 2 * scratch_bytes<T>(most_rows * lanes<T>) +
           scratch_bytes<T>(most_rows * head_dim) + scratch_bytes<T>(most_rows * attention_tile::keys) +
           2 * scratch_bytes<T>(partial_softmax<T>::size(most_rows, o_cols(x))) +
           scratch_bytes<T>(Cache::keys::widened_size(head_dim)) +
           scratch_bytes<T>(Cache::values::widened_size(head_dim));
  }
  static constexpr Index o_cols(attention_extents const& x) { return value_panels<T>::padded_dim(x); }

  /// The tiles with keys that some row sees.
  [[nodiscard]] key_range tiles() const {
    if (visible_.begin >= visible_.end) return {0, 0};
    cache_tiles const tiles(cache_.pages);
    return {tiles.tile_of(visible_.begin), tiles.tile_of(visible_.end - 1) + 1};
  }
  /// The sums over the keys of a tile.
  void sum_tile(Index tile, partial_softmax<T> const& sums) const {
    key_range const keys = cache_tiles(cache_.pages).keys(tile);
    Index const n = block_.rows, begin = keys.begin, end = (std::min)(keys.end, visible_.end);
    tile_rows const visible_rows{rows_, n};
    view<T> scores(scores_, n, end - begin);
    scores.row_stride = padded<T>(end - begin);
    typename Cache::keys const cached(a_.extents, cache_, keys_);
    view<number> const weights = in_place<number>(scores);
    score_tile<M, T>(scores, sums.row_max, a_.scores, q_, visible_rows, cached, block_.sequence, kv_head_, begin,
                     row_lanes_, fold_scratch_);
    for (Index i = 0; i < n; ++i) {
      // A row that sees no key has a shift of 0: minus infinity less minus infinity is NaN.
      bool const sees_none = sums.row_max[i] == -std::numeric_limits<T>::infinity();
      exponentiate(row_lanes_ + i * lanes<T>, weights.row(i), scores.row(i), part_of_tile<T>(rows_[i].keys, begin, end),
                   end - begin, sees_none ? T(0) : sums.row_max[i]);
    }
    fold_lanes(sums.row_sum, row_lanes_, fold_scratch_, n, [](auto& result, auto const& lane) { result += lane; });
    typename Cache::values const values(a_.extents, cache_, values_);
    values.multiply(sums.o, weights, visible_rows, block_.sequence, kv_head_, begin);
    if (all_finite(sums.o.data, sums.o.size())) return;
    // A value that is not finite times a probability of 0 made NaN of rows that do not see it.
    values.template multiply_visible<M>(sums.o, weights, visible_rows, block_.sequence, kv_head_, begin);
  }
  /// o of the rows, merged from sums_of(tile), the partial softmax of every tile.
  template <class F>
  void merge(F sums_of) const {
    partial_softmax<T> const all(own_, block_.rows, o_cols(a_.extents));
    all.clear();
    key_range const range = tiles();
    for (Index tile = range.begin; tile < range.end; ++tile) all.add(sums_of(tile));
    for (Index i = 0; i < block_.rows; ++i) {
      query_row const& at = rows_[i].at;
      bool const sees_none = all.row_sum[i] == T(0);
      if (sees_none) std::fill_n(all.o.row(i), all.o.cols, T(0));
      copy_scaled<T>(&a_.o(at.row, at.col), a_.o.col_stride, all.o.row(i), 1, a_.extents.head_dim,
                     sees_none ? T(0) : T(1) / all.row_sum[i]);
    }
  }
  /// Computes all tiles and merges them.
  void run() const {
    partial_softmax<T> const of_tile(of_tile_, block_.rows, o_cols(a_.extents));
    merge([&](Index tile) {
      sum_tile(tile, of_tile);
      return of_tile;
    });
  }

 private:
  attention_forward<S, Map> const& a_;
  attention_cache<S> const& cache_;
  row_block block_;
  Index kv_head_;
  block_row* rows_;
  T *row_lanes_, *fold_scratch_;
  view<number> q_;
  T *scores_, *own_, *of_tile_, *keys_, *values_;
  key_range visible_;
};

/// The most tiles of a sequence where every tile is a task; 1 where blocks of rows are enough tasks. Depends only on
/// extents that all steps have in common.
inline Index split_tiles(attention_extents const& x, cache_pages const& pages, Index concurrency) {
  Index const rows = (checked(x.queries.rows) * x.rows_per_token * (x.heads_are_chosen() ? 1 : x.heads)).value;
  Index const tiles = (checked(pages.per_sequence) * cache_tiles(pages).per_page).value;
  return concurrency > 1 && rows <= tuning::split_rows ? tiles : 1;
}
/// Numbers of the partial softmax of all tiles of all blocks, where every tile is a task.
template <class T>
Index split_sums(attention_extents const& x, Index tiles) {
  Index const rows = (checked(x.queries.rows) * x.rows_per_token * (x.heads_are_chosen() ? 1 : x.heads)).value;
  return tiles == 1 ? 0 : (checked(rows) * tiles * partial_softmax<T>::size(1, value_panels<T>::padded_dim(x))).value;
}

}  // namespace detail

/// Scratch that cached_attention needs, in bytes.
template <class S, class Map>
[[nodiscard]] Index cached_attention_scratch_bytes(attention_forward<S, Map> const& a, attention_cache<S> const& cache,
                                                   Index concurrency) {
  using T = accumulator_t<S>;
  attention_extents const& x = a.extents;
  auto const own = detail::with_cache<S>(x.head_dim, [&]<class Cache>(Cache) {
    return detail::cached_block<full, Cache, S, no_score_map>::bytes(x.head_dim);
  });
  return (scratch_begins + scratch_bytes<Index>(detail::block_table::size(x)) +
          scratch_bytes<T>(detail::split_sums<T>(x, detail::split_tiles(x, cache.pages, concurrency))) +
          checked(concurrency) * own)
      .value;
}

namespace detail {

template <AttentionMask M, class Cache, class S, class Map>
void cached_attention_with(executor_ref executor, attention_forward<S, Map> const& a, attention_cache<S> const& cache,
                           std::span<std::byte> scratch) {
  using T = accumulator_t<S>;
  attention_extents const& x = a.extents;
  if (x.head_dim == 0) return;
  for_each_unrouted_row(executor, x, [&](Index row) { clear_row(a.o, row, x.head_dim); });
  constexpr Index each = Cache::keys::width;
  // Item i has the new keys and values of one panel.
  auto const put = [&](Index i) {
    for (Index b = 0; b < x.keys.count; ++b) {
      Index const past = x.keys.first_position(b), n = x.key_length(b);
      Index const first = past / each, panels = n > past ? (n + each - 1) / each - first : 0;
      if (i < panels) {
        Index const begin = (std::max)(past, (first + i) * each), end = (std::min)(n, (first + i + 1) * each);
        typename Cache::keys(x, cache).put(a.k, b, begin, end);
        return typename Cache::values(x, cache).put(a.v, b, begin, end);
      }
      i -= panels;
    }
  };
  for_each_range(executor, x.keys.rows / each + 2 * x.keys.count, (std::min)(x.keys.rows, each) * a.k.cols,
                 [&](Index first, Index last) {
                   for (Index i = first; i < last; ++i) put(i);
                 });

  scratch_cutter cut(scratch);
  block_table const blocks(x, cut.take<Index>(block_table::size(x)));
  Index const workers = executor.concurrency(), tiles = split_tiles(x, cache.pages, workers);
  T* const sums = cut.take<T>(split_sums<T>(x, tiles));
  std::byte* const begin = cut.position();
  Index const bytes = cached_block<M, Cache, S, Map>::bytes(x.head_dim), n = blocks.blocks();
  auto const block = [&](Index i, Index worker) {
    return cached_block<M, Cache, S, Map>(a, cache, blocks[i], scratch_cutter(begin + worker * bytes));
  };
  if (tiles == 1 || n == 0) {
    return for_each_task(executor, n, [&](Index task, Index worker) { block(n - 1 - task, worker).run(); });
  }
  Index const o_cols = cached_block<M, Cache, S, Map>::o_cols(x), row = partial_softmax<T>::size(1, o_cols);
  auto const sums_of = [&](Index i, Index tile) {
    row_block const at = blocks[i];
    Index const before = x.list_begin(at.sequence, at.list) + at.first;
    return partial_softmax<T>(sums + (before * tiles + tile * at.rows) * row, at.rows, o_cols);
  };
  for_each_task(executor, n * tiles, [&](Index task, Index worker) {
    auto const rows = block(task % n, worker);
    key_range const range = rows.tiles();
    Index const tile = range.begin + task / n;
    if (tile < range.end) rows.sum_tile(tile, sums_of(task % n, tile));
  });
  for_each_task(executor, n,
                [&](Index i, Index worker) { block(i, worker).merge([&](Index tile) { return sums_of(i, tile); }); });
}

}  // namespace detail

/// Copies the keys and values to the cache; then o = softmax(scores that M does not mask) v over all cached keys of the
/// row's sequence.
template <AttentionMask M, class S, class Map>
void cached_attention(mask<M>, executor_ref executor, attention_forward<S, Map> const& a,
                      attention_cache<S> const& cache, std::span<std::byte> scratch) {
  detail::with_cache<S>(a.extents.head_dim, [&]<class Cache>(Cache) {
    detail::cached_attention_with<M, Cache>(executor, a, cache, scratch);
  });
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

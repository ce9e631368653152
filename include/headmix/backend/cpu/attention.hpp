#pragma once
// SPDX-License-Identifier: MIT
// Attention in blocks of query rows against tiles of keys with an online softmax (Milakov and Gimelshein 2018, Dao et
// al. 2022): scratch is a few tiles per worker, and tiles that the mask hides altogether cost nothing.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/eigen.hpp"
#include "headmix/backend/cpu/gemm.hpp"
#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/executor.hpp"
#include "headmix/expr/attention_problem.hpp"
#include "headmix/expr/mask.hpp"

namespace headmix::cpu {

/// Query rows of a block, a multiple of register_block::rows, and keys of a tile. Wide tiles rescale the output less
/// often; their scores stay in the L2 cache.
struct attention_tile {
  static constexpr Index rows = 96, keys = 512;
};
/// Those of the backward pass, which holds two tiles at once and sums over the rows of one.
struct gradient_tile {
  static constexpr Index rows = 192, keys = 256;
};

namespace detail {

/// A row of a block: where it lies, and the keys of the sequence that it may see.
struct block_row {
  query_row at;
  key_range keys;
};

/// Part of a row list.
struct row_block {
  Index sequence, list, first, rows;
};

/// Blocks of a row list, and rows of each but the last one: about as many in every block, those of a Tile at most.
template <class Tile>
struct list_blocks {
  Index length, count, rows;

  explicit list_blocks(Index list_length)
      : length(list_length), count((length + Tile::rows - 1) / Tile::rows), rows(0) {
    constexpr Index group = register_block<float>::rows;
    if (count > 0) rows = ((length + count - 1) / count + group - 1) / group * group;
  }
  [[nodiscard]] row_block block(Index sequence, Index list, Index i) const {
    return {sequence, list, i * rows, (std::min)(rows, length - i * rows)};
  }
};

/// The blocks of all row lists: the sequences in order, in each the lists, in each the blocks.
class block_table {
 public:
  /// Elements of `memory`, whether heads are chosen or not.
  [[nodiscard]] static constexpr Index size(attention_extents const& x) { return x.queries.count * x.heads + 1; }

  block_table(attention_extents const& x, Index* memory) : x_(x), begins_(memory) {
    Index n = 0;
    *memory++ = 0;
    for (Index b = 0; b < x.queries.count; ++b)
      for (Index list = 0; list < x.lists(); ++list)
        *memory++ = n += list_blocks<attention_tile>(x.list_length(b, list)).count;
  }
  [[nodiscard]] Index blocks() const { return begins_[x_.queries.count * x_.lists()]; }
  [[nodiscard]] row_block operator[](Index i) const {
    Index const n = std::upper_bound(begins_, begins_ + x_.queries.count * x_.lists() + 1, i) - begins_ - 1;
    Index const b = n / x_.lists(), list = n % x_.lists();
    return list_blocks<attention_tile>(x_.list_length(b, list)).block(b, list, i - begins_[n]);
  }

 private:
  attention_extents x_;
  Index const* begins_;
};

/// Keys of the sequence and head as a matrix; `v` is k, v or one of their gradients.
template <class T>
view<T> keys_of(attention_extents const& x, view<T> v, Index sequence, Index kv_head) {
  return v.middle_rows(x.keys.begin(sequence), x.keys.length(sequence)).middle_cols(kv_head * x.head_dim, x.head_dim);
}

/// The keys that a query at this position may see; {0, 0} when there are none.
template <AttentionMask M>
key_range seen_from(Index position, Index keys) {
  key_range seen = visible_keys<M>(position, keys);
  seen = {(std::max)(seen.begin, Index{0}), (std::min)(seen.end, keys)};
  return seen.begin >= seen.end ? key_range{0, 0} : seen;
}

/// f(i, row) for the rows of a block. They are found by counting or by short divisions: long ones would show in short
/// sequences.
template <class F>
void each_row(attention_extents const& x, row_block const& block, F f) {
  if (block.rows == 0) return;
  query_row at = x.row(block.sequence, block.list, block.first);
  if (x.heads_are_chosen()) {
    Int const* const slots = x.chosen.slots + x.chosen.offsets[block.sequence * x.heads + block.list] + block.first;
    auto const per_token = static_cast<std::uint32_t>(x.rows_per_token);
    Index const shift = at.position - at.row / x.rows_per_token;
    for (Index i = 0; i < block.rows; ++i) {
      at.row = slots[i];
      at.position = static_cast<Index>(static_cast<std::uint32_t>(slots[i]) / per_token) + shift;
      f(i, at);
    }
    return;
  }
  Index const group = x.group();
  Index head = block.first % group, slot = block.first / group % x.rows_per_token;
  for (Index i = 0; i < block.rows; ++i) {
    f(i, at);
    ++at.head;
    at.col += x.head_dim;
    if (++head < group) continue;
    head = 0;
    at.head -= group;
    at.col -= group * x.head_dim;
    ++at.row;
    if (++slot < x.rows_per_token) continue;
    slot = 0;
    ++at.position;
  }
}

/// Fills in the rows of a block and returns the keys that any of them sees.
template <AttentionMask M>
key_range describe_rows(attention_extents const& x, row_block const& block, block_row* rows) {
  Index const keys = x.keys.length(block.sequence);
  key_range all{keys, 0};
  each_row(x, block, [&](Index i, query_row const& at) {
    rows[i] = {at, seen_from<M>(at.position, keys)};
    if (rows[i].keys.end > 0) {
      all = {(std::min)(all.begin, rows[i].keys.begin), (std::max)(all.end, rows[i].keys.end)};
    }
  });
  return all;
}

/// The rows of a block: all that a product of a tile needs to know of them.
struct tile_rows {
  block_row const* rows;
  Index count;

  /// The rows between the first and the last one that sees some of the keys [begin, end).
  struct span {
    Index first, last;
    friend bool operator==(span const&, span const&) = default;
  };
  [[nodiscard]] span that_see(Index begin, Index end) const {
    auto const sees = [&](Index i) { return end > rows[i].keys.begin && begin < rows[i].keys.end; };
    span s{0, count};
    while (s.first < s.last && !sees(s.first)) ++s.first;
    while (s.first < s.last && !sees(s.last - 1)) --s.last;
    return s;
  }
  /// f(rows, begin, end) for stretches of rows and the keys of [begin, end) that some of them sees; `step` rows are
  /// taken together.
  template <class F>
  void each_stretch(Index begin, Index end, Index step, F f) const {
    span stretch{0, 0};
    key_range keys{0, 0};
    auto const flush = [&] {
      if (keys.begin < keys.end) f(stretch, keys.begin, keys.end);
    };
    for (Index i = 0; i < count; i += step) {
      Index const last = (std::min)(i + step, count);
      key_range seen{end, begin};
      for (Index r = i; r < last; ++r) {
        key_range const own{(std::max)(rows[r].keys.begin, begin), (std::min)(rows[r].keys.end, end)};
        if (own.begin < own.end) seen = {(std::min)(seen.begin, own.begin), (std::max)(seen.end, own.end)};
      }
      if (i > 0 && (seen.begin != keys.begin || seen.end != keys.end)) {
        flush();
        stretch.first = i;
      }
      keys = seen;
      stretch.last = last;
    }
    flush();
  }
  /// f(rows, begin, end) for stretches of the keys [begin, end) and the rows that see some of them; `step` keys are
  /// taken together.
  template <class F>
  void each_key_stretch(Index begin, Index end, Index step, F f) const {
    span seen{0, 0};
    Index first = begin;
    for (Index s = begin; s < end; s += step) {
      span const own = that_see(s, (std::min)(s + step, end));
      if (own == seen) continue;
      if (seen.first < seen.last) f(seen, first, s);
      seen = own;
      first = s;
    }
    if (seen.first < seen.last) f(seen, first, end);
  }
};

template <class T>
using array_map = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;

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

  template <Executor E>
  void pack(E& executor, view<T const> k) const {
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
  void multiply(view<T> scores, view<T const> rows, tile_rows const& seers, Index sequence, Index head,
                Index begin) const {
    using block = register_block<T>;
    scores.cols = (scores.cols + block::lanes - 1) / block::lanes * block::lanes;
    for (Index j = 0, next; j < scores.cols; j = next) {
      int const vectors = panel_vectors<T>(scores.cols - j);
      next = j + vectors * block::lanes;
      tile_rows::span const part = seers.that_see(begin + j, begin + next);
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
  [[nodiscard]] T* panel(Index p, Index head) const { return memory_ + (p * x_.kv_heads + head) * x_.head_dim * width; }

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

  template <Executor E>
  void pack(E& executor, view<T const> v) const {
    constexpr Index each = 64;
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

  /// o += p times the values from `begin` on, without those that no row sees; o has padded_dim columns.
  void multiply(view<T> o, view<T const> p, tile_rows const& seers, Index sequence, Index head, Index begin) const {
    seers.each_stretch(begin, begin + p.cols, block::rows, [&](tile_rows::span part, Index first, Index last) {
      left_operand<strided_rows<T const>> const left{{p.row(part.first), p.row_stride}};
      for_each_panel([&](Index j, int vectors, Index width) {
        T const* const from = panel(head, j) + (x_.keys.begin(sequence) + begin) * width;
        strided_rows<T> const to{o.row(part.first) + j, o.row_stride};
        for (Index k = first - begin; k < last - begin; k += block::depth)
          multiply_panel<T>(part.last - part.first, width, vectors, k, (std::min)(block::depth, last - begin - k), left,
                            from + k * width, width, to, true);
      });
    });
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

/// to = from * scale, element by element; the stride of one side or the other may differ from 1.
template <class T>
void copy_scaled(T* to, Index to_stride, T const* from, Index from_stride, Index n, T scale) {
  if (to_stride == 1 && from_stride == 1) {
    for (Index j = 0; j < n; ++j) to[j] = from[j] * scale;
  } else {
    for (Index j = 0; j < n; ++j) to[j * to_stride] = from[j * from_stride] * scale;
  }
}

/// Copies the heads of the block's rows below each other, times `scale`.
template <class T>
void gather_heads(view<T> to, view<T const> from, block_row const* rows, T scale) {
  constexpr Index ahead = 8, line = 64 / static_cast<Index>(sizeof(T));
  for (Index i = 0; i < to.rows; ++i) {
    if (i + ahead < to.rows && from.col_stride == 1) {
      T const* const next = &from(rows[i + ahead].at.row, rows[i + ahead].at.col);
      for (Index j = 0; j < to.cols; j += line) __builtin_prefetch(next + j);
    }
    copy_scaled<T>(to.row(i), 1, &from(rows[i].at.row, rows[i].at.col), from.col_stride, to.cols, scale);
  }
}

/// Row length of a tile of scores: whole cache lines, so that Eigen's loops over a row have no remainder.
template <class T>
constexpr Index padded(Index keys) {
  constexpr Index line = scratch_alignment / static_cast<Index>(sizeof(T));
  return (keys + line - 1) / line * line;
}

/// The keys of a tile's row that are computed with: those that the row may see, counted from the tile's first key, and
/// the whole cache lines [first, last) around them.
struct tile_part {
  Index begin, end, first, last;
};
template <class T>
tile_part part_of_tile(key_range keys, Index tile_begin, Index tile_end) {
  Index const begin = (std::max)(keys.begin, tile_begin) - tile_begin,
              end = (std::min)(keys.end, tile_end) - tile_begin;
  if (begin >= end) return {0, 0, 0, 0};
  constexpr Index line = scratch_alignment / static_cast<Index>(sizeof(T));
  return {begin, end, begin / line * line, padded<T>(end)};
}

/// Gives the scores of [first, last) that the row does not see the value minus infinity.
template <AttentionMask M, class T>
void hide(T* scores, tile_part const& part, Index position, Index tile_begin) {
  constexpr T hidden = -std::numeric_limits<T>::infinity();
  std::fill(scores + part.first, scores + part.begin, hidden);
  std::fill(scores + part.end, scores + part.last, hidden);
  if constexpr (!dense_mask<M>) {
    for (Index s = part.begin; s < part.end; ++s)
      if (!M::sees(position, tile_begin + s)) scores[s] = hidden;
  }
}

/// Adds the bias of the scores that the row may see.
template <class T>
void add_bias(T* scores, attention_scores<T> const& s, tile_part const& part, query_row const& at, Index tile_begin) {
  if (!s.bias.data || part.begin >= part.end) return;
  T const* const bias = &s.bias(at.position * s.bias_keys + tile_begin, at.head);
  for (Index j = part.begin; j < part.end; ++j) scores[j] += bias[j * s.bias.row_stride];
}

/// A vector register of T. Sums and maxima of rows are kept lane by lane and folded for all rows of a block at once.
template <class T>
inline constexpr Index lanes = register_block<T>::lanes;

template <class T>
struct vector_of {
  typedef T type __attribute__((vector_size(register_block<T>::bytes)));
};
template <class T>
using vector = typename vector_of<T>::type;

template <class T>
HEADMIX_WHOLE_VECTORS vector<T> load(T const* from) {
  vector<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
HEADMIX_WHOLE_VECTORS void store(T* to, vector<T> v) {
  std::memcpy(to, &v, sizeof v);
}

/// out[lane] = the highest score of the part in this lane. Two maxima: one would wait for itself.
template <class T>
HEADMIX_WHOLE_VECTORS void highest_lanes(T* out, T const* scores, tile_part const& part) {
  vector<T> even = vector<T>{} - std::numeric_limits<T>::infinity(), odd = even;
  Index j = part.first;
  for (; j + 2 * lanes<T> <= part.last; j += 2 * lanes<T>) {
    vector<T> const s = load(scores + j), t = load(scores + j + lanes<T>);
    even = even > s ? even : s;
    odd = odd > t ? odd : t;
  }
  if (j < part.last) {
    vector<T> const s = load(scores + j);
    even = even > s ? even : s;
  }
  store(out, vector<T>(even > odd ? even : odd));
}

/// e^x for scores less their highest or their log-sum-exp: x <= 0 but for rounding. 1 at 0, and 0 below e^-87.
HEADMIX_WHOLE_VECTORS inline vector<float> exp_of_negative(vector<float> x) {
  typedef std::int32_t bits __attribute__((vector_size(register_block<float>::bytes)));
  // e^x = 2^n 2^f, f in [-1/2, 1/2]. Adding 1.5 2^23 rounds to an integer, which is then in the last bits.
  constexpr float log2_e = 1.44269504088896f, round = 12582912.0f;
  vector<float> const shifted = x * log2_e + round;
  vector<float> const n = shifted - round;
  vector<float> const f = x * log2_e - n;
  bits exponent;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  exponent = (exponent << 23) + 0x3f800000;
  vector<float> power;
  std::memcpy(&power, &exponent, sizeof power);
  // The polynomial through (0, 1) that is nearest to 2^f, off by 9e-8 at most.
  vector<float> p = f * 0.001326472707771847f + 0.009671512648947672f;
  p = p * f + 0.055507337436513364f;
  p = p * f + 0.2402224208517232f;
  p = p * f + 0.693146977598883f;
  p = p * f + 1.0f;
  return x < -87.0f ? vector<float>{} : p * power;
}
/// Eigen's, which is not 0 of minus infinity.
HEADMIX_WHOLE_VECTORS inline vector<double> exp_of_negative(vector<double> x) {
  using array = Eigen::Array<double, lanes<double>, 1>;
  array e;
  std::memcpy(e.data(), &x, sizeof x);
  e = e.exp();
  return x == vector<double>{} - std::numeric_limits<double>::infinity() ? vector<double>{} : load(e.data());
}

/// scores = exp(scores - shift) in the part, and exactly 0 where they are hidden or outside; sums[lane] = their sum in
/// this lane.
template <class T>
HEADMIX_WHOLE_VECTORS void exponentiate(T* sums, T* scores, tile_part const& part, Index keys, T shift) {
  vector<T> sum{};
  for (Index j = 0; j < part.first; j += lanes<T>) store(scores + j, sum);
  for (Index j = part.last; j < padded<T>(keys); j += lanes<T>) store(scores + j, sum);
  for (Index j = part.first; j < part.last; j += lanes<T>) {
    vector<T> const p = exp_of_negative(vector<T>(load(scores + j) - shift));
    store(scores + j, p);
    sum += p;
  }
  store(sums, sum);
}

/// to = p times the factors of dropout in the part, for keys that begin at `tile_begin`; 0 outside.
template <class T>
void drop(T* to, T const* p, attention_dropout const& dropout, attention_extents const& x, query_row at,
          tile_part const& part, Index keys, Index tile_begin) {
  std::fill(to, to + part.begin, T(0));
  std::fill(to + part.end, to + padded<T>(keys), T(0));
  dropout.each_factor(x, at, tile_begin + part.begin, tile_begin + part.end,
                      [&](Index s, double factor) { to[s - tile_begin] = p[s - tile_begin] * static_cast<T>(factor); });
}

/// result[i] = the lanes of row i, one after the other combined into it by `combine`; `by_row` holds n x lanes, `room`
/// as many again.
template <class T, class F>
void fold_lanes(T* result, T const* by_row, T* room, Index n, F combine) {
  transpose<T>(room, n, view<T const>(by_row, n, lanes<T>));
  array_map<T> folded(result, n);
  folded = array_map<T>(room, n);
  for (Index lane = 1; lane < lanes<T>; ++lane) combine(folded, array_map<T>(room + lane * n, n));
}

template <AttentionMask M, class T>
void attention_block(attention_forward<T> const& a, row_block const& block, key_panels<T> const& keys,
                     value_panels<T> const& values, scratch_cutter cut) {
  constexpr T hidden = -std::numeric_limits<T>::infinity();
  attention_extents const& x = a.extents;
  Index const n = block.rows, dim = x.head_dim, kv_head = x.kv_head_of(block.list);
  auto* const rows = cut.take<block_row>(attention_tile::rows);
  T* const top = cut.take<T>(attention_tile::rows);
  T* const total = cut.take<T>(attention_tile::rows);
  T* const update = cut.take<T>(attention_tile::rows);
  T* const by_row = cut.take<T>(attention_tile::rows * lanes<T>);
  T* const room = cut.take<T>(attention_tile::rows * lanes<T>);
  view<T> const q(cut.take<T>(attention_tile::rows * dim), n, dim);
  Index const o_row = value_panels<T>::padded_dim(x);
  view<T> const o(cut.take<T>(attention_tile::rows * o_row), n, o_row);
  T* const scores = cut.take<T>(attention_tile::rows * attention_tile::keys);

  bool const drops = a.dropout.on();
  key_range const all = describe_rows<M>(x, block, rows);
  tile_rows const seers{rows, n};
  gather_heads<T>(q, a.q, rows, static_cast<T>(a.scores.scale));
  std::fill_n(o.data, n * o_row, T(0));
  std::fill_n(top, n, hidden);
  std::fill_n(total, n, T(0));

  Index const first = all.begin / key_panels<T>::width * key_panels<T>::width;
  for (Index begin = first; begin < all.end; begin += attention_tile::keys) {
    Index const end = (std::min)(begin + attention_tile::keys, all.end);
    view<T> tile(scores, n, end - begin);
    tile.row_stride = padded<T>(end - begin);
    keys.multiply(tile, q, seers, block.sequence, kv_head, begin);
    for (Index i = 0; i < n; ++i) {
      tile_part const part = part_of_tile<T>(rows[i].keys, begin, end);
      add_bias(tile.row(i), a.scores, part, rows[i].at, begin);
      hide<M>(tile.row(i), part, rows[i].at.position, begin);
      highest_lanes(by_row + i * lanes<T>, tile.row(i), part);
    }
    fold_lanes(update, by_row, room, n, [](auto& result, auto const& lane) { result = (result.max)(lane); });
    for (Index i = 0; i < n; ++i) {
      if (update[i] > top[i]) {
        if (top[i] != hidden) {
          T const shrink = std::exp(top[i] - update[i]);
          total[i] *= shrink;
          array_map<T>(o.row(i), o_row) *= shrink;
        }
        top[i] = update[i];
      }
      // While a row has seen nothing its shift is 0: minus infinity less minus infinity would be a NaN.
      exponentiate(by_row + i * lanes<T>, tile.row(i), part_of_tile<T>(rows[i].keys, begin, end), end - begin,
                   top[i] == hidden ? T(0) : top[i]);
    }
    fold_lanes(update, by_row, room, n, [](auto& result, auto const& lane) { result += lane; });
    array_map<T>(total, n) += array_map<T>(update, n);
    if (drops) {
      for (Index i = 0; i < n; ++i) {
        drop(tile.row(i), tile.row(i), a.dropout, x, rows[i].at, part_of_tile<T>(rows[i].keys, begin, end), end - begin,
             begin);
      }
    }
    values.multiply(o, tile, seers, block.sequence, kv_head, begin);
  }

  array_map<T>(update, n) = array_map<T>(total, n).log() + array_map<T>(top, n);
  for (Index i = 0; i < n; ++i) {
    bool const nothing = total[i] == T(0);
    copy_scaled<T>(&a.o(rows[i].at.row, rows[i].at.col), a.o.col_stride, o.row(i), 1, dim,
                   nothing ? T(0) : T(1) / total[i]);
    if (a.lse.data) a.lse(rows[i].at.row, x.lse_col(rows[i].at)) = nothing ? hidden : update[i];
  }
}

/// Scratch of one worker of the forward pass.
template <class T>
constexpr Index attention_worker_bytes(Index head_dim) {
  return scratch_bytes<block_row>(attention_tile::rows) + 3 * scratch_bytes<T>(attention_tile::rows) +
         2 * scratch_bytes<T>(attention_tile::rows * lanes<T>) + scratch_bytes<T>(attention_tile::rows * head_dim) +
         scratch_bytes<T>(attention_tile::rows * (head_dim + lanes<T>)) +
         scratch_bytes<T>(attention_tile::rows * attention_tile::keys);
}

/// f(row) for the rows of q that are in no list: those of slots that chose nothing.
template <Executor E, class F>
void each_row_of_nobody(E& executor, attention_extents const& x, F f) {
  if (!x.heads_are_chosen()) return;
  Int const* const slots = x.chosen.slots;
  Index const block = 1024, first = x.chosen.offsets[x.queries.count * x.heads],
              last = x.queries.rows * x.rows_per_token;
  executor.parallel_for((last - first + block - 1) / block, [&](Index t) {
    for (Index i = first + t * block; i < (std::min)(last, first + (t + 1) * block); ++i) f(slots[i]);
  });
}

/// Fills n elements of the row with zeros.
template <class T>
void clear_row(view<T> const& v, Index row, Index n) {
  if (v.col_stride == 1) {
    std::fill_n(v.row(row), n, T(0));
  } else {
    for (Index j = 0; j < n; ++j) v(row, j) = T(0);
  }
}

}  // namespace detail

/// Scratch that attention needs, in bytes.
template <class T>
[[nodiscard]] constexpr Index attention_scratch_bytes(attention_extents const& extents, Index concurrency) {
  return scratch_alignment + scratch_bytes<Index>(detail::block_table::size(extents)) +
         scratch_bytes<T>(detail::key_panels<T>::size(extents)) +
         scratch_bytes<T>(detail::value_panels<T>::size(extents)) +
         concurrency * detail::attention_worker_bytes<T>(extents.head_dim);
}

/// o = softmax(scores where M allows) v, and the log-sum-exp of each row unless a.lse.data is null. A row that sees
/// nothing or is in no list gets o = 0 and a log-sum-exp of minus infinity.
template <AttentionMask M, Executor E, class T>
void attention(E& executor, attention_forward<T> const& a, std::span<std::byte> scratch) {
  static_assert(std::is_same_v<T, wide_t<T>>, "headmix: the CPU's attention computes in the type that it stores");
  if (a.extents.head_dim == 0) return;
  detail::each_row_of_nobody(executor, a.extents, [&](Index row) {
    detail::clear_row(a.o, row, a.extents.head_dim);
    if (a.lse.data) a.lse(row, 0) = -std::numeric_limits<T>::infinity();
  });
  scratch_cutter begin(scratch);
  detail::block_table const blocks(a.extents, begin.take<Index>(detail::block_table::size(a.extents)));
  detail::key_panels<T> const keys(a.extents, begin.take<T>(detail::key_panels<T>::size(a.extents)));
  detail::value_panels<T> const values(a.extents, begin.take<T>(detail::value_panels<T>::size(a.extents)));
  keys.pack(executor, a.k);
  values.pack(executor, a.v);
  Index const bytes = detail::attention_worker_bytes<T>(a.extents.head_dim), tasks = blocks.blocks();
  // The last blocks of a causal list see the most keys and go first, so that no thread is left with one at the end.
  for_each_task(executor, tasks, [&](Index task, Index worker) {
    detail::attention_block<M, T>(a, blocks[tasks - 1 - task], keys, values,
                                  scratch_cutter(begin.position() + worker * bytes));
  });
}

}  // namespace headmix::cpu

#pragma once
// SPDX-License-Identifier: MIT
// Reference: every kernel of archetype::backend as the plain loop that defines it; the oracle of the tests and the
// template for a new backend. Sums are in double, in ascending order, and rounded once; those of attention's gradients
// are in the accumulator type. Scalars: double, float, bfloat16.
//
// Other backends may differ by rounding, but not in choices, orders and counts.

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "headmix/backend/reference_cache.hpp"
#include "headmix/contract/backend_policy.hpp"
#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/math.hpp"
#include "headmix/core/ternary.hpp"

namespace headmix {

/// The kernels of every backend as plain loops: their definition.
template <class Scalar>
struct Reference {
  using scalar = Scalar;
  using wide = accumulator_t<Scalar>;
  /// The program may read selections before a pass.
  static constexpr bool host_memory = true;

  // ---- pointwise and sums ----

  /// y (+)= tree
  template <class T, class Tree>
  void map(view<T> y, Tree const& tree, bool accumulate) const {
    for (Index i = 0; i < y.count * y.rows; ++i) {
      auto const row = tree.row(i);
      for (Index j = 0; j < y.cols; ++j) {
        wide const value = row.template at<wide>(j);
        put_element(y.row(i)[j * y.col_stride], value, accumulate);
      }
    }
  }
  template <class T, class Tree>
  void row_sum(view<T> y, lazy<Tree> const& a, bool accumulate) const {
    for (Index i = 0; i < a.rows; ++i) {
      auto const row = a.tree.row(i);
      double sum = 0;
      for (Index j = 0; j < a.cols; ++j) sum += static_cast<double>(row.template at<wide>(j));
      put_element(*y.row(i), sum, accumulate);
    }
  }
  template <class T, class Tree>
  void col_sum(view<T> y, lazy<Tree> const& a, bool accumulate) const {
    for (Index j = 0; j < a.cols; ++j) {
      double sum = 0;
      for (Index i = 0; i < a.rows; ++i) sum += static_cast<double>(a.tree.row(i).template at<wide>(j));
      put_element(y(0, j), sum, accumulate);
    }
  }
  /// y_i (+)= the sum of rows [i n, i n + n)
  template <class T, class Tree>
  void group_sum(view<T> y, lazy<Tree> const& a, Index n, bool accumulate) const {
    for (Index i = 0; i < y.rows; ++i) {
      for (Index j = 0; j < y.cols; ++j) {
        double sum = 0;
        for (Index s = 0; s < n; ++s) sum += static_cast<double>(a.tree.row(i * n + s).template at<wide>(j));
        put_element(y(i, j), sum, accumulate);
      }
    }
  }

  // ---- dense products and row functions ----

  /// y (+)= a b
  template <class T, class A, class B>
  void gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) const {
    for (Index i = 0; i < y.rows; ++i) {
      for (Index j = 0; j < y.cols; ++j) {
        put_element(y(i, j), dot(a.middle_rows(i, 1), b.middle_cols(j, 1)), accumulate);
      }
    }
  }
  /// y_ij = exp(a_ij - max_i) / sum_j exp(a_ij - max_i), max_i the maximum of row i: no finite row overflows. A row of
  /// minus infinities gives 0. A NaN or plus infinity makes its row NaN.
  template <class T, class A>
  void softmax(view<T> y, view<A const> a) const {
    for (Index i = 0; i < a.rows; ++i) {
      wide const row_max = row_maximum(a, i);
      wide const sum = sum_below(a, i, row_max);
      for (Index j = 0; j < a.cols; ++j) {
        y(i, j) = static_cast<T>(row_max == -std::numeric_limits<wide>::infinity()
                                     ? wide(0)
                                     : exp_below(static_cast<wide>(a(i, j)), row_max) / sum);
      }
    }
  }
  /// y_i = max_i + log(sum_j exp(a_ij - max_i)); minus infinity for a row of minus infinities or without columns, NaN
  /// for a row with a NaN or plus infinity.
  template <class T, class A>
  void log_sum_exp(view<T> y, view<A const> a) const {
    for (Index i = 0; i < a.rows; ++i) {
      wide const row_max = row_maximum(a, i);
      y(i, 0) = static_cast<T>(row_max + std::log(sum_below(a, i, row_max)));
    }
  }

  // ---- choosing ----

  /// y_i = the first K columns of a stable descending sort of row i, the largest first, NaN last. Of equal numbers, +0
  /// and -0, and of NaNs, the left column goes first.
  template <class A>
  void top_k(view<Int> y, view<A const> a) const {
    for (Index i = 0; i < a.rows; ++i) {
      Index chosen = 0;  // y(i, 0) .. y(i, chosen - 1) are the first columns so far
      for (Index j = 0; j < a.cols; ++j) {
        Index rank = chosen;
        while (rank > 0 && ranks_before(a(i, j), a(i, y(i, rank - 1)))) --rank;
        if (rank == y.cols) continue;
        if (chosen < y.cols) ++chosen;
        for (Index l = chosen - 1; l > rank; --l) y(i, l) = y(i, l - 1);
        y(i, rank) = static_cast<Int>(j);
      }
    }
  }
  template <class T>
  void gather_cols(view<T> y, view<T const> a, view<Int const> index) const {
    for (Index i = 0; i < y.rows; ++i) {
      for (Index k = 0; k < y.cols; ++k) y(i, k) = index(i, k) < 0 ? T(0) : a(i, index(i, k));
    }
  }
  template <class T>
  void scatter_cols(view<T> y, view<T const> a, view<Int const> index) const {
    zero(y);
    for (Index i = 0; i < a.rows; ++i) {
      for (Index k = 0; k < a.cols; ++k) {
        if (index(i, k) >= 0) put_element(y(i, index(i, k)), static_cast<wide>(a(i, k)), true);
      }
    }
  }
  /// y_ij = a_ij / divide + add + i * add_per_row, and -1 where a_ij is negative; a_ij = j where a has no data.
  void renumber(view<Int> y, view<Int const> a, Index add, Index add_per_row, Index divide = 1) const {
    for (Index i = 0; i < y.rows; ++i) {
      for (Index j = 0; j < y.cols; ++j) {
        Index const chosen = a.data ? a(i, j) : j;
        y(i, j) = static_cast<Int>(chosen < 0 ? -1 : chosen / divide + add + i * add_per_row);
      }
    }
  }
  template <class T>
  void one_hot(view<T> y, view<Int const> index) const {
    zero(y);
    for (Index i = 0; i < index.rows; ++i) {
      for (Index k = 0; k < index.cols; ++k) {
        if (index(i, k) >= 0) put_element(y(i, index(i, k)), wide(1), true);
      }
    }
  }
  template <class T>
  void gather_rows(view<T> y, view<T const> table, view<Int const> index) const {
    for (Index i = 0; i < y.rows; ++i) {
      for (Index j = 0; j < y.cols; ++j) y(i, j) = index(i, 0) < 0 ? nothing<T> : table(index(i, 0), j);
    }
  }
  template <class T>
  void scatter_rows(view<T> y, view<T const> a, view<Int const> index, bool accumulate) const {
    // Narrow numbers, which are rounded once, and blocks of y that get many rows are summed on the stack.
    constexpr Index rows = 256, cols = 64, counters = 1024;
    constexpr bool all_beside = !std::is_same_v<wide, T>;
    Index count[counters];  // rows of a for each block of y
    bool const counted = !all_beside && a.rows > 4 * block_terms;
    if (counted) {
      std::fill_n(count, counters, Index{0});
      for (Index i = 0; i < a.rows; ++i)
        if (index(i, 0) >= 0) ++count[index(i, 0) / rows % counters];
    }
    auto const beside = [&](Index to) {
      return all_beside || (counted && count[to / rows % counters] > 4 * block_terms);
    };
    wide memory[rows * cols];
    double blocks[rows * cols];
    for (Index first = 0; first < y.rows; first += rows) {
      if (!beside(first)) continue;
      for (Index col = 0; col < y.cols; col += cols) {
        view<T> const part =
            y.middle_rows(first, (std::min)(rows, y.rows - first)).middle_cols(col, (std::min)(cols, y.cols - col));
        add_rows(part, a.middle_cols(col, part.cols), index, first, accumulate, view<wide>(memory, rows, part.cols),
                 view<double>(blocks, rows, part.cols));
      }
    }
    if (all_beside) return;
    for (Index i = 0; i < y.rows && !accumulate; ++i)
      if (!beside(i)) zero(y.middle_rows(i, 1));
    for (Index i = 0; i < a.rows; ++i) {
      if (index(i, 0) < 0 || beside(index(i, 0))) continue;
      for (Index j = 0; j < a.cols; ++j) put_element(y(index(i, 0), j), static_cast<wide>(a(i, j)), true);
    }
  }

  // ---- sequences ----

  /// y_i = the sequence of row i
  void sequence_numbers(view<Int> y, segments s) const {
    for (Index b = 0; b < s.count; ++b) {
      for (Index i = s.begin(b); i < s.end(b); ++i) y(i, 0) = static_cast<Int>(b);
    }
  }
  /// y_t = the mean of a_s over the positions t - window < s <= t of its sequence; transposed, y_s = the sum over those
  /// t of a_t divided by their number of positions.
  template <class T>
  void window_mean(view<T> y, view<T const> a, segments s, Index window, bool transposed) const {
    auto const positions = [window](Index t) { return t + 1 < window ? t + 1 : window; };
    for (Index b = 0; b < s.count; ++b) {
      Index const first = s.begin(b), length = s.length(b);
      for (Index t = 0; t < length; ++t) {
        for (Index j = 0; j < y.cols; ++j) {
          double sum = 0;
          auto const at = [&](Index u) { return static_cast<double>(static_cast<wide>(a(first + u, j))); };
          if (transposed) {
            Index const end = length - t < window ? length : t + window;
            for (Index u = t; u < end; ++u) sum += at(u) / static_cast<double>(positions(u));
          } else {
            for (Index u = t + 1 - positions(t); u <= t; ++u) sum += at(u);
            sum /= static_cast<double>(positions(t));
          }
          y(first + t, j) = static_cast<T>(static_cast<wide>(sum));
        }
      }
    }
  }

  // ---- experts ----

  /// perm: the slots of index (row * cols + column), by sequence and expert, ascending in each group; behind all groups
  /// the slots without expert, ascending. offsets: the begin of each group, [1, sequences * experts + 1]. `s` divides
  /// the rows of index.
  void sort_by_expert(view<Int> perm, view<Int> offsets, view<Int const> index, segments s) const {
    Index const experts = s.count > 0 ? (offsets.cols - 1) / s.count : 0;
    Index n = 0;
    for (Index group = 0; group < s.count * experts; ++group) {
      Index const b = group / experts;
      offsets(0, group) = static_cast<Int>(n);
      for (Index i = s.begin(b); i < s.end(b); ++i) {
        for (Index k = 0; k < index.cols; ++k) {
          if (index(i, k) == group % experts) perm(0, n++) = static_cast<Int>(i * index.cols + k);
        }
      }
    }
    offsets(0, offsets.cols - 1) = static_cast<Int>(n);
    for (Index slot = 0; slot < index.rows * index.cols; ++slot) {
      if (index(slot / index.cols, slot % index.cols) < 0) perm(0, n++) = static_cast<Int>(slot);
    }
  }
  template <class T>
  static std::size_t grouped_gemm_scratch(view<T>, view<T const>, view<T const>) {
    return 0;
  }
  /// y_s = x_{s / slots_per_row} w_e for every slot s of expert e, 0 for a slot without expert.
  template <class T>
  void grouped_gemm(view<T> y, view<T const> x, view<T const> w, view<Int const> perm, view<Int const> offsets,
                    Index slots_per_row, std::span<std::byte>) const {
    zero(y);
    for (Index e = 0; e < w.count; ++e) {
      for (Index n = offsets(0, e); n < offsets(0, e + 1); ++n) {
        Index const s = perm(0, n);
        gemm(y.middle_rows(s, 1), x.middle_rows(s / slots_per_row, 1), w[e], false);
      }
    }
  }
  template <class T>
  static std::size_t grouped_sum_scratch(view<T>, view<T const>, view<T const>) {
    return 0;
  }
  /// y_r (+)= the sum over the slots s of row r, s / slots_per_row = r, of x_s w_e, e the expert of the slot, in the
  /// order of the experts.
  template <class T>
  void grouped_sum(view<T> y, view<T const> x, view<T const> w, view<Int const> perm, view<Int const> offsets,
                   Index slots_per_row, bool accumulate, std::span<std::byte>) const {
    constexpr Index together = 64;  // columns per search for the slots of a row
    for (Index i = 0; i < y.rows; ++i) {
      for (Index col = 0; col < y.cols; col += together) {
        view<T> const part = y.middle_rows(i, 1).middle_cols(col, (std::min)(together, y.cols - col));
        double sum[together];
        for (Index j = 0; j < part.cols; ++j)
          sum[j] = accumulate ? static_cast<double>(static_cast<wide>(part(0, j))) : 0;
        for (Index e = 0; e < w.count; ++e) {
          for (Index n = offsets(0, e); n < offsets(0, e + 1); ++n) {
            Index const s = perm(0, n);
            if (s / slots_per_row != i) continue;
            for (Index j = 0; j < part.cols; ++j) sum[j] += dot(x.middle_rows(s, 1), w[e].middle_cols(col + j, 1));
          }
        }
        for (Index j = 0; j < part.cols; ++j) part(0, j) = static_cast<T>(static_cast<wide>(sum[j]));
      }
    }
  }
  template <class T>
  static std::size_t grouped_outer_scratch(view<T>, view<T const>, view<T const>) {
    return 0;
  }
  /// y_e (+)= the sum over the slots s of expert e of x_{s / x_slots}^T g_{s / g_slots}
  template <class T>
  void grouped_outer(view<T> y, view<T const> x, view<T const> g, view<Int const> perm, view<Int const> offsets,
                     Index x_slots, Index g_slots, bool accumulate, std::span<std::byte>) const {
    for (Index e = 0; e < y.count; ++e) {
      for (Index i = 0; i < y.rows; ++i) {
        for (Index j = 0; j < y.cols; ++j) {
          double sum = 0;
          for (Index n = offsets(0, e); n < offsets(0, e + 1); ++n) {
            Index const s = perm(0, n);
            sum += product(x(s / x_slots, i), g(s / g_slots, j));
          }
          put_element(y[e](i, j), sum, accumulate);
        }
      }
    }
  }

  /// y = index, and -1 for slots behind the first `most` of their group. `perm` and `offsets` order the transposed
  /// index, all first choices before all second ones: slot s is choice s / rows of row s % rows.
  void apply_capacity(view<Int> y, view<Int const> index, view<Int const> perm, view<Int const> offsets,
                      Index most) const {
    for (Index i = 0; i < y.rows; ++i) {
      for (Index k = 0; k < y.cols; ++k) y(i, k) = -1;
    }
    for (Index e = 0; e + 1 < offsets.cols; ++e) {
      for (Index n = offsets(0, e); n < offsets(0, e + 1) && n < offsets(0, e) + most; ++n) {
        Index const s = perm(0, n);
        y(s % y.rows, s / y.rows) = index(s % y.rows, s / y.rows);
      }
    }
  }

  // ---- quantisation ----

  /// y_i = clamp(round(a_i s), -128, 127) / s, s = 127 / max(max_j |a_ij|, 1e-5). A NaN stays NaN and is ignored for s;
  /// a row with an infinity becomes NaN.
  template <class T>
  void absmax_int8(view<T> y, view<T const> a) const {
    for (Index i = 0; i < a.rows; ++i) {
      wide largest = 0;
      for (Index j = 0; j < a.cols; ++j) largest = (std::max)(largest, std::abs(static_cast<wide>(a(i, j))));
      wide const s = absmax_scale(largest);
      for (Index j = 0; j < a.cols; ++j) y(i, j) = static_cast<T>(absmax_int8_of(static_cast<wide>(a(i, j)), s) / s);
    }
  }
  /// y_e = clamp(round(a_e / s), -1, 1) s for every matrix e, s = max(mean |a_e|, 1e-5). A matrix with a number that is
  /// not finite becomes NaN.
  template <class T>
  void absmean_ternary(view<T> y, view<T const> a) const {
    for (Index e = 0; e < a.count; ++e) {
      double sum = 0;
      each_element(a[e], [&](T x) { sum += static_cast<double>(std::abs(static_cast<wide>(x))); });
      auto const elements = static_cast<double>(a.rows * a.cols);
      wide const s = absmean_scale(elements > 0 ? static_cast<wide>(sum / elements) : wide(0));
      for (Index i = 0; i < a.rows; ++i) {
        for (Index j = 0; j < a.cols; ++j)
          y[e](i, j) = static_cast<T>(ternary_of(static_cast<wide>(a[e](i, j)), s) * s);
      }
    }
  }
  template <class T>
  static std::size_t packed_gemm_scratch(view<T>, view<T const>, view<Int const>) {
    return 0;
  }
  /// y_s = absmax_int8(x_{s / slots_per_row}) w_e for every slot s of expert e, 0 for a slot without expert; w_e are
  /// packed ternary matrices. Without perm all slots belong to expert 0. Sums are integers. A slot whose row or whose
  /// expert's weights have a number that is not finite gets NaN.
  template <class T>
  void packed_gemm(view<T> y, view<T const> x, view<Int const> w, view<Int const> perm, view<Int const> offsets,
                   Index slots_per_row, std::span<std::byte>) const {
    auto const multiply = [&](Index e, Index slot) {
      Index const row = slot / slots_per_row;
      wide largest = 0, odd = 0;
      each_element(x.middle_rows(row, 1), [&](T a) {
        largest = (std::max)(largest, std::abs(static_cast<wide>(a)));
        odd += static_cast<wide>(a) * 0;  // 0, or NaN
      });
      wide const s = absmax_scale(largest);
      for (Index j = 0; j < y.cols; ++j) {
        if (odd != 0) {
          y(slot, j) = static_cast<T>(odd);
          continue;
        }
        Int const* const column = packed_ternary::column(w[e].data, x.cols, j);
        Int sum = 0;
        for (Index i = 0; i < x.cols; ++i) {
          sum += static_cast<Int>(absmax_int8_of(static_cast<wide>(x(row, i)), s)) * packed_ternary::weight(column, i);
        }
        y(slot, j) = static_cast<T>(static_cast<wide>(sum) / s * static_cast<wide>(packed_ternary::scale(w[e].data)));
      }
    };
    if (perm.data == nullptr) {
      for (Index slot = 0; slot < y.rows; ++slot) multiply(0, slot);
      return;
    }
    zero(y);
    for (Index e = 0; e < w.count; ++e) {
      for (Index n = offsets(0, e); n < offsets(0, e + 1); ++n) multiply(e, perm(0, n));
    }
  }

  // ---- attention ----

  template <class T, class Map>
  static std::size_t attention_scratch(attention_forward<T, Map> const&) {
    return 0;
  }
  /// For every row of a list, over the visible keys s of its sequence:
  ///   score_s = the score map of scale <q, k_s> + bias_s
  ///   lse = log(sum_s exp(score_s)) = row_max + log(sum_s exp(score_s - row_max)), row_max the largest score
  ///   o = sum_s exp(score_s - row_max) / sum_s exp(score_s - row_max) keep_s v_s, keep_s the factor of dropout
  /// A row without visible keys, a row whose scores are all minus infinity (by a bias or a map), whatever the values
  /// are, and a row in no list have o = 0 and lse = minus infinity. Masked keys and values are not read: they may be
  /// NaN. A row that sees a key or value that is not finite is not finite, in columns that may differ between backends.
  template <AttentionMask Mask, class T, class Map>
  void attention(attention_forward<T, Map> const& p, std::span<std::byte>) const {
    if (p.extents.heads_are_chosen()) {
      zero(p.o);
      for (Index i = 0; p.lse.data && i < p.lse.rows; ++i) p.lse(i, 0) = -std::numeric_limits<wide>::infinity();
    }
    each_query_row(p.extents, [&](query_row r, Index b, Index kv) {
      wide row_max = -std::numeric_limits<wide>::infinity(), sum = 0;
      each_key<Mask>(p.extents, r, b, [&](Index s) { row_max = (std::max)(row_max, score(p, r, b, s, kv)); });
      Index const d = p.extents.head_dim;
      each_key<Mask>(p.extents, r, b, [&](Index s) { sum += exp_below(score(p, r, b, s, kv), row_max); });
      for (Index c = 0; c < d; ++c) {
        wide o = 0;
        each_key<Mask>(p.extents, r, b, [&](Index s) {
          o += exp_below(score(p, r, b, s, kv), row_max) / sum * kept(p, r, b, s) *
               static_cast<wide>(p.v(s, kv * d + c));
        });
        p.o(r.row, r.col + c) = static_cast<T>(sum == 0 ? wide(0) : o);
      }
      if (p.lse.data) p.lse(r.row, r.col / d) = row_max + std::log(sum);
    });
  }
  template <AttentionMask Mask, class T, class Map>
  static std::size_t attention_gradient_scratch(attention_backward<T, Map> const&) {
    return 0;
  }
  /// With P_s = exp(score_s - lse), the probability before dropout, and delta = <d_o, o>:
  ///   d_score_s = P_s (keep_s <d_o, v_s> - delta), times the map's derivative for the score before it
  ///   d_q = scale sum_s d_score_s k_s,  d_k_s += scale d_score_s q,  d_v_s += keep_s P_s d_o
  /// d_k and d_v are summed over all rows that see the key. Rows in no list and keys that no row sees get 0. A row with
  /// an lse of minus infinity gets 0 and adds 0.
  template <AttentionMask Mask, class T, class Map>
  void attention_gradient(attention_backward<T, Map> const& p, std::span<std::byte>) const {
    zero(p.d_q);
    zero(p.d_k);
    zero(p.d_v);
    Index const d = p.extents.head_dim;
    auto const scale = static_cast<wide>(p.scores.scale);
    each_score_gradient<Mask>(p, [&](query_row r, Index s, Index kv, wide probability, wide d_mapped, auto const& by) {
      wide const d_score = d_mapped * by.by_score;
      for (Index c = 0; c < d; ++c) {
        auto const add = [](view<T> const& y, Index row, Index col, wide value) {
          if (y.data) put_element(y(row, col), value, true);
        };
        add(p.d_q, r.row, r.col + c, scale * d_score * static_cast<wide>(p.k(s, kv * d + c)));
        add(p.d_k, s, kv * d + c, scale * d_score * static_cast<wide>(p.q(r.row, r.col + c)));
        add(p.d_v, s, kv * d + c, probability * static_cast<wide>(p.d_o(r.row, r.col + c)));
      }
    });
  }
  template <class T, class Map>
  static std::size_t attention_bias_gradient_scratch(attention_backward<T, Map> const&) {
    return 0;
  }
  /// d_bias, of the shape of p.scores.bias: the gradient of the bias, summed over all sequences.
  template <AttentionMask Mask, class T, class Map>
  void attention_bias_gradient(view<T> d_bias, attention_backward<T, Map> const& p, std::span<std::byte>) const {
    zero(d_bias);
    each_score_gradient<Mask>(p, [&](query_row r, Index s, Index, wide, wide d_mapped, auto const& by) {
      Index const b = sequence_of(p.extents.keys, s);
      put_element(d_bias(r.position * p.scores.bias_keys + s - p.extents.keys.begin(b), r.head), d_mapped * by.by_score,
                  true);
    });
  }
  template <class T, class Map>
  static std::size_t attention_operand_gradient_scratch(attention_backward<T, Map> const&) {
    return 0;
  }
  /// The gradients of the operands of the score map, summed over all sequences.
  template <AttentionMask Mask, class T, class Map>
  void attention_operand_gradient(operand_gradients<wide, Map::operands> const& d, attention_backward<T, Map> const& p,
                                  std::span<std::byte>) const {
    for (view<wide> const& by : d.by) zero(by);
    each_score_gradient<Mask>(p, [&](query_row r, Index, Index, wide, wide d_mapped, auto const& by) {
      for (int i = 0; i < Map::operands; ++i) {
        if (d.by[i].data) d.by[i](0, d.by[i].cols == 1 ? 0 : r.head) += d_mapped * by.by_operand[i];
      }
    });
  }

  // ---- decoding ----

  /// Pages may have any number of rows.
  static constexpr Index cache_rows = 1;
  template <class T, class Map>
  static std::size_t cached_attention_scratch(attention_forward<T, Map> const&, attention_cache<T> const&) {
    return 0;
  }
  /// Copies the keys and values to the cache, then computes attention over all cached ones.
  template <AttentionMask Mask, class T, class Map>
  void cached_attention(attention_forward<T, Map> p, attention_cache<T> const& cache, std::span<std::byte>) const {
    detail::cached_rows<T> const all(p, cache);
    all.use(p);
    attention<Mask>(p, {});
  }
  /// The mean of a over the latest `window` positions.
  template <class T>
  void cached_window_mean(view<T> y, view<T const> a, segments s, view<T> cache, cache_pages pages,
                          Index window) const {
    if (cache.cols == a.cols) {
      detail::cached_window_mean(y, a, s, cache, pages, window);
    } else {
      detail::cached_prefix_mean(y, a, s, cache, pages);
    }
  }

  /// Turns pairs of columns of every head by their position (struct rotation).
  template <class T>
  void rotary(view<T> y, view<T const> a, view<wide const> theta, row_positions s, Index heads, rotation r) const {
    Index const d = a.cols / heads, turned = r.turned(d), rows_per_token = s.rows == 0 ? 1 : a.rows / s.rows;
    for (Index j = 0; j < a.cols; ++j) {
      if (j % d < turned) continue;
      for (Index i = 0; i < a.rows; ++i) y(i, j) = a(i, j);
    }
    for (Index c = 0; c < turned / 2; ++c) {
      double const turn = r.frequency(
          std::pow(static_cast<double>(theta(0, 0)), -2.0 * static_cast<double>(c) / static_cast<double>(turned)));
      Index const first = r.first(c), second = r.second(c, d);
      for (Index b = 0; b < s.count; ++b) {
        for (Index t = s.begin(b); t < s.end(b); ++t) {
          Index const position = s.first_position(b) + t - s.begin(b);
          wide const angle = static_cast<wide>(within_a_turn(static_cast<double>(position) * turn));
          wide const cosine = std::cos(angle), sine = r.inverse ? -std::sin(angle) : std::sin(angle);
          for (Index i = t * rows_per_token; i < (t + 1) * rows_per_token; ++i) {
            for (Index j = 0; j < a.cols; j += d) {
              wide const u = static_cast<wide>(a(i, j + first)), v = static_cast<wide>(a(i, j + second));
              y(i, j + first) = static_cast<T>(u * cosine - v * sine);
              y(i, j + second) = static_cast<T>(v * cosine + u * sine);
            }
          }
        }
      }
    }
  }

 private:
  template <class T, class V>
  static void put_element(T& y, V value, bool accumulate) {
    y = static_cast<T>(static_cast<wide>(accumulate ? static_cast<V>(static_cast<wide>(y)) + value : value));
  }
  /// Row `to` of y (+)= the sum of the rows a_i with index_i = first + to, in blocks: see block_terms.
  /// @param sums, blocks  memory of the shape of y
  template <class T, class A>
  static void add_rows(view<T> y, view<A> a, view<Int const> index, Index first, bool accumulate, view<wide> sums,
                       view<double> blocks) {
    constexpr Index most_rows = 256;
    Index terms[most_rows] = {};
    bool is_long[most_rows] = {};
    for (Index i = 0; i < y.rows; ++i)
      for (Index j = 0; j < y.cols; ++j) sums(i, j) = accumulate ? static_cast<wide>(y(i, j)) : wide(0);
    for (Index i = 0; i < a.rows; ++i) {
      Index const to = index(i, 0) < 0 ? -1 : index(i, 0) - first;
      if (to < 0 || to >= y.rows) continue;
      for (Index j = 0; j < y.cols; ++j) sums(to, j) += static_cast<wide>(a(i, j));
      if (++terms[to] < block_terms) continue;
      terms[to] = 0;
      for (Index j = 0; j < y.cols; ++j) {
        blocks(to, j) = (is_long[to] ? blocks(to, j) : 0) + static_cast<double>(sums(to, j));
        sums(to, j) = 0;
      }
      is_long[to] = true;
    }
    for (Index i = 0; i < y.rows; ++i)
      for (Index j = 0; j < y.cols; ++j)
        y(i, j) =
            static_cast<T>(is_long[i] ? static_cast<wide>(blocks(i, j) + static_cast<double>(sums(i, j))) : sums(i, j));
  }
  /// The product of a row and a column.
  template <class A, class B>
  static double dot(view<A const> a, view<B const> b) {
    double sum = 0;
    for (Index k = 0; k < a.cols; ++k) sum += product(a(0, k), b(k, 0));
    return sum;
  }
  template <class A, class B>
  static double product(A a, B b) {
    return static_cast<double>(static_cast<wide>(a)) * static_cast<double>(static_cast<wide>(b));
  }
  /// The element of a row that was not chosen.
  template <class T>
  static constexpr T nothing = T(std::is_same_v<T, Int> ? -1 : 0);

  template <class T>
  static void zero(view<T> y) {
    if (y.data == nullptr) return;
    for (Index i = 0; i < y.count * y.rows; ++i) {
      for (Index j = 0; j < y.cols; ++j) y.row(i)[j * y.col_stride] = T(0);
    }
  }
  template <class T, class F>
  static void each_element(view<T const> a, F f) {
    for (Index i = 0; i < a.rows; ++i) {
      for (Index j = 0; j < a.cols; ++j) f(a(i, j));
    }
  }
  template <class A>
  static wide row_maximum(view<A const> a, Index i) {
    wide row_max = -std::numeric_limits<wide>::infinity();
    for (Index j = 0; j < a.cols; ++j) {
      wide const x = static_cast<wide>(a(i, j));
      if (x > row_max || x != x) row_max = x;  // a NaN stays
    }
    return row_max;
  }
  /// exp(x - row_max), 0 for x = minus infinity and any row_max
  static wide exp_below(wide x, wide row_max) {
    return x == -std::numeric_limits<wide>::infinity() ? wide(0) : std::exp(x - row_max);
  }
  /// sum_j exp(a_ij - row_max)
  template <class A>
  static wide sum_below(view<A const> a, Index i, wide row_max) {
    double sum = 0;
    for (Index j = 0; j < a.cols; ++j) sum += static_cast<double>(exp_below(static_cast<wide>(a(i, j)), row_max));
    return static_cast<wide>(sum);
  }
  template <class A>
  static bool ranks_before(A first, A second) {
    auto const a = static_cast<accumulator_t<A>>(first), b = static_cast<accumulator_t<A>>(second);
    return a > b || (b != b && a == a);
  }
  /// The dropout factor of the probability of a key.
  template <class P>
  static wide kept(P const& p, query_row r, Index b, Index s) {
    wide factor = 1;
    Index const position = s - p.extents.keys.begin(b);
    if (p.dropout.on()) {
      p.dropout.each_factor(p.extents, r, position, position + 1,
                            [&](Index, double f) { factor = static_cast<wide>(f); });
    }
    return factor;
  }
  /// The mapped score of a key, and its derivatives by scale q k + bias and by the map's operands.
  template <template <class, class> class Problem, class T, class Map>
  static auto mapped_score(Problem<T, Map> const& p, query_row r, Index b, Index s, Index kv) {
    wide const score = score_before_map(p, r, b, s, kv);
    if constexpr (Map::identity) {
      return score_derivatives<wide, 0>{score, 1, {}};
    } else {
      return Map::derivatives(p.scores.row(r.position, r.head), score, static_cast<wide>(s - p.extents.keys.begin(b)));
    }
  }
  template <class P>
  static wide score(P const& p, query_row r, Index b, Index s, Index kv) {
    return mapped_score(p, r, b, s, kv).value;
  }
  template <class P>
  static wide score_before_map(P const& p, query_row r, Index b, Index s, Index kv) {
    Index const d = p.extents.head_dim;
    wide sum = 0;
    for (Index c = 0; c < d; ++c)
      sum += static_cast<wide>(p.q(r.row, r.col + c)) * static_cast<wide>(p.k(s, kv * d + c));
    sum *= static_cast<wide>(p.scores.scale);
    if (p.scores.bias.data) {
      Index const position = s - p.extents.keys.begin(b);
      sum += static_cast<wide>(p.scores.bias(r.position * p.scores.bias_keys + position, r.head));
    }
    return sum;
  }
  /// f(row, key row, key/value head, probability after dropout, gradient by the mapped score, derivatives of the map)
  /// for every visible pair.
  template <class Mask, class T, class Map, class F>
  static void each_score_gradient(attention_backward<T, Map> const& p, F f) {
    Index const d = p.extents.head_dim;
    each_query_row(p.extents, [&](query_row r, Index b, Index kv) {
      if (p.lse(r.row, r.col / d) == -std::numeric_limits<wide>::infinity()) return;
      wide delta = 0;
      for (Index c = 0; c < d; ++c) {
        delta += static_cast<wide>(p.d_o(r.row, r.col + c)) * static_cast<wide>(p.o(r.row, r.col + c));
      }
      each_key<Mask>(p.extents, r, b, [&](Index s) {
        auto const mapped = mapped_score(p, r, b, s, kv);
        wide const probability = std::exp(mapped.value - static_cast<wide>(p.lse(r.row, r.col / d)));
        wide d_probability = 0;
        for (Index c = 0; c < d; ++c) {
          d_probability += static_cast<wide>(p.d_o(r.row, r.col + c)) * static_cast<wide>(p.v(s, kv * d + c));
        }
        wide const keep = kept(p, r, b, s);
        f(r, s, kv, keep * probability, probability * (keep * d_probability - delta), mapped);
      });
    });
  }
  static Index sequence_of(segments s, Index row) {
    Index b = 0;
    while (row >= s.end(b)) ++b;
    return b;
  }
  template <class F>
  static void each_query_row(attention_extents const& e, F f) {
    for (Index b = 0; b < e.queries.count; ++b) {
      for (Index list = 0; list < e.lists(); ++list) {
        for (Index i = 0; i < e.list_length(b, list); ++i) f(e.row(b, list, i), b, e.kv_head_of(list));
      }
    }
  }
  template <class Mask, class F>
  static void each_key(attention_extents const& e, query_row r, Index b, F f) {
    for (Index s = 0; s < e.keys.length(b); ++s) {
      if (Mask::sees(r.position, s)) f(e.keys.begin(b) + s);
    }
  }
};

static_assert(BackendPolicy<Reference<float>> && BackendPolicy<Reference<double>> && PackedGemm<Reference<double>>,
              "headmix: Reference lacks a kernel");

}  // namespace headmix

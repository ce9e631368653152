#pragma once
// SPDX-License-Identifier: MIT
// Attention of the Cuda backend and its gradient on one device, against Reference in double on the same rounded inputs.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda/dispatch/attention.hpp"
#include "headmix/backend/cuda/dispatch/attention_gradient.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/core/random.hpp"
#include "headmix/expr/score.hpp"

namespace headmix::testing {

/// A mask that says nothing about ranges: every third key, and none at all for some rows.
struct every_third {
  HEADMIX_HD static constexpr bool sees(Index t, Index s) { return t % 5 != 2 && (t + s) % 3 == 0; }
};
/// One that bounds the keys, but does not see all within the bounds.
struct every_third_before {
  HEADMIX_HD static constexpr bool sees(Index t, Index s) { return s <= t && (t + s) % 3 == 0; }
  HEADMIX_HD static constexpr key_range range(Index t, Index keys) { return {0, t + 1 < keys ? t + 1 : keys}; }
};

/// Whether tokens choose heads, and what is odd about that.
enum class heads_chosen {
  no,
  yes,
  not_one,        ///< nobody chooses head 1
  nothing_often,  ///< many slots choose nothing
  nothing,        ///< all slots do
};

struct attention_case {
  char const* name;
  std::vector<Int> queries, keys;  ///< offsets of the sequences
  Index rows_per_token, heads, kv_heads, head_dim;
  bool even = false;  ///< the same lengths, given without offsets
  heads_chosen chosen = heads_chosen::no;
  Index group = 1;  ///< a token may choose a head so many times

  [[nodiscard]] Index rows() const { return queries.back() * rows_per_token; }
  [[nodiscard]] bool chooses() const { return chosen != heads_chosen::no; }
  /// Heads of a row of q, and of the log-sum-exp.
  [[nodiscard]] Index heads_of_row() const { return chooses() ? 1 : heads; }
  [[nodiscard]] Index longest() const {
    Int n = 0;
    for (std::size_t b = 1; b < keys.size(); ++b) n = (std::max)(n, keys[b] - keys[b - 1]);
    return n;
  }
  /// With the offsets where they can be read.
  [[nodiscard]] attention_extents extents(Int const* of_queries, Int const* of_keys, Int const* slots,
                                          Int const* lists) const {
    attention_extents x;
    if (chooses()) x.chosen = {slots, lists, group};
    auto const count = static_cast<Index>(queries.size()) - 1;
    x.queries = {even ? nullptr : of_queries, count, queries.back()};
    x.keys = {even ? nullptr : of_keys, count, keys.back()};
    x.rows_per_token = rows_per_token;
    x.heads = heads;
    x.kv_heads = kv_heads;
    x.head_dim = head_dim;
    return x;
  }
};

/// The row lists where heads are chosen, with the slots without a head behind them.
struct attention_lists {
  std::vector<Int> slots, offsets;

  explicit attention_lists(attention_case const& c) {
    std::vector<Int> head(static_cast<std::size_t>(c.chooses() ? c.rows() : 0));
    for (Index t = 0; c.chooses() && t < c.queries.back(); ++t) {
      std::vector<Int> order;
      for (Int h = 0; h < c.heads * c.group; ++h)
        if (h != 1 || c.chosen != heads_chosen::not_one) order.push_back(h);
      Random const random(23, static_cast<std::uint64_t>(t));
      for (std::size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[random.below(n, n)]);
      for (Index j = 0; j < c.rows_per_token; ++j) {
        bool const none =
            c.chosen == heads_chosen::nothing ||
            (c.chosen == heads_chosen::nothing_often && random.uniform(static_cast<std::uint64_t>(100 + j)) < 0.4);
        head[static_cast<std::size_t>(t * c.rows_per_token + j)] =
            none ? -1 : order[static_cast<std::size_t>(j)] / static_cast<Int>(c.group);
      }
    }
    auto const add = [&](Int wanted, Index begin, Index end) {
      for (Index s = begin; s < end; ++s)
        if (head[static_cast<std::size_t>(s)] == wanted) slots.push_back(static_cast<Int>(s));
    };
    for (std::size_t b = 0; c.chooses() && b + 1 < c.queries.size(); ++b) {
      for (Int h = 0; h < c.heads; ++h) {
        offsets.push_back(static_cast<Int>(slots.size()));
        add(h, c.queries[b] * c.rows_per_token, c.queries[b + 1] * c.rows_per_token);
      }
    }
    offsets.push_back(static_cast<Int>(slots.size()));
    if (c.chooses()) add(-1, 0, c.rows());
    if (slots.empty()) slots.push_back(0);  // a pointer that is not null, also without rows
  }
};

enum class attention_layout { plain, gaps, transposed };

struct attention_variant {
  attention_layout layout = attention_layout::plain;
  double dropout = 0;
  bool off = false;   ///< the randomness: dropout does nothing
  bool gate = false;  ///< of the output
  bool no_lse = false, no_d_q = false, no_d_k = false, no_d_v = false;
  double scale = 0;   ///< of the scores; 0: 1 / sqrt(head_dim)
  bool bias = false;  ///< of the scores, and its gradient
  bool odd = false;   ///< a row of each operand is not finite
};

/// A matrix on the device and in double on the host.
template <class T, class Device>
struct attention_operand {
  std::vector<double> host;
  device_array<T, Device> array;
  view<T> device;
  view<double> reference;

  attention_operand(typename Device::queue queue, std::vector<T> const& values, Index rows, Index cols,
                    attention_layout layout)
      : host(converted<double>(values)), array(queue, values) {
    // Gaps keep rows aligned; a transposed matrix is not.
    Index const row_stride = layout == attention_layout::gaps ? (cols + 15) / 8 * 8 : cols;
    auto const shaped = [&]<class U>(U* data) {
      view<U> v(data, rows, cols);
      v.row_stride = layout == attention_layout::transposed ? 1 : row_stride;
      v.col_stride = layout == attention_layout::transposed ? rows : 1;
      return v;
    };
    device = shaped(array.data());
    reference = shaped(host.data());
  }
  static Index size(Index rows, Index cols, attention_layout layout) {
    return rows * (layout == attention_layout::gaps ? (cols + 15) / 8 * 8 : cols);
  }
  /// @param odd  this number is the first one of a row
  static attention_operand random(typename Device::queue queue, std::uint64_t stream, Index rows, Index cols,
                                  attention_layout layout, double scale, double odd = 0, Index odd_row = 0) {
    std::vector<T> values = random_numbers<T>(size(rows, cols, layout), stream);
    for (T& v : values) v = static_cast<T>(static_cast<double>(v) * scale);
    if (odd != 0) values[static_cast<std::size_t>(odd_row * cols)] = static_cast<T>(odd);
    return {queue, values, rows, cols, layout};
  }
  /// An operand with content that a kernel must overwrite.
  static attention_operand garbage(typename Device::queue queue, Index rows, Index cols, attention_layout layout) {
    std::vector<T> const values(static_cast<std::size_t>(size(rows, cols, layout)), static_cast<T>(77.0));
    return {queue, values, rows, cols, layout};
  }
  /// || device - host || / || host ||
  [[nodiscard]] double error() const { return relative_error(array.get(), host); }
  /// The error by stretches of `width` numbers: a stretch with a non-finite number must have one, anywhere.
  [[nodiscard]] double error(std::size_t width) const {
    auto const joined = [width](std::vector<double> v) {
      for (std::size_t i = 0; i + width <= v.size(); i += width) {
        auto const first = v.begin() + static_cast<std::ptrdiff_t>(i), end = first + static_cast<std::ptrdiff_t>(width);
        if (std::any_of(first, end, [](double x) { return !std::isfinite(x); }))
          std::fill(first, end, std::numeric_limits<double>::quiet_NaN());
      }
      return v;
    };
    return relative_error(joined(converted<double>(array.get())), joined(host));
  }
};

template <class T>
constexpr double attention_tolerance = std::is_same_v<T, double>  ? 1e-10
                                       : std::is_same_v<T, float> ? 1e-5
                                                                  : 1e-2;

/// Without score maps.
struct no_scores {
  using map = no_score_map;
};
/// With those that a score E goes through.
template <class E>
struct scores_of {
  using lowered = headmix::detail::lowered_scores<E>;
  using map = typename lowered::map;
  static constexpr auto is_for_each_head = []<class... A>(type_list<A...>) {
    return std::array<bool, sizeof...(A) + 1>{cols<A>::value != 1 ..., false};
  }(typename lowered::operands{});
};

template <AttentionMask Mask, class T, class Device, class Scores = no_scores>
void check_attention(attention_case const& c, attention_variant const& how = {}) {
  using wide = accumulator_t<T>;
  using map = typename Scores::map;
  using operand = attention_operand<T, Device>;
  using wide_operand = attention_operand<wide, Device>;
  INFO(c.name, ", head_dim ", c.head_dim, ", layout ", static_cast<int>(how.layout));
  typename Device::queue queue;
  Index const cols = c.heads_of_row() * c.head_dim, key_cols = c.kv_heads * c.head_dim;
  attention_lists const lists(c);
  device_array<Int, Device> const of_queries(queue, c.queries), of_keys(queue, c.keys), slots(queue, lists.slots),
      offsets(queue, lists.offsets);
  attention_extents const x = c.extents(of_queries.data(), of_keys.data(), slots.data(), offsets.data());
  attention_extents const host_x = c.extents(c.queries.data(), c.keys.data(), lists.slots.data(), lists.offsets.data());
  randomness const draws = how.off ? randomness::off() : randomness(3, 1, 2, 5);
  device_array<Int, Device> const key(queue, std::vector<Int>(draws.word, draws.word + 6));
  attention_dropout dropout, host_dropout;
  if (how.dropout > 0) {
    dropout = {key.data(), random_stream::attention_dropout, how.dropout};
    host_dropout = {draws.word, random_stream::attention_dropout, how.dropout};
  }

  // Scores with some spread, so that a wrong maximum shows.
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  double const odd = how.odd ? nan : 0, odd_value = how.odd ? infinity : 0;
  Index const keys = c.keys.back();
  auto const width = static_cast<std::size_t>(how.odd ? c.head_dim : 1);
  operand const q = operand::random(queue, 1, c.rows(), cols, how.layout, 6, odd, c.rows() / 3),
                k = operand::random(queue, 2, keys, key_cols, how.layout, 2, odd, keys * 2 / 3),
                v = operand::random(queue, 3, keys, key_cols, how.layout, 2, odd_value, keys / 2),
                d_o = operand::random(queue, 4, c.rows(), cols, how.layout, 2, odd, c.rows() / 2),
                o = operand::garbage(queue, c.rows(), cols, how.layout);
  wide_operand const lse = wide_operand::garbage(queue, c.rows(), c.heads_of_row(), attention_layout::plain);
  // For more positions than there are.
  Index const bias_keys = how.bias ? c.longest() + 3 : 0;
  operand const bias = operand::random(queue, 5, bias_keys * bias_keys, c.heads, attention_layout::gaps, 3),
                d_bias = operand::garbage(queue, bias_keys * bias_keys, c.heads, attention_layout::gaps);
  attention_scores<T, map> scores;
  attention_scores<double, map> host_scores;
  scores.scale = host_scores.scale = how.scale != 0 ? how.scale : 1 / std::sqrt(static_cast<double>(c.head_dim));
  if (how.bias) {
    scores.bias = bias.device;
    host_scores.bias = bias.reference;
    scores.bias_keys = host_scores.bias_keys = bias_keys;
  }

  // Numbers for each head, or one.
  std::vector<operand> of_map;
  for (int i = 0; i < map::operands; ++i) {
    if constexpr (map::operands > 0) {
      auto values = random_numbers<T>(Scores::is_for_each_head[static_cast<std::size_t>(i)] ? c.heads : 1,
                                      static_cast<std::uint64_t>(30 + i));
      for (T& e : values) e = static_cast<T>(0.5 + std::abs(static_cast<double>(e)));
      of_map.emplace_back(queue, values, 1, static_cast<Index>(values.size()), attention_layout::plain);
    }
  }
  if constexpr (map::operands > 0) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      scores.operands = decltype(scores.operands)(view<T const>(of_map[I].device)...);
      host_scores.operands = decltype(host_scores.operands)(view<double const>(of_map[I].reference)...);
    }
    (std::make_integer_sequence<int, map::operands>{});
  }

  attention_forward<T, map> forward{x, q.device, k.device, v.device, o.device, lse.device, dropout, scores};
  attention_forward<double, map> const host_forward{host_x,      q.reference,   k.reference,  v.reference,
                                                    o.reference, lse.reference, host_dropout, host_scores};
  std::vector<std::byte> room(cuda_kernels::attention_scratch_bytes(forward));
  CHECK(room.empty());
  Reference<double>{}.attention<Mask>(host_forward, {});
  if (how.no_lse) {
    forward.lse.data = nullptr;
    cuda_kernels::attention<Mask>(queue, forward, {});
    CHECK(o.error() <= attention_tolerance<T>);
    for (wide n : lse.array.get()) CHECK(n == 77);
    forward.lse = lse.device;
  }
  cuda_kernels::attention<Mask>(queue, forward, {});
  CHECK(o.error(width) <= attention_tolerance<T>);
  CHECK(lse.error() <= (std::is_same_v<T, double> ? 1e-12 : 1e-5));
  if (how.gate) {
    wide_operand const gate = wide_operand::random(queue, 9, c.rows(), c.heads_of_row(), attention_layout::gaps, 3);
    operand const alone = operand::garbage(queue, c.rows(), cols, how.layout),
                  again = operand::garbage(queue, c.rows(), cols, how.layout);
    operand gated = operand::garbage(queue, c.rows(), cols, how.layout);
    // As multiplied by another kernel.
    std::vector<T> const rows = o.array.get();
    std::vector<wide> const weights = gate.array.get();
    std::vector<T> expected = gated.array.get();
    for (Index i = 0; i < c.rows(); ++i) {
      for (Index j = 0; j < cols; ++j) {
        auto const at = static_cast<std::size_t>(&o.device(i, j) - o.array.data());
        expected[at] =
            static_cast<T>(weights[static_cast<std::size_t>(&gate.device(i, j / c.head_dim) - gate.array.data())] *
                           static_cast<wide>(rows[at]));
      }
    }
    forward.o = again.device;
    cuda_kernels::attention<Mask>(queue, forward, {gate.device, gated.device}, {});
    CHECK(gated.array.get() == expected);
    CHECK(again.array.get() == rows);
    CHECK(lse.error() <= (std::is_same_v<T, double> ? 1e-12 : 1e-5));
    forward.o.data = nullptr;
    cuda_kernels::attention<Mask>(queue, forward, {gate.device, alone.device}, {});
    CHECK(alone.array.get() == expected);
  }

  operand d_q = operand::garbage(queue, c.rows(), cols, how.layout),
          d_k = operand::garbage(queue, c.keys.back(), key_cols, how.layout),
          d_v = operand::garbage(queue, c.keys.back(), key_cols, how.layout);
  auto const unless = [](bool none, auto m) {
    if (none) m.data = nullptr;
    return m;
  };
  attention_backward<double, map> const host_backward{host_x,
                                                      q.reference,
                                                      k.reference,
                                                      v.reference,
                                                      o.reference,
                                                      d_o.reference,
                                                      lse.reference,
                                                      unless(how.no_d_q, d_q.reference),
                                                      unless(how.no_d_k, d_k.reference),
                                                      unless(how.no_d_v, d_v.reference),
                                                      host_dropout,
                                                      host_scores};
  attention_backward<T, map> const backward{x,
                                            q.device,
                                            k.device,
                                            v.device,
                                            o.device,
                                            d_o.device,
                                            lse.device,
                                            unless(how.no_d_q, d_q.device),
                                            unless(how.no_d_k, d_k.device),
                                            unless(how.no_d_v, d_v.device),
                                            dropout,
                                            scores};
  Reference<double>{}.attention_gradient<Mask>(host_backward, {});
  typename Device::memory const scratch(cuda_kernels::attention_gradient_scratch_bytes<Mask>(queue, backward));
  cuda_kernels::attention_gradient<Mask>(queue, backward, scratch.bytes());
  CHECK(d_q.error(width) <= attention_tolerance<T>);
  CHECK(d_k.error(width) <= attention_tolerance<T>);
  CHECK(d_v.error(width) <= attention_tolerance<T>);
  if (how.gate) {
    // Of rows that were gated: as if another kernel had made the gradient by o.
    wide_operand const by = wide_operand::random(queue, 10, c.rows(), 1, attention_layout::gaps, 3);
    wide_operand d_by = wide_operand::garbage(queue, c.rows(), 1, attention_layout::gaps);
    operand const made = operand::garbage(queue, c.rows(), cols, how.layout),
                  d_q_then = operand::garbage(queue, c.rows(), cols, how.layout),
                  d_k_then = operand::garbage(queue, c.keys.back(), key_cols, how.layout),
                  d_v_then = operand::garbage(queue, c.keys.back(), key_cols, how.layout);
    std::vector<wide> const weights = by.array.get();
    std::vector<T> const d = d_o.array.get(), rows = o.array.get();
    std::vector<T> expected = made.array.get();
    for (Index i = 0; i < c.rows(); ++i) {
      d_by.reference(i, 0) = 0;
      for (Index j = 0; j < cols; ++j) {
        auto const at = static_cast<std::size_t>(&d_o.device(i, j) - d_o.array.data());
        expected[at] = static_cast<T>(weights[static_cast<std::size_t>(&by.device(i, 0) - by.array.data())] *
                                      static_cast<wide>(d[at]));
        d_by.reference(i, 0) += static_cast<double>(d[at]) * static_cast<double>(rows[at]);
      }
    }
    attention_backward<T, map> gated = backward;
    gated.d_o = made.device;
    cuda_kernels::attention_gradient<Mask>(queue, gated, scratch.bytes(),
                                           {by.device, d_o.device, made.device, d_by.device});
    CHECK(made.array.get() == expected);
    CHECK(d_by.error() <= (std::is_same_v<T, double> ? 1e-12 : 1e-5));
    gated.d_q = unless(how.no_d_q, d_q_then.device);
    gated.d_k = unless(how.no_d_k, d_k_then.device);
    gated.d_v = unless(how.no_d_v, d_v_then.device);
    cuda_kernels::attention_gradient<Mask>(queue, gated, scratch.bytes());
    CHECK(d_q_then.array.get() == d_q.array.get());
    CHECK(d_k_then.array.get() == d_k.array.get());
    CHECK(d_v_then.array.get() == d_v.array.get());
  }
  if constexpr (map::operands > 0) {
    std::vector<wide_operand> by;
    for (operand const& given : of_map) {
      by.push_back(wide_operand::garbage(queue, 1, given.device.cols, attention_layout::plain));
    }
    operand_gradients<wide, map::operands> d;
    operand_gradients<double, map::operands> host_d;
    for (std::size_t i = 0; i < by.size(); ++i) {
      d.by[i] = by[i].device;
      host_d.by[i] = by[i].reference;
    }
    Reference<double>{}.attention_operand_gradient<Mask>(host_d, host_backward, {});
    typename Device::memory const room_of_operands(cuda_kernels::attention_operand_gradient_scratch_bytes(backward));
    cuda_kernels::attention_operand_gradient<Mask>(queue, d, backward, room_of_operands.bytes());
    // A few sums of many numbers of both signs.
    for (wide_operand const& b : by) CHECK(b.error() <= (std::is_same_v<T, bfloat16> ? 5e-2 : attention_tolerance<T>));
  }
  if (!how.bias) return;
  Reference<double>{}.attention_bias_gradient<Mask>(d_bias.reference, host_backward, {});
  typename Device::memory const more(cuda_kernels::attention_bias_gradient_scratch_bytes(backward));
  cuda_kernels::attention_bias_gradient<Mask>(queue, d_bias.device, backward, more.bytes());
  CHECK(d_bias.error() <= attention_tolerance<T>);
}

#ifndef __CUDACC__  // it calls what is for the device
/// Every row of every list is in one tile, whatever the order of the tiles.
inline void test_attention_tiles() {
  std::vector<Int> const offsets{0, 0, 7, 7, 30, 31, 64, 64};
  for (bool const ragged : {false, true}) {
    for (bool const last_first : {false, true}) {
      for (Index together = 1; together < 16; ++together) {
        segments const tokens = ragged ? segments{offsets.data(), 7, 64} : segments{nullptr, 7, 7 * 9};
        Index const per_token = 3, heads = 2, rows = 8;
        cuda_kernels::attention_tiles const tiles{tokens, per_token, heads, rows, together, last_first};
        std::vector<int> seen(static_cast<std::size_t>(tokens.rows * per_token * heads));
        for (Index i = 0; i < tiles.count(); ++i) {
          cuda_kernels::attention_tile const t = tiles(i);
          Index const begin = tokens.begin(t.sequence) * per_token, n = tokens.length(t.sequence) * per_token;
          for (Index r = t.first; r < n && r < t.first + rows; ++r) {
            ++seen[static_cast<std::size_t>((begin + r) * heads + t.kv_head)];
          }
        }
        for (int const times : seen) CHECK(times == 1);
        if (!ragged) CHECK(tiles(0).first == (last_first ? 24 : 0));
      }
    }
  }
}
#endif

/// For kernels of any sizes.
inline std::vector<attention_case> plain_attention_cases() {
  return {
      {"MoA", {0, 21}, {0, 21}, 3, 1, 1, 5},
      {"multi-head", {0, 18, 36}, {0, 18, 36}, 1, 4, 4, 24, true},
      {"grouped queries", {0, 37}, {0, 37}, 1, 4, 2, 5},
      {"fewer queries than keys", {0, 7}, {0, 70}, 2, 2, 1, 8},
      {"more queries than keys", {0, 40}, {0, 9}, 1, 2, 2, 6},
      {"ragged", {0, 0, 1, 20, 20, 27, 28}, {0, 3, 4, 23, 31, 31, 64}, 2, 2, 1, 7},
      {"one", {0, 1}, {0, 1}, 1, 1, 1, 1},
      {"no rows", {0, 0, 0}, {0, 5, 5}, 1, 2, 1, 4},
      {"no keys", {0, 5}, {0, 0}, 1, 2, 1, 4},
  };
}
template <class T, class Device>
void test_plain_attention() {
  for (attention_case const& c : plain_attention_cases()) {
    check_attention<causal, T, Device>(c);
    check_attention<every_third, T, Device>(c);
    if constexpr (std::is_same_v<T, double>) {
      check_attention<full, T, Device>(c);
      check_attention<sliding_window<5>, T, Device>(c);
      check_attention<every_third_before, T, Device>(c);
    }
  }
}
template <class T, class Device>
void test_plain_attention_variants() {
  attention_case const c{"variants", {0, 9, 30}, {0, 12, 40}, 2, 2, 1, 12};
  check_attention<causal, T, Device>(c, {.layout = attention_layout::gaps, .gate = true, .no_lse = true});
  check_attention<causal, T, Device>(c, {.layout = attention_layout::transposed, .gate = true});
  check_attention<causal, T, Device>(c, {.dropout = 0.3});
  check_attention<causal, T, Device>({"dropout", {0, 33}, {0, 66}, 3, 4, 2, 6}, {.dropout = 0.3, .gate = true});
  check_attention<causal, T, Device>(c, {.dropout = 0.3, .off = true});
  check_attention<causal, T, Device>(c, {.no_d_q = true});
  check_attention<causal, T, Device>(c, {.no_d_k = true});
  check_attention<causal, T, Device>(c, {.no_d_v = true});
  check_attention<causal, T, Device>(c, {.no_d_k = true, .no_d_v = true});
  check_attention<causal, T, Device>(c, {.no_d_q = true, .no_d_k = true, .no_d_v = true});
  check_attention<causal, T, Device>({"wide head", {0, 5}, {0, 34}, 1, 1, 1, 256});
  check_attention<every_third, T, Device>({"odd wide head", {0, 3}, {0, 4}, 1, 2, 1, 133});
}

/// Tokens that choose heads, for kernels of any sizes.
inline std::vector<attention_case> plain_chosen_cases() {
  using enum heads_chosen;
  return {
      {"3 of 4", {0, 45}, {0, 45}, 3, 4, 4, 5, false, yes},
      {"3 of 4, even", {0, 90, 180}, {0, 90, 180}, 3, 4, 4, 6, true, yes},
      {"2 of 4, grouped", {0, 21, 42}, {0, 21, 42}, 2, 4, 2, 7, true, not_one},
      {"2 of 3, multi-query, nothing", {0, 30}, {0, 41}, 2, 3, 1, 4, false, nothing_often},
      {"ragged", {0, 0, 1, 20, 20, 27, 28}, {0, 3, 4, 23, 31, 31, 64}, 2, 4, 2, 7, false, nothing_often},
      {"all", {0, 9}, {0, 9}, 3, 3, 3, 2, false, yes},
      {"one", {0, 1}, {0, 1}, 1, 5, 5, 1, true, yes},
      {"nothing", {0, 7, 14}, {0, 7, 14}, 2, 4, 4, 3, true, nothing},
      {"no rows", {0, 0, 0}, {0, 5, 5}, 1, 2, 1, 4, false, yes},
      {"no keys", {0, 5}, {0, 0}, 1, 2, 1, 4, false, yes},
  };
}
template <class T, class Device>
void test_plain_chosen_heads() {
  for (attention_case const& c : plain_chosen_cases()) {
    check_attention<causal, T, Device>(c);
    check_attention<every_third, T, Device>(c, {.scale = 0.7});
    if constexpr (std::is_same_v<T, double>) check_attention<full, T, Device>(c);
  }
  attention_case const some = plain_chosen_cases()[2];
  check_attention<causal, T, Device>(some, {.layout = attention_layout::gaps, .gate = true, .no_lse = true});
  check_attention<causal, T, Device>(some, {.layout = attention_layout::transposed, .dropout = 0.3});
  check_attention<causal, T, Device>(some, {.no_d_q = true});
  check_attention<causal, T, Device>(some, {.no_d_k = true, .no_d_v = true});
}
/// A bias of the scores, with heads that have all rows and with chosen ones.
template <class T, class Device>
void test_attention_bias() {
  using enum heads_chosen;
  for (attention_case const& c : {
           attention_case{"multi-head", {0, 34, 68}, {0, 34, 68}, 1, 2, 2, 5, true},
           {"MoA, grouped", {0, 9, 9, 21}, {0, 12, 14, 40}, 2, 4, 2, 6},
           {"chosen", {0, 35, 70}, {0, 35, 70}, 2, 3, 3, 5, true, yes},
           {"chosen, grouped, ragged", {0, 9, 9, 21}, {0, 12, 14, 40}, 2, 4, 2, 6, false, nothing_often},
           {"no rows", {0, 0, 0}, {0, 5, 5}, 1, 2, 1, 4, false, yes},
       }) {
    check_attention<causal, T, Device>(c, {.bias = true});
    if (c.rows() > 0) check_attention<causal, T, Device>(c, {.bias = true, .odd = true});
    check_attention<every_third, T, Device>(c, {.dropout = 0.3, .scale = -0.4, .bias = true});
  }
}

/// For kernels on tensor cores.
template <Index head_dim, class Device>
void test_tensor_attention() {
  attention_case const moa{"MoA", {0, 67}, {0, 67}, 3, 1, 1, head_dim};
  attention_case const multi_head{"multi-head", {0, 70, 140}, {0, 70, 140}, 1, 2, 2, head_dim, true};
  attention_case const grouped{"grouped queries", {0, 50}, {0, 50}, 1, 4, 2, head_dim};
  attention_case const decode{"fewer queries than keys", {0, 3}, {0, 200}, 2, 2, 1, head_dim};
  attention_case const wide{"more queries than keys", {0, 80}, {0, 9}, 1, 2, 2, head_dim};
  attention_case const ragged{"ragged", {0, 0, 1, 40, 40, 47, 48}, {0, 3, 4, 43, 51, 51, 84}, 2, 2, 1, head_dim};
  check_attention<causal, bfloat16, Device>(moa, {.gate = true, .no_lse = true});
  check_attention<sliding_window<20>, bfloat16, Device>(moa);
  check_attention<sliding_window<20>, bfloat16, Device>(moa, {.odd = true});
  check_attention<causal, bfloat16, Device>(multi_head, {.odd = true});
  check_attention<every_third, bfloat16, Device>(ragged, {.odd = true});
  check_attention<causal, bfloat16, Device>(multi_head, {.layout = attention_layout::gaps});
  check_attention<causal, bfloat16, Device>(grouped, {.gate = true});
  check_attention<every_third, bfloat16, Device>(decode);
  check_attention<causal, bfloat16, Device>(decode, {.no_d_q = true});
  check_attention<causal, bfloat16, Device>(wide, {.no_d_k = true});
  check_attention<every_third, bfloat16, Device>(ragged);
  check_attention<causal, bfloat16, Device>(ragged, {.no_d_v = true});
  // Long enough for the rows of a tile of keys to be shared by blocks.
  check_attention<causal, bfloat16, Device>({"long MoA", {0, 180}, {0, 180}, 3, 1, 1, head_dim});
  check_attention<every_third, bfloat16, Device>({"no rows", {0, 0, 0}, {0, 5, 5}, 1, 2, 1, head_dim});
  check_attention<every_third, bfloat16, Device>({"no keys", {0, 5}, {0, 0}, 1, 2, 1, head_dim});
}
/// For kernels that bring keys in tiles of 128 through a ring: enough of them for every stage to be used several times.
template <Index head_dim, class Device>
void test_ring_attention() {
  using enum heads_chosen;
  attention_case const few{"few queries, many keys", {0, 2, 5}, {0, 700, 1413}, 2, 2, 1, head_dim};
  attention_case const one_tile{"one tile of rows", {0, 40}, {0, 640}, 3, 1, 1, head_dim, true};
  attention_case const chosen{"chosen", {0, 60}, {0, 515}, 2, 4, 2, head_dim, false, nothing_often};
  check_attention<full, bfloat16, Device>(few, {.gate = true, .no_d_q = true, .no_d_k = true, .no_d_v = true});
  check_attention<causal, bfloat16, Device>(few, {.no_d_q = true, .no_d_k = true, .no_d_v = true, .odd = true});
  check_attention<full, bfloat16, Device>(one_tile, {.no_d_q = true, .no_d_k = true, .no_d_v = true});
  check_attention<sliding_window<150>, bfloat16, Device>(one_tile, {.no_d_q = true, .no_d_k = true, .no_d_v = true});
  check_attention<every_third_before, bfloat16, Device>(one_tile,
                                                        {.no_d_q = true, .no_d_k = true, .no_d_v = true, .odd = true});
  check_attention<causal, bfloat16, Device>(
      chosen, {.layout = attention_layout::gaps, .no_d_q = true, .no_d_k = true, .no_d_v = true});
}
/// The ring test for the gradients: d_q loops over keys; d_k and d_v loop over tiles of 64 rows, an eighth of them per
/// block.
template <Index head_dim, class Device>
void test_ring_gradient() {
  attention_case const keys{"many keys", {0, 40}, {0, 640}, 3, 1, 1, head_dim, true};
  attention_case const rows{"many rows", {0, 1300}, {0, 130}, 2, 1, 1, head_dim};
  check_attention<full, bfloat16, Device>(keys);
  check_attention<every_third_before, bfloat16, Device>(keys, {.odd = true});
  check_attention<full, bfloat16, Device>(rows, {.no_d_q = true});
  check_attention<every_third, bfloat16, Device>(rows, {.no_d_q = true, .odd = true});
}
/// Tokens that choose heads, on tensor cores.
template <Index head_dim, class Device>
void test_tensor_chosen_heads() {
  using enum heads_chosen;
  attention_case const even{"2 of 3, even", {0, 150, 300}, {0, 150, 300}, 2, 3, 3, head_dim, true, yes};
  attention_case const grouped{"3 of 4, grouped", {0, 70}, {0, 70}, 3, 4, 2, head_dim, false, not_one};
  attention_case const ragged{
      "ragged", {0, 0, 1, 40, 40, 47, 48}, {0, 3, 4, 43, 51, 51, 84}, 2, 4, 2, head_dim, false, nothing_often};
  check_attention<causal, bfloat16, Device>(even);
  check_attention<causal, bfloat16, Device>(even, {.odd = true});
  check_attention<causal, bfloat16, Device>(grouped, {.layout = attention_layout::gaps, .gate = true, .no_lse = true});
  check_attention<every_third, bfloat16, Device>(grouped, {.scale = 0.2});
  check_attention<every_third, bfloat16, Device>(ragged, {.no_d_q = true});
  check_attention<causal, bfloat16, Device>(ragged, {.no_d_v = true});
  attention_case const of_kv_heads{
      "4 of 8, grouped by 4", {0, 150, 300}, {0, 150, 300}, 4, 2, 2, head_dim, true, yes, 4};
  attention_case const ragged_of_kv_heads{
      "ragged, grouped by 3", {0, 0, 90, 131}, {0, 3, 93, 150}, 3, 2, 2, head_dim, false, yes, 3};
  check_attention<causal, bfloat16, Device>(of_kv_heads, {.layout = attention_layout::gaps, .gate = true});
  check_attention<causal, bfloat16, Device>(ragged_of_kv_heads, {.odd = true});
  check_attention<every_third, bfloat16, Device>(ragged_of_kv_heads);
  // Long enough for the rows of a tile of keys to be shared by blocks.
  check_attention<causal, bfloat16, Device>({"long", {0, 280}, {0, 280}, 2, 2, 1, head_dim, true, nothing_often});
  check_attention<every_third, bfloat16, Device>(
      {"nothing", {0, 9, 18}, {0, 9, 18}, 2, 40, 2, head_dim, true, nothing});
  check_attention<causal, bfloat16, Device>({"many heads", {0, 9, 11}, {0, 9, 11}, 3, 40, 2, head_dim, false, yes});
  check_attention<causal, bfloat16, Device>({"no rows", {0, 0, 0}, {0, 5, 5}, 1, 2, 1, head_dim, false, yes});
  check_attention<causal, bfloat16, Device>({"no keys", {0, 5}, {0, 0}, 1, 2, 1, head_dim, false, yes});
}
/// Cases that tensor-core kernels do not support, and kernels that select the working one on the device.
template <class Device>
void test_tensor_attention_otherwise() {
  attention_case const c{"otherwise", {0, 10, 21}, {0, 10, 30}, 2, 2, 1, 64};
  check_attention<causal, bfloat16, Device>(c, {.dropout = 0.3});
  check_attention<causal, bfloat16, Device>(c, {.dropout = 0.3, .off = true});
  check_attention<causal, bfloat16, Device>(c, {.layout = attention_layout::transposed});
  check_attention<causal, bfloat16, Device>({"odd", {0, 20}, {0, 20}, 1, 2, 1, 24});
  attention_case const chosen{"chosen", {0, 10, 21}, {0, 10, 30}, 2, 4, 2, 64, false, heads_chosen::nothing_often};
  check_attention<causal, bfloat16, Device>(chosen, {.dropout = 0.3});
  check_attention<causal, bfloat16, Device>(chosen, {.dropout = 0.3, .off = true});
  check_attention<causal, bfloat16, Device>(chosen, {.bias = true});
  check_attention<causal, bfloat16, Device>(c, {.scale = -0.1});
}

/// Learned slopes and a learned cap; f uses every symbol.
struct slopes_and_cap : score_map {
  struct slope : param<size<4>> {};
  struct cap : param<size<1>> {};
  static constexpr auto f(auto s) {
    return cap{} * tanh((s - slope{} * abs(query_position{} - key_position{}) * number<1, 10>{}) / cap{}) +
           number<1, 5>{} * head_index{};
  }
};
/// A soft cap, slopes of distance and a number for each head, without a division.
struct slopes_and_soft_cap : score_map {
  struct slope : param<size<4>> {};
  static constexpr auto f(auto s) {
    return number<5>{} *
               tanh((s - slope{} * abs(query_position{} - key_position{}) * number<1, 10>{}) * number<1, 5>{}) +
           number<1, 5>{} * head_index{};
  }
};
/// Far keys, those behind a query above all, get scores that overflow, and slopes too.
struct far_is_more : score_map {
  static constexpr auto f(auto s) { return s * exp(number<20>{} * (key_position{} - query_position{})); }
};
template <class... M>
using scores_after = scores_of<decltype(headmix::detail::map_score<size<4>, M...>(headmix::detail::score_before{}))>;

/// Score maps without tensor cores.
template <class T, class Device>
void test_plain_score_maps() {
  using learned = scores_after<slopes_and_cap>;
  for (attention_case const& c : plain_attention_cases()) check_attention<causal, T, Device, learned>(c);
  attention_case const grouped{"grouped", {0, 10, 21}, {0, 10, 30}, 2, 4, 2, 5};
  attention_case const chosen{"chosen", {0, 10, 21}, {0, 10, 30}, 2, 4, 2, 5, false, heads_chosen::nothing_often};
  for (attention_case const& c : {grouped, chosen}) {
    check_attention<every_third, T, Device, learned>(c, {.layout = attention_layout::transposed, .dropout = 0.3});
    check_attention<sliding_window<4>, T, Device, learned>(c, {.scale = -0.3, .bias = true});
    check_attention<causal, T, Device, scores_after<far_is_more>>(c);
  }
  check_attention<causal, T, Device, learned>(grouped, {.gate = true, .no_d_q = true});
}
/// Score maps on tensor cores.
template <Index head_dim, class Device>
void test_tensor_score_maps() {
  using learned = scores_after<slopes_and_cap>;
  attention_case const grouped{"grouped", {0, 50}, {0, 50}, 1, 4, 2, head_dim};
  attention_case const ragged{"ragged", {0, 0, 1, 40, 40, 47, 48}, {0, 3, 4, 43, 51, 51, 84}, 2, 2, 1, head_dim};
  attention_case const chosen{"chosen", {0, 0, 1, 40, 40, 47, 48},  {0, 3, 4, 43, 51, 51, 84}, 2, 4, 2, head_dim,
                              false,    heads_chosen::nothing_often};
  check_attention<causal, bfloat16, Device, learned>(grouped, {.gate = true});
  check_attention<every_third, bfloat16, Device, learned>(ragged, {.scale = -0.2});
  check_attention<causal, bfloat16, Device, learned>(chosen);
  check_attention<every_third, bfloat16, Device, learned>(chosen, {.no_d_q = true});
  check_attention<causal, bfloat16, Device, scores_after<far_is_more>>(grouped);
  check_attention<causal, bfloat16, Device, scores_after<slopes_and_soft_cap>>(ragged, {.gate = true});
  check_attention<every_third, bfloat16, Device, scores_after<slopes_and_soft_cap>>(chosen, {.odd = true});
  check_attention<causal, bfloat16, Device, learned>(grouped, {.odd = true});
  // Long enough for the rows of a tile of keys to be shared by blocks, and even.
  check_attention<full, bfloat16, Device, learned>({"long", {0, 180}, {0, 180}, 3, 1, 1, head_dim, true});
}

}  // namespace headmix::testing

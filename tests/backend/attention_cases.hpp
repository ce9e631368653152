#pragma once
// SPDX-License-Identifier: MIT
// CPU attention and its gradients against the reference, with recomputed and with stored probabilities; bitwise equal
// on one and two threads.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/expr/score.hpp"

namespace headmix::test {

/// A mask without a range, under which some positions see no key.
struct scattered {
  static bool sees(Index t, Index s) { return t % 4 != 1 && s <= t + 2 && s % 3 != 1; }
};

struct Case {
  std::vector<Int> queries, keys;  ///< offsets of the sequences
  Index choices, heads, kv_heads, head_dim;
  bool chosen = true, biased = false, drops = false, strided = false, even = false;
  double scale = 0.3;
};

/// @tparam In the type to which values are first rounded
template <class T, class In = T>
std::vector<T> numbers(Index n, std::uint64_t stream) {
  Random const random(7, stream);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(static_cast<In>(random.normal(i)));
  return v;
}

/// Choices of heads: head 0 is the first choice of every token, head 1 is never chosen, the others in turn, each at
/// most once in a row. Every fifth token has no last choice, token 2 no choice at all.
inline std::vector<Int> choices_of(Case const& c) {
  Index const tokens = c.queries.back();
  std::vector<Int> index;
  for (Index t = 0; t < tokens; ++t) {
    for (Index k = 0; k < c.choices; ++k) {
      Index const others = c.heads - 2, turn = static_cast<Index>(Random(5).below(static_cast<std::uint64_t>(t), 97));
      Index head = k == 0 ? 0 : others > 0 ? 2 + (turn + k) % others : -1;
      if (t == 2 || (t % 5 == 3 && k == c.choices - 1) || k > others) head = -1;
      index.push_back(static_cast<Int>(head));
    }
  }
  return index;
}

/// No score maps.
struct no_scores {
  using map = no_score_map;
};
/// Score maps applied to a score E in a program of `heads` heads.
template <class E>
struct scores_of {
  using lowered = headmix::detail::lowered_scores<E>;
  using map = typename lowered::map;
  static constexpr auto is_for_each_head = []<class... A>(type_list<A...>) {
    return std::array<bool, sizeof...(A) + 1>{cols<A>::value != 1 ..., false};
  }(typename lowered::operands{});
};

/// All outputs of attention, concatenated.
/// @tparam Scores  no_scores, or a `map` and the operands that have one number per head
/// @tparam In  the type to which operands are rounded
template <AttentionMask M, class T, class Scores = no_scores, class In = T, class B>
std::vector<T> run(Case const& c, B backend) {
  using map = typename Scores::map;
  constexpr T unwritten = std::numeric_limits<T>::quiet_NaN();
  Index const count = static_cast<Index>(c.queries.size()) - 1;
  attention_extents x{
      ragged(c.queries.data(), count), ragged(c.keys.data(), count), c.choices, c.heads, c.kv_heads, c.head_dim};
  if (c.even) {
    x.queries = uniform(count, x.queries.rows / count);
    x.keys = uniform(count, x.keys.rows / count);
  }
  Index const rows = x.queries.rows * c.choices, width = c.chosen ? c.head_dim : c.heads * c.head_dim;
  std::vector<Int> const index = choices_of(c);
  std::vector<Int> slots(index.size() + 1), offsets(static_cast<std::size_t>(count * c.heads + 1));
  cpu_kernels::sort_by_expert(view<Int>(slots.data(), 1, rows), view<Int>(offsets.data(), 1, count * c.heads + 1),
                              view<Int const>(index.data(), x.queries.rows, c.choices), x.queries);
  if (c.chosen) x.chosen = {slots.data(), offsets.data()};

  auto const laid_out = [&](std::vector<T>& v, Index r, Index w) {
    view<T> m(v.data(), r, w);
    if (c.strided) {
      m.row_stride = 2 * w + 3;
      m.col_stride = 2;
    }
    return m;
  };
  auto const size = [&](Index r, Index w) { return r * (2 * w + 3) + 1; };
  Index const wide = c.kv_heads * c.head_dim;
  auto q = numbers<T, In>(size(rows, width), 1), k = numbers<T, In>(size(x.keys.rows, wide), 2),
       v = numbers<T, In>(size(x.keys.rows, wide), 3), d_o = numbers<T, In>(size(rows, width), 4);
  auto o = numbers<T, In>(size(rows, width), 5), d_q = o, d_k = k, d_v = v;
  using W = accumulator_t<T>;
  std::vector<W> lse(static_cast<std::size_t>(rows * c.heads), W(9));
  view<W> const vl(lse.data(), rows, c.chosen ? 1 : c.heads);

  attention_forward<T, map> f{x,
                              laid_out(q, rows, width),
                              laid_out(k, x.keys.rows, wide),
                              laid_out(v, x.keys.rows, wide),
                              laid_out(o, rows, width),
                              vl,
                              {},
                              {}};
  f.scores.scale = c.scale;
  Index bias_keys = 0;
  for (Index b = 0; b < count; ++b) bias_keys = (std::max)(bias_keys, x.keys.length(b));
  auto const bias = numbers<T, In>(bias_keys * bias_keys * c.heads, 6);
  std::vector<T> d_bias(bias.size(), T(3));
  if (c.biased) {
    f.scores.bias = view<T const>(bias.data(), bias_keys * bias_keys, c.heads);
    f.scores.bias_keys = bias_keys;
  }
  // Operands of a size suitable for slopes and caps.
  constexpr int operands = map::operands;
  std::vector<std::vector<T>> operand;
  std::vector<std::vector<W>> d_operand;
  operand_gradients<W, operands == 0 ? 1 : operands> d = {};
  if constexpr (operands > 0) {
    for (int i = 0; i < operands; ++i) {
      operand.push_back(numbers<T, In>(Scores::is_for_each_head[static_cast<std::size_t>(i)] ? c.heads : 1,
                                       20 + static_cast<std::uint64_t>(i)));
      for (T& e : operand.back()) e = static_cast<T>(static_cast<In>(0.5 + std::abs(static_cast<double>(e))));
      d_operand.emplace_back(operand.back().size(), W(4));
    }
    for (int i = 0; i < operands; ++i) {
      auto const at = static_cast<std::size_t>(i);
      d.by[i] = view<W>(d_operand[at].data(), 1, static_cast<Index>(d_operand[at].size()));
    }
    [&]<int... I>(std::integer_sequence<int, I...>) {
      f.scores.operands =
          decltype(f.scores.operands)(view<T const>(operand[I].data(), 1, static_cast<Index>(operand[I].size()))...);
    }
    (std::make_integer_sequence<int, operands>{});
  }
  randomness const key(11, 2, 3);
  if (c.drops) f.dropout = {key.word, random_stream::attention_dropout, 0.25};
  std::vector<T> probabilities;
  f.probabilities = view<T>(nullptr, rows * vl.cols, 0);
  if constexpr (requires { backend.attention_columns(f); }) {
    Index const columns = backend.attention_columns(f);
    probabilities.assign(static_cast<std::size_t>(f.probabilities.rows * columns), unwritten);
    f.probabilities = view<T>(probabilities.data(), f.probabilities.rows, columns);
  }
  attention_backward<T, map> g{x,
                               f.q,
                               f.k,
                               f.v,
                               f.o,
                               laid_out(d_o, rows, width),
                               vl,
                               laid_out(d_q, rows, width),
                               laid_out(d_k, x.keys.rows, wide),
                               laid_out(d_v, x.keys.rows, wide),
                               f.dropout,
                               f.scores,
                               f.probabilities};

  // The scratch size is computed before the lists have memory.
  auto unknown = g;
  if (c.chosen) unknown.extents.chosen = {nullptr, nullptr};
  auto unknown_f = f;
  if (c.chosen) unknown_f.extents.chosen = {nullptr, nullptr};
  AlignedBuffer forward(backend.attention_scratch(unknown_f)),
      backward(backend.template attention_gradient_scratch<M>(unknown)),
      by_bias(backend.attention_bias_gradient_scratch(unknown));
  backend.template attention<M>(f, forward.bytes());
  backend.template attention_gradient<M>(g, backward.bytes());

  std::vector<T> all(lse.begin(), lse.end());
  auto const add = [&](view<T const> m) {
    for (Index i = 0; i < m.rows; ++i) {
      for (Index j = 0; j < m.cols; ++j) all.push_back(m(i, j));
    }
  };
  add(f.o), add(g.d_q), add(g.d_k), add(g.d_v);
  if (c.biased) {
    backend.template attention_bias_gradient<M>(view<T>(d_bias.data(), bias_keys * bias_keys, c.heads), g,
                                                by_bias.bytes());
    all.insert(all.end(), d_bias.begin(), d_bias.end());
  }
  if constexpr (operands > 0) {
    AlignedBuffer by_operands(backend.attention_operand_gradient_scratch(unknown));
    backend.template attention_operand_gradient<M>(d, g, by_operands.bytes());
    for (auto const& by : d_operand) {
      for (W const e : by) all.push_back(static_cast<T>(e));
    }
    // Only the last gradient is requested.
    auto const before = d_operand.back();
    for (int i = 0; i + 1 < operands; ++i) d.by[i].data = nullptr;
    std::fill(d_operand.back().begin(), d_operand.back().end(), W(5));
    backend.template attention_operand_gradient<M>(d, g, by_operands.bytes());
    CHECK(d_operand.back() == before);
  }
  return all;
}

template <AttentionMask M, class T, class Scores = no_scores>
void check(Case const& c, double tolerance) {
  CAPTURE(c.queries.back());
  CAPTURE(c.heads);
  thread_pool one(1), two(2);
  Cpu<T, thread_pool> by_one(one), by_two(two);
  auto const expected = run<M, T, Scores>(c, Reference<T>{});
  for (Index const budget : {Index{0}, Index{1} << 30}) {
    CAPTURE(budget);
    by_one.set_probability_budget(budget);
    by_two.set_probability_budget(budget);
    auto const found = run<M, T, Scores>(c, by_one);
    REQUIRE(found.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      double const a = static_cast<double>(found[i]), b = static_cast<double>(expected[i]);
      if (std::isinf(b) && a == b) continue;
      double const error = std::abs(a - b) / (1 + std::abs(b));
      if (!(error <= worst)) worst = error;
    }
    CHECK(worst <= tolerance);
    CHECK(run<M, T, Scores>(c, by_two) == found);
  }
}

/// Cpu<bfloat16> against double on the same operands. Results are rounded to 8 bits, 0.0011 of them on the mean; with
/// products of pairs, probabilities and gradients of scores are rounded too, before they are summed.
template <AttentionMask M, class Scores = no_scores>
void check_bfloat16(Case const& c) {
  CAPTURE(c.queries.back());
  CAPTURE(c.heads);
  thread_pool one(1), two(2);
  auto const expected = run<M, double, Scores, bfloat16>(c, Reference<double>{});
  auto const found = run<M, bfloat16, Scores>(c, Cpu<bfloat16, thread_pool>(one));
  REQUIRE(found.size() == expected.size());
  double difference = 0, norm = 0, worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double const a = static_cast<double>(found[i]), b = expected[i];
    if (std::isinf(b) && a == b) continue;
    difference += (a - b) * (a - b);
    norm += b * b;
    double const error = std::abs(a - b) / (1 + std::abs(b));
    if (!(error <= worst)) worst = error;
  }
  CHECK(worst <= 0.05);
  CHECK(difference <= std::pow(0.004, 2) * norm);
  CHECK(run<M, bfloat16, Scores>(c, Cpu<bfloat16, thread_pool>(two)) == found);
}

inline std::vector<Case> cases() {
  std::vector<Int> const uneven{0, 13, 13, 50, 51, 90}, one{0, 300}, even{0, 21, 42, 63};
  std::vector<Case> all = {
      {{0, 1}, {0, 1}, 1, 1, 1, 4},              // a single row
      {{0, 0}, {0, 0}, 2, 4, 2, 4},              // no tokens
      {{0, 4}, {0, 0}, 2, 4, 2, 4},              // no keys
      {{0, 0, 5, 5}, {0, 0, 7, 9}, 1, 4, 2, 3},  // empty sequences, keys without queries
      {{0, 3, 10}, {0, 40, 75}, 2, 4, 2, 8},     // fewer queries than keys
      {uneven, uneven, 3, 6, 3, 5},              // two heads for every key/value head
      {one, one, 2, 4, 4, 20},                   // several blocks and tiles, lists of different lengths
      {one, one, 3, 8, 1, 16},                   // all heads read the same keys
      {even, even, 3, 6, 6, 67},
  };
  all.back().even = true;
  Case more = all[5];
  more.biased = true;
  all.push_back(more);  // a bias
  more.drops = more.strided = true;
  all.push_back(more);  // a bias and dropout, matrices with strides
  more.chosen = false;
  all.push_back(more);  // a bias and dropout of all heads
  more = all[6];
  more.biased = true;
  all.push_back(more);
  more = all[7];
  more.strided = true;
  all.push_back(more);  // a single key/value head with strides
  return all;
}

}  // namespace headmix::test

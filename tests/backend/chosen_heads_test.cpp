// SPDX-License-Identifier: MIT
// Attention of the CPU against the reference where tokens choose heads, and of all heads with a bias or dropout: its
// gradients too, by probabilities that are computed again and by stored ones; on one thread and on two, to the same
// bits.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace {

using namespace headmix;

/// A mask without a range, that hides every key from some positions.
struct scattered {
  static bool sees(Index t, Index s) { return t % 4 != 1 && s <= t + 2 && s % 3 != 1; }
};

struct Case {
  std::vector<Int> queries, keys;  ///< offsets of the sequences
  Index choices, heads, kv_heads, head_dim;
  bool chosen = true, biased = false, drops = false, strided = false, even = false;
  double scale = 0.3;
};

template <class T>
std::vector<T> numbers(Index n, std::uint64_t stream) {
  Random const random(7, stream);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(random.normal(i));
  return v;
}

/// Head 0 is everybody's first choice, head 1 nobody's; the others are chosen by turns, each once in a row at most.
/// Every fifth token leaves its last choice open, token 2 all of them.
std::vector<Int> choices_of(Case const& c) {
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

/// Everything that attention makes, one after another.
template <AttentionMask M, class T, class B>
std::vector<T> run(Case const& c, B backend) {
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
  cpu::sort_by_expert(view<Int>(slots.data(), 1, rows), view<Int>(offsets.data(), 1, count * c.heads + 1),
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
  auto q = numbers<T>(size(rows, width), 1), k = numbers<T>(size(x.keys.rows, wide), 2),
       v = numbers<T>(size(x.keys.rows, wide), 3), d_o = numbers<T>(size(rows, width), 4);
  auto o = numbers<T>(size(rows, width), 5), d_q = o, d_k = k, d_v = v;
  std::vector<T> lse(static_cast<std::size_t>(rows * c.heads), T(9));
  view<T> const vl(lse.data(), rows, c.chosen ? 1 : c.heads);

  attention_forward<T> f{x,
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
  auto const bias = numbers<T>(bias_keys * bias_keys * c.heads, 6);
  std::vector<T> d_bias(bias.size(), T(3));
  if (c.biased) {
    f.scores.bias = view<T const>(bias.data(), bias_keys * bias_keys, c.heads);
    f.scores.bias_keys = bias_keys;
  }
  randomness const key(11, 2, 3);
  if (c.drops) f.dropout = {key.word, 4, 0.25};
  std::vector<T> probabilities;
  f.probabilities = view<T>(nullptr, rows * vl.cols, 0);
  if constexpr (requires { backend.attention_columns(f); }) {
    Index const columns = backend.attention_columns(f);
    probabilities.assign(static_cast<std::size_t>(f.probabilities.rows * columns), unwritten);
    f.probabilities = view<T>(probabilities.data(), f.probabilities.rows, columns);
  }
  attention_backward<T> g{x,
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

  // Scratch is asked for before the lists are made.
  auto unknown = g;
  unknown.extents.chosen = {};
  auto unknown_f = f;
  unknown_f.extents.chosen = {};
  AlignedBuffer forward(backend.attention_scratch(unknown_f)), backward(backend.attention_gradient_scratch(unknown)),
      by_bias(backend.attention_bias_gradient_scratch(unknown));
  backend.template attention<M>(f, forward.bytes());
  backend.template attention_gradient<M>(g, backward.bytes());

  std::vector<T> all = lse;
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
  return all;
}

template <AttentionMask M, class T>
void check(Case const& c, double tolerance) {
  CAPTURE(c.queries.back());
  CAPTURE(c.heads);
  thread_pool one(1), two(2);
  Cpu<T, thread_pool> by_one(one), by_two(two);
  auto const expected = run<M, T>(c, Reference<T>{});
  for (Index const budget : {Index{0}, Index{1} << 30}) {
    CAPTURE(budget);
    by_one.set_probability_budget(budget);
    by_two.set_probability_budget(budget);
    auto const found = run<M, T>(c, by_one);
    REQUIRE(found.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      double const a = static_cast<double>(found[i]), b = static_cast<double>(expected[i]);
      if (std::isinf(b) && a == b) continue;
      double const error = std::abs(a - b) / (1 + std::abs(b));
      if (!(error <= worst)) worst = error;
    }
    CHECK(worst <= tolerance);
    CHECK(run<M, T>(c, by_two) == found);
  }
}

std::vector<Case> cases() {
  std::vector<Int> const uneven{0, 13, 13, 50, 51, 90}, one{0, 300}, even{0, 21, 42, 63};
  std::vector<Case> all = {
      {{0, 1}, {0, 1}, 1, 1, 1, 4},              // a single row
      {{0, 0}, {0, 0}, 2, 4, 2, 4},              // nothing at all
      {{0, 4}, {0, 0}, 2, 4, 2, 4},              // no keys
      {{0, 0, 5, 5}, {0, 0, 7, 9}, 1, 4, 2, 3},  // empty sequences, keys without queries
      {{0, 3, 10}, {0, 40, 75}, 2, 4, 2, 8},     // fewer queries than keys
      {uneven, uneven, 3, 6, 3, 5},              // two heads for every key/value head
      {one, one, 2, 4, 4, 20},                   // several blocks and tiles, lists of unlike lengths
      {one, one, 3, 8, 1, 16},                   // all heads read the same keys
      {even, even, 3, 6, 6, 67},
  };
  all.back().even = true;
  Case more = all[5];
  more.biased = true;
  all.push_back(more);  // a bias
  more.drops = more.strided = true;
  all.push_back(more);  // a bias and dropout, of matrices with strides
  more.chosen = false;
  all.push_back(more);  // the same of all heads
  more = all[6];
  more.biased = true;
  all.push_back(more);
  more = all[7];
  more.strided = true;
  all.push_back(more);  // a single key/value head with strides
  return all;
}

TEST_CASE("attention over chosen heads equals the reference: causal") {
  for (Case const& c : cases()) check<causal, double>(c, 1e-11);
}
TEST_CASE("attention over chosen heads equals the reference: full") {
  for (Case const& c : cases()) {
    Index const shift = c.keys.back() - c.queries.back();
    if (0 > shift && c.biased) continue;
    check<full, double>(c, 1e-11);
  }
}
TEST_CASE("attention over chosen heads equals the reference: sliding window") {
  for (Case const& c : cases()) check<sliding_window<70>, double>(c, 1e-11);
}
TEST_CASE("attention over chosen heads equals the reference: a mask of the user's") {
  for (Case const& c : cases()) check<scattered, double>(c, 1e-11);
}
TEST_CASE("attention over chosen heads equals the reference in float") {
  for (Case const& c : cases()) check<causal, float>(c, 1e-4);
}
/// More keys than a tile of the forward pass has, in tiles of which some rows see nothing.
TEST_CASE("attention over chosen heads of long sequences") {
  Case c{{0, 20, 1120}, {0, 600, 1700}, 1, 3, 1, 4};
  check<causal, double>(c, 1e-11);
  check<sliding_window<70>, double>(c, 1e-11);
  check<scattered, float>(c, 1e-4);
  c.drops = true;
  check<full, double>(c, 1e-11);
  c.chosen = false;
  check<sliding_window<520>, double>(c, 1e-11);
}

/// Many lists of few rows beside one of many: the parts of the gradient differ.
TEST_CASE("attention over chosen heads of lists of very different lengths") {
  Case c{{0, 5, 9, 300}, {0, 5, 9, 300}, 2, 6, 3, 8};
  check<causal, double>(c, 1e-11);
  c.chosen = false;
  c.choices = 1;
  check<full, double>(c, 1e-11);
}

/// The probability of a single key is 1 whatever its score is.
TEST_CASE_TEMPLATE("a query that sees a single key has no gradient", T, float, double) {
  Case const c{{0, 70, 71, 80}, {0, 70, 71, 80}, 1, 3, 3, 8, false};
  std::size_t const rows = 80, width = 24;
  auto const found = run<causal, T>(c, Cpu<T>());
  auto const* const d_q = found.data() + rows * 3 + rows * width;  // behind lse and o
  for (std::size_t t = 0; t < rows; ++t) {
    bool const single = t == 0 || t == 70 || t == 71;
    std::size_t zeros = 0;
    for (std::size_t j = 0; j < width; ++j) zeros += d_q[t * width + j] == T(0) ? 1 : 0;
    CAPTURE(t);
    CHECK(zeros == (single ? width : 0));
  }
}

TEST_CASE("attention over all heads, each chosen once, has the bits of dense attention") {
  Index const n = 260, heads = 4, d = 16;
  auto const dense_q = numbers<float>(n * heads * d, 1), k = numbers<float>(n * heads * d, 2),
             v = numbers<float>(n * heads * d, 3);
  std::vector<Int> slots, offsets;
  for (Index h = 0; h < heads; ++h) {
    offsets.push_back(static_cast<Int>(slots.size()));
    for (Index t = 0; t < n; ++t) slots.push_back(static_cast<Int>(t * heads + h));
  }
  offsets.push_back(static_cast<Int>(slots.size()));
  std::vector<float> o(dense_q.size()), chosen_o(dense_q.size());
  attention_extents x{uniform(1, n), uniform(1, n), 1, heads, heads, d};
  Cpu<float> cpu;
  view<float const> const vk(k.data(), n, heads * d), vv(v.data(), n, heads * d);
  attention_forward<float> f{x, {dense_q.data(), n, heads * d}, vk, vv, {o.data(), n, heads * d}, {}, {}, {}};
  AlignedBuffer scratch(cpu.attention_scratch(f));
  cpu.attention<causal>(f, scratch.bytes());
  // Slot t * heads + h is the head's part of row t.
  f.extents.rows_per_token = heads;
  f.extents.chosen = {slots.data(), offsets.data()};
  f.q = {dense_q.data(), n * heads, d};
  f.o = {chosen_o.data(), n * heads, d};
  AlignedBuffer again(cpu.attention_scratch(f));
  cpu.attention<causal>(f, again.bytes());
  CHECK(o == chosen_o);
}

}  // namespace

// SPDX-License-Identifier: MIT
// CPU attention of chosen heads, and of all heads with a bias or dropout, in cases beyond backend_conformance: a
// sliding window, long sequences and lists of very different lengths.

#include "attention_cases.hpp"

namespace chosen_heads_test {

namespace {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("attention over chosen heads equals the reference: sliding window") {
  for (Case const& c : cases()) check<sliding_window<70>, double>(c, 1e-11);
}
/// More keys than a tile of the forward pass, in tiles where some rows see no key.
TEST_CASE("attention over chosen heads of long sequences [slow]") {
  Case c{{0, 20, 1120}, {0, 600, 1700}, 1, 3, 1, 4};
  check<causal, double>(c, 1e-11);
  check<sliding_window<70>, double>(c, 1e-11);
  check<scattered, float>(c, 1e-4);
  c.drops = true;
  check<full, double>(c, 1e-11);
  c.chosen = false;
  check<sliding_window<520>, double>(c, 1e-11);
}

/// Many lists of few rows and one of many: the parts of the gradient differ.
TEST_CASE("attention over chosen heads of lists of very different lengths") {
  Case c{{0, 5, 9, 300}, {0, 5, 9, 300}, 2, 6, 3, 8};
  check<causal, double>(c, 1e-11);
  c.chosen = false;
  c.choices = 1;
  check<full, double>(c, 1e-11);
}

/// The probability of a single key is 1 for any score.
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
  // Slot t * heads + h is head h of row t.
  f.extents.rows_per_token = heads;
  f.extents.chosen = {slots.data(), offsets.data()};
  f.q = {dense_q.data(), n * heads, d};
  f.o = {chosen_o.data(), n * heads, d};
  AlignedBuffer again(cpu.attention_scratch(f));
  cpu.attention<causal>(f, again.bytes());
  CHECK(o == chosen_o);
}

}  // namespace

}  // namespace chosen_heads_test

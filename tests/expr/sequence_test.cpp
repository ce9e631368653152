// SPDX-License-Identifier: MIT
// Values per sequence and per window.

#include "headmix/expr/sequence.hpp"

#include <array>

#include "../test_program.hpp"

namespace sequence_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct x : input<tokens, size<3>> {};
struct s : input<sequences, size<2>> {};
struct table : selection<size<4>, size<2>, size<7>> {};
struct pick : selection<tokens, size<1>, size<4>> {};
std::array<Int, 5> const offsets{0, 3, 3, 4, 9};

gradcheck_options ragged_options() {
  gradcheck_options o;
  o.token_sequences = ragged(offsets.data(), 4);
  return o;
}
Index sequence_at(Index row) {
  Index b = 0;
  while (row >= offsets[static_cast<std::size_t>(b) + 1]) ++b;
  return b;
}
template <class Y>
void check_ragged(Y y) {
  auto const r = gradcheck(y, ragged_options(), at<tokens>(9));
  CAPTURE(r.text);
  CHECK(r.ok());
  check_gradient(y);
}

}  // namespace

TEST_CASE("sequence numbers") {
  TestProgram<roots<type_of<decltype(sequence_numbers<tokens>())>>, inference> p(ragged_options(), at<tokens>(9));
  std::size_t const bytes = p.program.workspace_bytes();
  p.workspace = AlignedBuffer(bytes);
  p.program.bind_workspace(p.workspace.bytes());
  auto const y = p.program.forward();
  for (Index i = 0; i < 9; ++i) CHECK(y(i, 0) == sequence_at(i));
}
TEST_CASE("means over sequences") {
  constexpr auto y = sequence_mean(x{});
  TestProgram<roots<type_of<decltype(y)>>> p(ragged_options(), at<tokens>(9));
  auto const found = p.forward();
  REQUIRE(found.rows == 4);
  for (Index b = 0; b < 4; ++b) {
    Index const first = offsets[static_cast<std::size_t>(b)], last = offsets[static_cast<std::size_t>(b) + 1];
    for (Index j = 0; j < 3; ++j) {
      double sum = 0;
      for (Index i = first; i < last; ++i) sum += p.in(x{})(i, j) / static_cast<double>(last - first);
      CHECK(close(found(b, j), sum));
    }
  }
  check_ragged(sequence_mean(x{}));
  check_ragged(of_sequence<tokens>(sequence_mean(x{})) * x{});
}
TEST_CASE("means over windows") {
  auto const check_window = []<class Window>(Window, Index length) {
    constexpr auto y = window_mean<Window>(x{});
    TestProgram<roots<type_of<decltype(y)>>> p(ragged_options(), at<tokens>(9));
    auto const found = p.forward();
    for (Index i = 0; i < 9; ++i) {
      Index const begin = (std::max)(Index{offsets[static_cast<std::size_t>(sequence_at(i))]}, i - length + 1);
      for (Index j = 0; j < 3; ++j) {
        double sum = 0;
        for (Index k = begin; k <= i; ++k) sum += p.in(x{})(k, j) / static_cast<double>(i - begin + 1);
        CHECK(close(found(i, j), sum));
      }
    }
    check_ragged(window_mean<Window>(x{}));
  };
  check_window(size<1>{}, 1);
  check_window(size<3>{}, 3);
  check_window(all_before{}, 100);
}
TEST_CASE("means over windows of padded sequences") {
  // Two sequences of six positions, with valid ones in both, one of which is alone in its window.
  struct valid_rows : selection<tokens, size<1>, padded_tokens> {};
  constexpr Index window = 3, length = 6;
  std::array<Int, 7> const real{0, 1, 3, 4, 7, 8, 11};
  std::array<Int, 3> const begins{0, 4, 7};
  gradcheck_options options;
  options.token_sequences = ragged(begins.data(), 2);
  constexpr auto y = window_mean<size<window>>(x{}, valid_rows{});
  TestProgram<roots<type_of<decltype(y)>>> p(options, at<tokens>(7), at<padded_tokens>(2 * length));
  std::copy(real.begin(), real.end(), p.values(valid_rows{}).begin());
  auto const found = p.forward();
  for (Index i = 0; i < 7; ++i) {
    auto const at_row = [&](Index r) { return Index{real[static_cast<std::size_t>(r)]}; };
    for (Index j = 0; j < 3; ++j) {
      double sum = 0, rows = 0;
      for (Index k = 0; k <= i; ++k) {
        if (at_row(i) - at_row(k) >= window || at_row(i) / length != at_row(k) / length) continue;
        sum += p.in(x{})(k, j);
        rows += 1;
      }
      CAPTURE(i);
      CHECK(close(found(i, j), sum / rows));
    }
  }
  auto const r = p.check_gradients(options);
  CAPTURE(r.text);
  CHECK(r.ok());
}
TEST_CASE("rows of a table of choices") {
  constexpr auto y = gather_choices(table{}, pick{});
  TestProgram<roots<type_of<decltype(one_hot(y))>, type_of<decltype(y)>>> p(at<tokens>(5));
  p.values(pick{})[2] = -1;
  p.forward();
  auto const found = p.program.get(y);
  for (Index i = 0; i < 5; ++i) {
    for (Index j = 0; j < 2; ++j) {
      CHECK(found(i, j) == (p.in(pick{})(i, 0) < 0 ? -1 : p.in(table{})(p.in(pick{})(i, 0), j)));
    }
  }
}

}  // namespace sequence_test

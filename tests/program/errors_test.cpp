// SPDX-License-Identifier: MIT
// Mistakes that only the running program can detect: each error names the thing and both numbers.

#include <array>

#include "../test_program.hpp"
#include "headmix/expr/attention.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/linear.hpp"

namespace errors_test {

using namespace headmix;
using namespace headmix::test;
using doctest::Contains;

namespace {

struct D : size<4> {};
struct N : size<dynamic> {};
struct E : size<dynamic> {};
struct K : size<dynamic> {};
struct x : input<tokens, D> {};
struct z : input<tokens, D> {};
struct W : param<D, D> {};
struct xn : input<tokens, N> {};
struct Wn : param<N, D> {};
struct scores : input<tokens, E> {};
struct word : selection<tokens, size<1>, size<5>> {};
struct table : param<size<5>, D> {};
struct far_away : input<context_tokens, D> {};

std::array<double, 4096> memory{};
view<double> some(Index r, Index c) { return {memory.data(), r, c}; }

template <class... Y>
struct Fixture {
  Reference<double> backend;
  Program<roots<std::remove_cv_t<Y>...>, Reference<double>> program{backend};
  AlignedBuffer workspace{1 << 16};
};

#define CHECK_MESSAGE_OF(expression, text) CHECK_THROWS_WITH_AS(static_cast<void>(expression), Contains(text), Error)

}  // namespace

TEST_CASE("error: a leaf that is not bound") {
  Fixture<decltype(x{} % W{})> f;
  f.program.bind(x{}, some(3, 4));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "headmix: W is not bound");
  CHECK_MESSAGE_OF(f.program.forward(), "W is not bound");
}
TEST_CASE("error: a leaf of a wrong extent is named, with both numbers") {
  Fixture<decltype(x{} % W{})> f;
  f.program.bind(x{}, some(3, 5));
  f.program.bind(W{}, some(4, 4));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "x has 5 columns, expected 4");
  f.program.bind(x{}, some(3, 4));
  f.program.bind(W{}, some(6, 4));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "W has 6 rows, expected 4");
  f.program.bind(W{}, {memory.data(), 2, 4, 4});
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "W has 2 matrices, expected 1");
}
TEST_CASE("error: two leaves that disagree about a size are both named") {
  Fixture<decltype(xn{} % Wn{})> f;
  f.program.bind(xn{}, some(3, 7));
  f.program.bind(Wn{}, some(8, 4));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "Wn has 8 rows, expected 7 (N, as xn has it)");
}
TEST_CASE("error: two leaves that disagree about the number of tokens are both named") {
  Fixture<decltype(x{} + z{})> f;
  f.program.bind(x{}, some(3, 4));
  f.program.bind(z{}, some(2, 4));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "z has 2 rows, expected 3 (tokens, as x has it)");
}
TEST_CASE("error: sequences of other rows than the leaf has") {
  Fixture<decltype(x{} + z{})> f;
  f.program.bind(x{}, some(3, 4));
  f.program.bind(z{}, some(3, 4));
  f.program.bind_tokens(uniform(2, 2));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "x has 3 rows, expected 4 (tokens, as the sequences has it)");
}
TEST_CASE("error: dynamic sizes of different names that disagree") {
  struct P : size<dynamic> {};
  struct V : param<P, D> {};
  Fixture<decltype(xn{} % V{})> f;
  f.program.bind(xn{}, some(3, 7));
  f.program.bind(V{}, some(8, 4));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "rows of V = 8 must equal columns of xn = 7");
}
TEST_CASE("error: more choices than columns") {
  Fixture<decltype(gather_cols(scores{}, arg_top_k<K>(scores{})))> f;
  f.program.bind(scores{}, some(3, 4));
  f.program.set(K{}, 5);
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "top_k(scores): size K = 5 must be at most columns of scores = 4");
  f.program.set(K{}, 4);
  CHECK_NOTHROW(static_cast<void>(f.program.workspace_bytes()));
}
TEST_CASE("error: a dynamic size that nothing tells") {
  Fixture<decltype(gather_cols(scores{}, arg_top_k<K>(scores{})))> f;
  f.program.bind(scores{}, some(3, 4));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "size K is not known: no bound leaf has it; call set(K{}, n) first");
  CHECK_MESSAGE_OF(f.program.set(K{}, -3), "size K must not be negative; found -3");
}
TEST_CASE("error: an extent that is no multiple") {
  struct P : size<dynamic> {};
  Fixture<decltype(split_rows<P>(xn{}))> f;
  f.program.bind(xn{}, some(3, 7));
  f.program.set(P{}, 2);
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "columns of xn = 7 must be a multiple of size P = 2");
}
TEST_CASE("error: a workspace that is too small, with both numbers") {
  Fixture<decltype(x{} % W{})> f;
  f.program.bind(x{}, some(3, 4));
  f.program.bind(W{}, some(4, 4));
  auto const bytes = f.program.workspace_bytes();
  CHECK_MESSAGE_OF(f.program.forward(), "the workspace has 0 bytes, the program needs");
  f.program.bind_workspace(f.workspace.bytes().subspan(0, bytes - 1));
  CHECK_THROWS_WITH_AS(f.program.forward(),
                       message("headmix: the workspace has ", bytes - 1, " bytes, the program needs ", bytes).c_str(),
                       Error);
  f.program.bind_workspace(f.workspace.bytes().subspan(0, bytes));
  CHECK_NOTHROW(f.program.forward());
}
TEST_CASE("error: a workspace that is not aligned") {
  Fixture<decltype(x{} % W{})> f;
  CHECK_MESSAGE_OF(f.program.bind_workspace(f.workspace.bytes().subspan(8)),
                   "the workspace must be aligned to 64 bytes");
}
TEST_CASE("error: backward before forward") {
  Fixture<decltype(x{} % W{})> f;
  f.program.bind(x{}, some(3, 4));
  f.program.bind(W{}, some(4, 4));
  f.program.bind_workspace(f.workspace.bytes());
  CHECK_MESSAGE_OF(f.program.backward(some(3, 4)), "backward() needs a forward()");
  f.program.forward();
  CHECK_NOTHROW(f.program.backward(some(3, 4)));
  f.program.bind(x{}, some(2, 4));
  CHECK_MESSAGE_OF(f.program.backward(some(2, 4)), "backward() needs a forward()");
}
TEST_CASE("error: backward in another workspace than forward ran in") {
  Fixture<decltype(tanh(x{} % W{}))> f;
  f.program.bind(x{}, some(3, 4));
  f.program.bind(W{}, some(4, 4));
  f.program.bind_workspace(f.workspace.bytes());
  f.program.forward();
  AlignedBuffer other(1 << 12);
  f.program.bind_workspace(other.bytes());
  CHECK_MESSAGE_OF(f.program.backward(some(3, 4)), "backward() needs a forward()");
}
TEST_CASE("error: dy of other extents than the result") {
  Fixture<decltype(x{} % W{})> f;
  f.program.bind(x{}, some(3, 4));
  f.program.bind(W{}, some(4, 4));
  f.program.bind_workspace(f.workspace.bytes());
  f.program.forward();
  CHECK_MESSAGE_OF(f.program.backward(some(3, 5)), "dy has extents [3, 5], the result has [3, 4]");
}
TEST_CASE("error: a wrong number of loss weights") {
  Fixture<decltype(x{} % W{}), decltype(mean(x{}))> f;
  f.program.bind(x{}, some(3, 4));
  f.program.bind(W{}, some(4, 4));
  f.program.bind_workspace(f.workspace.bytes());
  f.program.forward();
  CHECK_MESSAGE_OF(f.program.backward(some(3, 4), {1, 2}), "backward() got 2 loss weights, the program has 1 losses");
  CHECK_NOTHROW(f.program.backward(some(3, 4), {1}));
  CHECK_NOTHROW(f.program.backward(some(3, 4)));  // without weights, losses have no gradient
  std::vector<view<double const>> weights{some(1, 1), some(1, 1)};
  auto const backward = [&] { f.program.backward(some(3, 4), std::span<view<double const> const>(weights)); };
  CHECK_MESSAGE_OF(backward(), "backward(): expected 1 weights of losses, found 2");
  weights = {some(1, 2)};
  CHECK_MESSAGE_OF(backward(), "backward(): expected a weight [1, 1], found [1, 2]");
  weights = {some(1, 1)};
  CHECK_NOTHROW(backward());
}
TEST_CASE("error: a choice outside of what there is to choose from") {
  Fixture<decltype(gather_rows(table{}, word{}))> f;
  std::array<Int, 3> chosen{0, 5, 1};
  f.program.bind(table{}, some(5, 4));
  f.program.bind(word{}, view<Int const>(chosen.data(), 3, 1));
  f.program.bind_workspace(f.workspace.bytes());
  CHECK_MESSAGE_OF(f.program.forward(), "word holds 5 at (1, 0), expected -1 or 0 .. 4");
  chosen[1] = -2;
  CHECK_MESSAGE_OF(f.program.forward(), "word holds -2 at (1, 0)");
  chosen[1] = -1;
  CHECK_NOTHROW(f.program.forward());
}
TEST_CASE("error: offsets that fall, or do not begin with zero") {
  Fixture<decltype(x{} % W{})> f;
  std::array<Int, 4> const falling{0, 5, 3, 7}, late{1, 2, 3, 4};
  CHECK_MESSAGE_OF(f.program.bind_tokens(ragged(falling.data(), 3)),
                   "tokens: offsets must never fall; offset 2 is 3 after 5");
  CHECK_MESSAGE_OF(f.program.bind_tokens(ragged(late.data(), 3)), "offsets must begin with 0");
  CHECK_MESSAGE_OF(f.program.bind_context(ragged(falling.data(), 3)), "context_tokens: offsets");
}
TEST_CASE("error: rows that do not divide into the sequences, or no sequence at all") {
  Fixture<decltype(x{} % W{})> f;
  CHECK_MESSAGE_OF(f.program.bind_tokens({nullptr, 2, 7}), "tokens: 7 rows do not divide evenly into 2 sequences");
  CHECK_MESSAGE_OF(f.program.bind_tokens({nullptr, 0, 7}), "tokens: there must be at least one sequence, found 0");
}
TEST_CASE("error: a gradient of other extents than its value") {
  Fixture<decltype(x{} % W{})> f;
  CHECK_MESSAGE_OF(f.program.bind(W{}, some(4, 4), some(4, 3)),
                   "the gradient of W has extents [4, 3], its value has [4, 4]");
}
TEST_CASE("error: a leaf that is split, with gaps between its rows") {
  Fixture<decltype(split_rows<size<2>>(x{}))> f;
  auto v = some(3, 4);
  v.row_stride = 6;
  f.program.bind(x{}, v);
  CHECK_MESSAGE_OF(
      f.program.workspace_bytes(),
      "x is split or merged, so its rows must follow each other; [3, 4] has the strides [6, 1], expected [4, 1]");
}
TEST_CASE("error: a leaf that is split is bound again, with gaps this time") {
  Fixture<decltype(tanh(split_rows<size<2>>(x{})))> f;
  f.program.bind(x{}, some(3, 4));
  f.program.bind_workspace(f.workspace.bytes());
  f.program.forward();
  auto v = some(3, 4);
  v.row_stride = 6;
  f.program.bind(x{}, v);
  CHECK_MESSAGE_OF(f.program.forward(), "x is split or merged, so its rows must follow each other");
}
TEST_CASE("error: memory has other sequences than tokens") {
  Fixture<decltype(attention<full>(x{}, far_away{}, far_away{}))> f;
  f.program.bind(x{}, some(6, 4));
  f.program.bind(far_away{}, some(8, 4));
  f.program.bind_tokens(uniform(3, 2));
  f.program.bind_context(uniform(2, 4));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "context_tokens has 2 sequences, tokens has 3");
}
TEST_CASE("error: several sequences of tokens, and memory that was not divided at all") {
  Fixture<decltype(attention<full>(x{}, far_away{}, far_away{}))> f;
  f.program.bind(x{}, some(6, 4));
  f.program.bind(far_away{}, some(8, 4));
  f.program.bind_tokens(uniform(3, 2));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "context_tokens has 1 sequences, tokens has 3");
}
TEST_CASE("error: heads that do not fit") {
  struct k : input<tokens, N> {};
  Fixture<decltype(attention<full>(x{}, k{}, k{}))> f;
  f.program.bind(x{}, some(6, 4));
  f.program.bind(k{}, some(6, 3));
  CHECK_MESSAGE_OF(f.program.workspace_bytes(), "columns of x = 4 must be a multiple of columns of k = 3");
}

}  // namespace errors_test

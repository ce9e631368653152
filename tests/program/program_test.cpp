// SPDX-License-Identifier: MIT
// Programs: results, numbers of calls, and memory.

#include "headmix/program/program.hpp"

#include <cstdio>
#include <vector>

#include "../test_program.hpp"
#include "headmix/expr/attention.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/softmax.hpp"

namespace program_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct D : size<4> {};
struct x : input<tokens, D> {};
struct z : input<tokens, D> {};
struct W : param<D, D> {};
struct V : param<D, D> {};

template <class Y, class Mode = inference>
using tape_of = Program<roots<std::remove_cv_t<Y>>, Reference<double>, Mode>;

template <class Y, class Mode>
std::size_t workspace_of(Index rows) {
  return TestProgram<roots<std::remove_cv_t<Y>>, Mode>(at<tokens>(rows)).program.workspace_bytes();
}

/// A chain of Depth products.
template <int Depth>
constexpr auto chain() {
  if constexpr (Depth == 0) {
    return x{};
  } else {
    return tanh(chain<Depth - 1>()) % W{};
  }
}

template <int Level>
struct own : param<D, D> {};
/// The chain with a different weight for every product.
template <int Depth>
constexpr auto own_chain() {
  if constexpr (Depth == 0) {
    return x{};
  } else {
    return tanh(own_chain<Depth - 1>()) % own<Depth>{};
  }
}

/// a + b, which may overwrite a.
template <int InPlace>
struct sum_of_both : operation {
  static constexpr int in_place = InPlace;
  static constexpr bool differentiable = false;
  template <class A, class B>
  using shape_of = shape<rows<A>, cols<A>>;
  static void eval(auto const&, view<double> y, view<double const> a, view<double const> b) {
    for (Index i = 0; i < y.rows; ++i) {
      for (Index j = 0; j < y.cols; ++j) y(i, j) = a(i, j) + b(i, j);
    }
  }
};

void same(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(close(a[i], b[i]));
}

}  // namespace

TEST_CASE("program: a value that is used several times is computed once") {
  constexpr auto h = x{} % W{};
  constexpr auto y = h % V{} + h * h;
  CHECK(tape_of<decltype(y)>::forward_steps::size == 3);
  check_gradient(y);
}
TEST_CASE("program: the same expression written twice is the same value") {
  CHECK(tape_of<decltype((x{} % W{}) * softmax(x{} % W{}))>::forward_steps::size == 3);
  CHECK(tape_of<decltype((x{} % W{}) * softmax(x{} % V{}))>::forward_steps::size == 4);
}
TEST_CASE("program: a chain of pointwise operations is one step") {
  CHECK(tape_of<decltype(exp(tanh(x{} * z{}) + x{}) / sigmoid(z{}) - number<1, 2>{})>::forward_steps::size == 1);
}
TEST_CASE("program: sums and products take what is pointwise without a buffer where they can") {
  CHECK(tape_of<decltype(row_sum(exp(x{}) * z{}))>::forward_steps::size == 1);
  CHECK(tape_of<decltype(exp(x{} % W{}))>::forward_steps::size == 2);
  CHECK(tape_of<decltype(t(x{}) % z{})>::forward_steps::size == 1);
  CHECK(tape_of<decltype(exp(x{}) % W{})>::forward_steps::size == 2);
}
TEST_CASE("program: a view costs no step and no memory") {
  constexpr auto y = split_rows<size<2>>(x{} % W{});
  CHECK(tape_of<decltype(y)>::forward_steps::size == 1);
  CHECK(workspace_of<decltype(y), inference>(8) == workspace_of<decltype(x{} % W{}), inference>(8));
}

namespace {
struct h : let<decltype(exp(x{}) + z{})> {};
struct g : let<decltype(tanh(h{}) * x{})> {};
struct named_product : let<decltype(x{} % W{})> {};
}  // namespace

TEST_CASE("let: stores a pointwise value once") {
  CHECK(tape_of<decltype(row_sum(h{}) * h{})>::forward_steps::size == 3);
  CHECK(tape_of<decltype(row_sum(exp(x{}) + z{}) * (exp(x{}) + z{}))>::forward_steps::size == 2);
}
TEST_CASE("let: changes neither values nor gradients") {
  check(h{} * h{}, [](auto& p, Index i, Index j) { return std::pow(std::exp(p.in(x{})(i, j)) + p.in(z{})(i, j), 2); });
  check_gradient(g{} * h{} + g{});
  check_gradient(g{});
}
TEST_CASE("let: a name for what has a buffer costs nothing") {
  CHECK(tape_of<decltype(named_product{} * named_product{})>::forward_steps::size == 2);
  check_gradient(named_product{} * x{} % W{});
}

TEST_CASE("program: with two wanted gradients fewer steps run than with all, and with none no backward step") {
  constexpr auto y = tanh(x{} % W{}) % V{};
  using Y = type_of<decltype(y)>;
  using all = Program<roots<Y>, Reference<double>>;
  using some = Program<roots<Y>, Reference<double>, gradients_by<V>>;
  using no = Program<roots<Y>, Reference<double>, inference>;
  CHECK(some::steps::size < all::steps::size);
  CHECK(some::steps::size == no::steps::size + 1);
  CHECK(no::steps::size == no::forward_steps::size);
}
TEST_CASE("program: wanted gradients are the same as with all, the others are left alone") {
  constexpr auto y = tanh(x{} % W{}) % V{};
  using Y = type_of<decltype(y)>;
  TestProgram<roots<Y>> all(at<tokens>(5));
  TestProgram<roots<Y>, gradients_by<W>> some(at<tokens>(5));
  some.gradients(x{}).assign(20, 7.0);
  some.gradients(V{}).assign(16, 8.0);
  all.forward();
  some.forward();
  all.backward();
  some.backward();
  CHECK(all.gradients(W{}) == some.gradients(W{}));
  CHECK(some.gradients(x{}) == std::vector<double>(20, 7.0));
  CHECK(some.gradients(V{}) == std::vector<double>(16, 8.0));
}
TEST_CASE("program: a gradient without memory is left out, the others are right") {
  constexpr auto y = tanh(x{} % W{}) % V{};
  TestProgram<roots<type_of<decltype(y)>>> all(at<tokens>(5)), some(at<tokens>(5));
  some.program.bind(V{}, some.in(V{}));
  all.forward();
  some.forward();
  all.backward();
  some.backward();
  CHECK(all.gradients(W{}) == some.gradients(W{}));
  CHECK(all.gradients(x{}) == some.gradients(x{}));
  CHECK(some.gradients(V{}) == std::vector<double>(16, 0.0));
}
TEST_CASE("program: inference needs less memory than training, and gives the same values") {
  using Y = type_of<decltype(chain<4>())>;
  CHECK(workspace_of<Y, inference>(100) < workspace_of<Y, training>(100));
  TestProgram<roots<Y>> a(at<tokens>(9));
  TestProgram<roots<Y>, inference> b(at<tokens>(9));
  auto const y = a.forward(), again = b.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == again.data[i]);
}
TEST_CASE("program: in inference the memory of a chain does not grow with its depth") {
  CHECK(workspace_of<decltype(chain<4>()), inference>(100) == workspace_of<decltype(chain<8>()), inference>(100));
  CHECK(workspace_of<decltype(chain<4>()), inference>(100) <= 3 * aligned(100 * 4 * sizeof(double)));
}
TEST_CASE("program: memory is used again inside the backward pass") {
  // Forward values are kept; the memory that the backward pass adds does not depend on the depth of the chain.
  auto const extra = [](std::size_t all, int depth) {
    return all - static_cast<std::size_t>(2 * depth) * aligned(100 * 4 * sizeof(double));
  };
  CHECK(extra(workspace_of<decltype(own_chain<8>()), training>(100), 8) <=
        extra(workspace_of<decltype(own_chain<4>()), training>(100), 4));
}
TEST_CASE("program: a second backward pass doubles the gradients") {
  TestProgram<roots<type_of<decltype(chain<3>())>>> p(at<tokens>(6));
  p.forward();
  p.backward();
  auto const once = p.gradients(W{});
  p.backward();
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(close(p.gradients(W{})[i], 2 * once[i], 1e-14));
}
TEST_CASE("program: gradients are added to what is there") {
  TestProgram<roots<type_of<decltype(x{} % W{})>>> p(at<tokens>(6)), q(at<tokens>(6));
  p.gradients(W{}).assign(16, 3.0);
  p.forward();
  q.forward();
  p.backward();
  q.backward();
  for (std::size_t i = 0; i < 16; ++i) CHECK(close(p.gradients(W{})[i], 3 + q.gradients(W{})[i]));
}
TEST_CASE("program: from zeroed gradients the same bits again") {
  TestProgram<roots<type_of<decltype(softmax(chain<2>()))>>> p(at<tokens>(6));
  p.forward();
  p.backward();
  auto const once = p.gradients(W{});
  p.zero_gradients();
  p.forward();
  p.backward();
  CHECK(p.gradients(W{}) == once);
}
TEST_CASE("program: several roots add up, losses by their weights") {
  using Y = type_of<decltype(x{} % W{})>;
  using L1 = type_of<decltype(mean(square(x{} % W{})))>;
  using L2 = type_of<decltype(mean(exp(x{})))>;
  TestProgram<roots<Y, L1, L2>> p(at<tokens>(4));
  TestProgram<roots<Y>> y(at<tokens>(4));
  TestProgram<roots<L1>> l1(at<tokens>(4));
  TestProgram<roots<L2>> l2(at<tokens>(4));
  p.forward();
  y.forward();
  l1.forward();
  l2.forward();
  l1.values(W{}) = p.values(W{});
  p.backward({0.5, -2});
  y.backward();
  l1.dy_values[0] = 0.5;
  l2.dy_values[0] = -2;
  l1.backward();
  l2.backward();
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(close(p.gradients(W{})[i], y.gradients(W{})[i] + l1.gradients(W{})[i]));
    CHECK(close(p.gradients(x{})[i], y.gradients(x{})[i] + l1.gradients(x{})[i] + l2.gradients(x{})[i]));
  }
}
TEST_CASE("program: memory of the caller may have gaps between its rows") {
  using Y = type_of<decltype(tanh(x{} % W{}) * x{})>;
  TestProgram<roots<Y>> plain(at<tokens>(5));
  TestProgram<roots<Y>> p(at<tokens>(5));
  std::vector<double> value(5 * 9, 100.0), gradient(5 * 9, 0.0);
  view<double> v(value.data(), 5, 4), g(gradient.data(), 5, 4);
  v.row_stride = g.row_stride = 9;
  for (Index i = 0; i < 5; ++i) {
    for (Index j = 0; j < 4; ++j) v(i, j) = plain.in(x{})(i, j);
  }
  p.program.bind(x{}, v, g);
  auto const y = plain.forward(), found = p.forward();
  plain.backward();
  p.backward();
  for (Index i = 0; i < 5; ++i) {
    for (Index j = 0; j < 9; ++j) {
      if (j < 4) {
        CHECK(found(i, j) == y(i, j));
        CHECK(g(i, j) == plain.gradient(x{})(i, j));
      } else {
        CHECK(gradient[static_cast<std::size_t>(i * 9 + j)] == 0);
      }
    }
  }
}
TEST_CASE("program: memory of the caller may be transposed, value and gradient apart") {
  using Z = type_of<decltype(softmax(x{} % W{}) * col_sum(exp(W{})))>;
  TestProgram<roots<Z>> plain(at<tokens>(5));
  TestProgram<roots<Z>> p(at<tokens>(5));
  std::vector<double> value(16), gradient(16);
  view<double> const v = view<double>(value.data(), 4, 4).transposed();
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 4; ++j) v(i, j) = plain.in(W{})(i, j);
  }
  p.program.bind(W{}, v, view<double>(gradient.data(), 4, 4).transposed());
  auto const y = plain.forward(), found = p.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(found.data[i] == y.data[i]);
  plain.backward();
  p.backward();
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 4; ++j) CHECK(gradient[static_cast<std::size_t>(j * 4 + i)] == plain.gradient(W{})(i, j));
  }
}
TEST_CASE("program: dy may have gaps between its rows, also where the result is a view") {
  struct two : input<tokens, D> {};
  using Y = type_of<decltype(merge_rows<size<2>>(tanh(two{})))>;
  TestProgram<roots<Y>> plain(at<tokens>(6)), p(at<tokens>(6));
  plain.forward();
  p.forward();
  std::vector<double> gaps(3 * 11, 50.0);
  view<double> dy(gaps.data(), 3, 8);
  dy.row_stride = 11;
  for (Index i = 0; i < 3; ++i) {
    for (Index j = 0; j < 8; ++j) dy(i, j) = plain.dy(i, j);
  }
  p.dy = dy;
  plain.backward();
  p.backward();
  same(p.gradients(two{}), plain.gradients(two{}));
}
TEST_CASE("program: static and dynamic sizes give equal results") {
  struct N : size<dynamic> {};
  struct H : size<dynamic> {};
  struct xd : input<tokens, N> {};
  struct Wd : param<N, H> {};
  struct Hs : size<3> {};
  struct Ws : param<D, Hs> {};
  TestProgram<roots<type_of<decltype(row_mean(tanh(x{} % Ws{})))>>> fixed(at<tokens>(5));
  TestProgram<roots<type_of<decltype(row_mean(tanh(xd{} % Wd{})))>>> free(at<tokens>(5), at<N>(4), at<H>(3));
  auto const a = fixed.forward(), b = free.forward();
  for (Index i = 0; i < 5; ++i) CHECK(a(i, 0) == b(i, 0));
  fixed.backward();
  free.backward();
  CHECK(fixed.gradients(Ws{}) == free.gradients(Wd{}));
  CHECK(fixed.gradients(x{}) == free.gradients(xd{}));
}
TEST_CASE("program: dynamic sizes are found from the leaves that are bound") {
  struct N : size<dynamic> {};
  struct xd : input<tokens, N> {};
  Reference<double> backend;
  Program<roots<type_of<decltype(row_sum(xd{}))>>, Reference<double>> program(backend);
  std::vector<double> v(12, 1.0);
  program.bind(xd{}, view<double const>(v.data(), 4, 3));
  AlignedBuffer workspace(program.workspace_bytes());
  program.bind_workspace(workspace.bytes());
  auto const y = program.forward();
  CHECK(y.rows == 4);
  CHECK(y(3, 0) == 3);
  CHECK(program.extent<N>() == 3);
  CHECK(program.extent<times<N, tokens>>() == 12);
  CHECK(program.extent<over<times<N, tokens>, N>>() == 4);
  CHECK(program.extent<plus_one<N>>() == 4);
}
TEST_CASE("program: new memory of the same extents needs no new plan, other extents are planned anew") {
  TestProgram<roots<type_of<decltype(tanh(x{} % W{}))>>> p(at<tokens>(5));
  auto const first = p.forward();
  double const y00 = first(0, 0);
  std::vector<double> more(40, 0.25), gradient(40);
  p.program.bind(x{}, view<double const>(more.data(), 10, 4), view<double>(gradient.data(), 10, 4));
  CHECK_THROWS_WITH_AS(static_cast<void>(p.program.workspace_bytes()), doctest::Contains("x has 10 rows, expected 5"),
                       Error);
  p.program.set(tokens{}, 10);
  auto const y = p.forward();
  CHECK(y.rows == 10);
  double sum = 0;
  for (Index k = 0; k < 4; ++k) sum += 0.25 * p.in(W{})(k, 0);
  CHECK(close(y(9, 0), std::tanh(sum)));
  CHECK(y(0, 0) != y00);
}
TEST_CASE("program: float runs the same program") {
  using Y = type_of<decltype(softmax(chain<2>()))>;
  TestProgram<roots<Y>> d(at<tokens>(5));
  TestProgram<roots<Y>, training, float> f(at<tokens>(5));
  auto const y = d.forward();
  auto const s = f.forward();
  d.backward();
  f.backward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(s.data[i], y.data[i], 1e-6));
  for (std::size_t i = 0; i < 16; ++i) CHECK(close(f.gradients(W{})[i], d.gradients(W{})[i], 1e-5));
}
TEST_CASE("program: a leaf and a view of it may be results") {
  TestProgram<roots<x>> p(at<tokens>(3));
  auto const y = p.forward();
  CHECK(y.data == p.in(x{}).data);
  p.backward();
  for (Index i = 0; i < 12; ++i) CHECK(p.gradients(x{})[static_cast<std::size_t>(i)] == p.dy.data[i]);
}

namespace {
struct wide_head : size<64> {};
struct q64 : input<tokens, wide_head> {};
struct k64 : input<tokens, wide_head> {};
struct v64 : input<tokens, wide_head> {};

template <class Mode, class Mask>
std::size_t attention_workspace(Index rows) {
  Reference<float> backend;
  using Y = type_of<decltype(attention<Mask>(q64{}, k64{}, v64{}))>;
  Program<roots<Y>, Reference<float>, Mode> program(backend);
  view<float const> const nothing(nullptr, rows, 64);
  program.bind(q64{}, nothing);
  program.bind(k64{}, nothing);
  program.bind(v64{}, nothing);
  return program.workspace_bytes();
}
}  // namespace

TEST_CASE("program: attention over 8192 tokens needs no memory that grows with their square, in inference") {
  std::size_t const half = attention_workspace<inference, full>(4096), all = attention_workspace<inference, full>(8192);
  CHECK(all == 2 * half);
  CHECK(all <= 8192 * (64 + 1) * sizeof(float) + alignment);
  CHECK(all < std::size_t{8192} * 8192 * sizeof(float) / 50);
}
TEST_CASE("program: attention over 8192 tokens needs no memory that grows with their square, in training") {
  std::size_t const half = attention_workspace<training, causal>(4096),
                    all = attention_workspace<training, causal>(8192);
  CHECK(all == 2 * half);
  CHECK(all < std::size_t{8192} * 8192 * sizeof(float) / 25);
}

TEST_CASE("program: an output lies where an operand did that nobody reads any more") {
  constexpr Index rows = 16, bytes = rows * 4 * Index{sizeof(double)};
  auto const made = []<class Y>(Y) {
    TestProgram<roots<Y>, inference> p(at<tokens>(rows));
    auto const y = p.forward();
    return std::pair(std::vector<double>(y.data, y.data + y.size()), p.program.workspace_bytes());
  };
  // A sum may overwrite a product.
  auto const apart = made(make<sum_of_both<0>>(x{} % W{}, x{})), together = made(make<sum_of_both<1>>(x{} % W{}, x{}));
  CHECK(together.first == apart.first);
  CHECK(apart.second == together.second + bytes);
  // A leaf, and a product that is read later, are not overwritten.
  CHECK(made(make<sum_of_both<1>>(x{}, x{} % W{})) == made(make<sum_of_both<0>>(x{}, x{} % W{})));
  auto const again = []<int n>(std::integral_constant<int, n>) {
    return make<sum_of_both<n>>(x{} % W{}, x{}) % V{} + (x{} % W{}) % V{};
  };
  CHECK(made(again(std::integral_constant<int, 1>{})) == made(again(std::integral_constant<int, 0>{})));
  // Neither is a product that is read twice.
  CHECK(made(make<sum_of_both<1>>(x{} % W{}, x{} % W{})) == made(make<sum_of_both<0>>(x{} % W{}, x{} % W{})));
  // Neither is a view of a product.
  CHECK(made(make<sum_of_both<1>>(t(t(x{} % W{})), x{})).first == apart.first);
}

}  // namespace program_test

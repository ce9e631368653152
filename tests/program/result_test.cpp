// SPDX-License-Identifier: MIT
// Results in memory of the caller: the same bits, a smaller workspace, residual connections and inference in place,
// misuse.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../error_of.hpp"
#include "../results.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/softmax.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/program/module.hpp"

namespace result_test {

using namespace headmix;
using namespace headmix::test;
using results::Filled, results::tokens_only;

namespace {

struct D : size<6> {};
struct x : input<tokens, D> {};
struct r : input<tokens, D> {};
struct W : param<D, D> {};
struct V : param<D, D> {};

template <class Layer>
using layer_roots = typename Module<Layer, Reference<double>>::layer_roots;
using Heads = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
using Experts = MhMoe<6, 2, SoftmaxTopK<3, 2>, FeedForward<8>>;
using Merged = MhMoe<6, 2, SoftmaxTopK<3, 2>, FeedForward<8>, no_head, no_merge>;

template <Expr Y, class... L>
using over = roots<Y, L...>;
template <class E>
using of = std::remove_cv_t<E>;
struct block {
  struct x : input<tokens, D> {};
  struct U : param<D, D> {};
  static constexpr auto y = x{} + tanh(x{} % U{});
  using losses = type_list<>;
  using observed = type_list<>;
};
constexpr auto product = x{} % W{};
constexpr auto soft = softmax(x{} % W{});

TEST_CASE("bind_result: the same bits and a smaller workspace") {
  for (Index const n : {0, 1, 7}) {
    CAPTURE(n);
    std::size_t const bytes = static_cast<std::size_t>(n * 6) * sizeof(double);
    CHECK(results::check<layer_roots<Heads>>(Reference<double>{}, n) >= bytes);
    CHECK(results::check<layer_roots<Heads>>(Cpu<float>{}, n) >= bytes / 2);
    CHECK(results::check<roots<of<decltype(soft)>>>(Reference<double>{}, n) >= bytes);
    CHECK(results::check<roots<of<decltype(exp(x{}) * x{})>>, Reference<double>, inference>({}, n) >= bytes);
  }
  results::check<roots<of<decltype(soft)>>>(Cpu<bfloat16>{}, 7);
  results::check<roots<of<decltype(sum(product))>>>(Cpu<bfloat16>{}, 7);  // a float
}
TEST_CASE("bind_result: a merged result has contiguous memory") {
  CHECK(results::check<layer_roots<Merged>>(Cpu<double>{}, 5, false) >= 5 * 6 * sizeof(double));
  Filled<Cpu<double>, layer_roots<Merged>> p(Cpu<double>{}, tokens_only(5));
  double memory[60] = {};
  CHECK(says(error_of([&] { p.program.bind_result(view<double>(memory, 5, 12).middle_cols(0, 6)); }),
             "the result is split, merged or read through a view, so its rows must follow each other; [5, 6] has the "
             "strides [12, 1], expected [6, 1]"));
  using split_loss = roots<of<decltype(product)>, of<decltype(sum(square(row_sum(split_rows<size<2>>(product)))))>>;
  results::check<split_loss>(Cpu<double>{}, 5, false);
  Filled<Cpu<double>, split_loss> q(Cpu<double>{}, tokens_only(5));
  CHECK(says(error_of([&] { q.program.bind_result(view<double>(memory, 5, 12).middle_cols(0, 6)); }),
             "read through a view"));
  p.program.bind_result({memory, 6, 5});
  CHECK(says(error_of([&] { p.forward(); }), "the result is bound to memory of extents [6, 5], expected [5, 6]"));
}
TEST_CASE("bind_result: two programs, of which the second reads what the first one writes") {
  Filled<Cpu<double>, roots<of<decltype(product)>>> first(Cpu<double>{}, tokens_only(3)),
      second(Cpu<double>{}, tokens_only(3)), plain(Cpu<double>{}, tokens_only(3));
  std::vector<double> between(18), after(18);
  first.program.bind_result({between.data(), 3, 6});
  second.program.bind("x", {between.data(), 3, 6});
  second.program.bind_result({after.data(), 3, 6});
  first.forward(), second.forward();
  auto const once = plain.forward();
  std::vector<double> const middle(once.data, once.data + 18);
  CHECK(between == middle);
  plain.program.bind("x", {middle.data(), 3, 6});
  auto const twice = plain.forward();
  CHECK(after == std::vector<double>(twice.data, twice.data + 18));
}
TEST_CASE("bind_result: of a network of repeated blocks") {
  static constexpr auto blocks = repeat<3, block, "blocks">(x{});
  CHECK(results::check<roots<of<decltype(blocks.y)>>>(Cpu<double>{}, 5) > 0);
  results::check<roots<of<decltype(blocks.y % W{})>>>(Cpu<double>{}, 5);
}
TEST_CASE("bind_result: other memory for every pass of a module") {
  Module<Heads, Cpu<float>> m(3), plain(3);
  std::vector<float> memory(200), numbers(60);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(Random(1).normal(i));
  for (Index const rows : {4, 9, 4}) {
    for (Index const from : {0, 8}) {
      view<float> const to(memory.data() + from, rows, 6);
      m.program().bind_result(to);
      auto const y = m.forward({numbers.data(), rows, 6}), expected = plain.forward({numbers.data(), rows, 6});
      CHECK(y.data == to.data);
      CHECK(std::vector<float>(y.data, y.data + rows * 6) ==
            std::vector<float>(expected.data, expected.data + rows * 6));
    }
  }
  CHECK(says(error_of([&] {
               m.forward({numbers.data(), 5, 6});
             }),
             "the result is bound to memory of extents [4, 6], expected [5, 6]"));
  m.program().bind_result({});
  m.forward({numbers.data(), 5, 6});
  m.program().bind_result({memory.data(), 5, 6});
  CHECK(says(error_of([&] { m.backward({numbers.data(), 5, 6}); }), "the result was bound to memory of other extents"));
}

TEST_CASE("bind_result, add: a residual connection") {
  for (Index const n : {1, 7}) {
    results::check_sum<layer_roots<Heads>>(Reference<double>{}, n, 1e-12);
    results::check_sum<layer_roots<Heads>>(Cpu<double>{}, n, 1e-12);
    results::check_sum<layer_roots<Experts>>(Cpu<float>{}, n, 1e-5);
    results::check_sum<roots<of<decltype(exp(x{}) * x{})>>>(Cpu<bfloat16>{}, n, 0.05);
    results::check_sum<roots<of<decltype(x{} % W{} + r{} + r{} % V{})>>>(Cpu<double>{}, n, 1e-12);
  }
}
TEST_CASE("bind_result, add: the bits of a program with the sum") {
  using product_ = Filled<Cpu<float>, roots<of<decltype(product)>>>;
  using sum_ = Filled<Cpu<float>, roots<of<decltype(r{} + product)>>>;
  product_ p(Cpu<float>{}, tokens_only(7));
  sum_ q(Cpu<float>{}, tokens_only(7));
  q.program.bind("x", p.value("x")), q.program.bind("W", p.value("W"));
  auto const before = q.read(q.value("r"));
  std::vector<float> memory(before.begin(), before.end());
  p.program.bind_result({memory.data(), 7, 6}, result_write::add);
  auto expected = q.read(q.forward());
  p.forward();
  CHECK(std::vector<double>(memory.begin(), memory.end()) == expected);
  q.program.bind("r", {memory.data(), 7, 6});
  auto const twice = q.read(q.forward());
  p.forward();
  CHECK(std::vector<double>(memory.begin(), memory.end()) == twice);  // every pass adds
  p.program.bind_result({memory.data(), 7, 6});
  p.forward();
  CHECK(std::vector<double>(memory.begin(), memory.end()) != twice);
}
TEST_CASE("bind_result, add: inference in place, x += layer(x)") {
  using filled = Filled<Cpu<double>, layer_roots<Heads>, inference>;
  filled plain(Cpu<double>{}, tokens_only(7)), in_place(Cpu<double>{}, tokens_only(7));
  auto expected = plain.read(plain.forward());
  auto const before = plain.read(plain.value("x"));
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  in_place.program.bind_result(in_place.value("x"), result_write::add);
  in_place.forward();
  auto const found = in_place.read(in_place.value("x"));
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - expected[i]) < 1e-12);
  in_place.program.bind_result(in_place.value("x"));  // x = layer(x)
  in_place.program.bind("x", plain.value("x"));
  in_place.program.bind_result(plain.value("x"));
  auto const y = in_place.forward();
  for (Index i = 0; i < y.rows; ++i) {
    for (Index j = 0; j < y.cols; ++j) {
      auto const at = static_cast<std::size_t>(i * y.cols + j);
      CHECK(std::abs(y(i, j) - (expected[at] - before[at])) < 1e-12);
    }
  }
}
TEST_CASE("bind_result, add: refused where the kernel overwrites or another call reads the result") {
  double memory[18] = {};
  view<double> const to(memory, 3, 6);
  Filled<Cpu<double>, roots<of<decltype(soft)>>> p(Cpu<double>{}, tokens_only(3));
  CHECK(says(error_of([&] { p.program.bind_result(to, result_write::add); }),
             "the result cannot be added to its memory: the kernel that makes it (call 1) only overwrites"));
  Filled<Cpu<double>, roots<of<decltype(product)>, of<decltype(sum(product))>>, inference> l(Cpu<double>{},
                                                                                             tokens_only(3));
  CHECK(says(error_of([&] { l.program.bind_result(to, result_write::add); }), "a later call reads it"));
}

TEST_CASE("bind_result: misuse") {
  using filled = Filled<Cpu<double>, layer_roots<Heads>>;
  filled p(Cpu<double>{}, tokens_only(4));
  std::vector<double> memory(48);
  auto const bound_to = [&](view<double> v) {
    return error_of([&] {
      p.program.bind_result(v);
      p.forward();
    });
  };
  CHECK(says(bound_to({memory.data(), 4, 5}), "the result is bound to memory of extents [4, 5], expected [4, 6]"));
  CHECK(says(bound_to({nullptr, 4, 6}), "the result is bound to a null pointer; its extents are [4, 6]"));
  view<double> flat(memory.data(), 4, 6);
  flat.row_stride = 0;
  CHECK(says(bound_to(flat), "the result must have memory of its own for every element"));
  CHECK(says(bound_to({reinterpret_cast<double*>(reinterpret_cast<char*>(memory.data()) + 4), 4, 6}),
             "the result: expected memory aligned to 8 bytes"));
  CHECK(says(bound_to({p.value("W_q").data, 4, 6}), "the result shares memory with W_q, a parameter"));
  CHECK(says(bound_to({p.gradients[0].data, 4, 6}), "the result shares memory with the gradient of x"));
  CHECK(says(bound_to({p.value("x").data + 1, 3, 6}), "expected [4, 6]"));
  CHECK(says(bound_to(p.value("x")),
             "the result shares memory with x, which the backward pass reads after the result is written"));
  p.program.bind_result({});
  auto const y = p.forward();
  CHECK(says(bound_to({const_cast<double*>(y.data), 4, 6}), "the result lies in the workspace"));
  // A gradient that is bound after the forward pass.
  filled q(Cpu<double>{}, tokens_only(4));
  std::vector<double> many(500);
  q.program.bind_result({many.data(), 4, 6});
  q.forward();
  q.program.bind("W_q", q.value("W_q"), {many.data(), 5, 6, 4});
  CHECK(says(error_of([&] { q.backward(4, 6); }), "the result shares memory with the gradient of W_q"));
  Filled<Cpu<double>, roots<of<decltype(x{} % W{})>>, inference> last(Cpu<double>{}, tokens_only(4));
  last.program.bind_result(last.value("x"));
  CHECK(says(error_of([&] { last.forward(); }), "the result shares memory with x, which a call reads after"));
}

}  // namespace

}  // namespace result_test

// SPDX-License-Identifier: MIT
// Terms of gradients: a product that two gradients have is computed once; other terms of a gradient that a view moves
// are added in place.
#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/pointwise.hpp"
#include "headmix/program/program.hpp"

namespace shared_terms_test {

namespace {

using namespace headmix;

/// The reference, with a count of its products and maps.
struct Counting : Reference<double> {
  int *products = nullptr, *maps = nullptr;

  template <class Y, class A, class B>
  void gemm(view<Y> y, view<A const> a, view<B const> b, bool accumulate) const {
    ++*products;
    Reference<double>::gemm(y, a, b, accumulate);
  }
  template <class Y, class Tree>
  void map(view<Y> y, Tree const& tree, bool accumulate) const {
    ++*maps;
    Reference<double>::map(y, tree, accumulate);
  }
};

struct x : input<tokens, size<4>> {};
struct v : input<times<size<2>, tokens>, size<2>> {};
struct W : param<size<4>, size<4>> {};
struct W_2 : param<size<2>, size<3>> {};
struct W_3 : param<size<2>, size<3>> {};

struct counts {
  int products = 0, maps = 0;
};
/// The products and maps of a backward pass.
template <class Y>
counts of_backward(Y) {
  counts found;
  Counting backend;
  backend.products = &found.products, backend.maps = &found.maps;
  Program<roots<Y>, Counting> program(backend);
  std::vector<std::vector<double>> memory;
  auto const some = [&](Index n) {
    memory.emplace_back(static_cast<std::size_t>(n), 0.5);
    return memory.back().data();
  };
  program.bind(x{}, {some(12), 3, 4}, {some(12), 3, 4});
  program.bind(W{}, {some(16), 4, 4}, {some(16), 4, 4});
  program.bind(W_2{}, {some(6), 2, 3}, {some(6), 2, 3});
  program.bind(W_3{}, {some(6), 2, 3}, {some(6), 2, 3});
  if constexpr (detail::contains<typename Program<roots<Y>, Counting>::leaves, v>) {
    program.bind(v{}, {some(12), 6, 2}, {some(12), 6, 2});
  }
  AlignedBuffer workspace(program.workspace_bytes());
  program.bind_workspace(workspace.bytes());
  program.forward();
  found = {};
  program.backward({some(18), 6, 3});
  return found;
}
constexpr auto s = split_rows<size<2>>(x{} % W{});

}  // namespace

TEST_CASE("terms of a gradient that a view moves are added in place") {
  constexpr auto y = (s % W_2{}) * (s % W_3{});
  counts const found = of_backward(std::remove_cv_t<decltype(y)>{});
  CHECK(found.products == 6);  // by W, x, W_2, W_3, and s twice
  CHECK(found.maps == 2);      // the gradients of the two products
}
TEST_CASE("a term of two gradients is computed once") {
  constexpr auto y = ((s + tanh(v{})) % W_2{}) * (s % W_3{});
  counts const found = of_backward(std::remove_cv_t<decltype(y)>{});
  CHECK(found.products == 6);
}

}  // namespace shared_terms_test

// SPDX-License-Identifier: MIT
// A non-finite token in a whole layer: it reaches the rows that see it, forward and backward, and no others.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace non_finite_test {

using namespace headmix;

namespace {

constexpr Index width = 16;

template <class T>
std::vector<T> normals(Index n, std::uint64_t stream) {
  std::vector<T> v(static_cast<std::size_t>(n * width));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(Random(stream).normal(i));
  return v;
}
template <class T>
std::vector<T> copy_of(view<T const> v) {
  return {v.data, v.data + v.size()};
}

/// y and dx of a layer of n tokens, of which token `odd` has this number.
template <class L, class Backend>
struct pass {
  using T = typename Backend::scalar;
  Module<L, Backend> m{1};
  std::vector<T> y, dx;

  pass(Index n, Index odd, T number) {
    std::vector<T> x = normals<T>(n, 1);
    std::vector<T> const dy = normals<T>(n, 2);
    x[static_cast<std::size_t>(odd * width + 3)] = number;
    y = copy_of<T>(m.forward(view<T const>(x.data(), n, width)));
    m.backward(view<T const>(dy.data(), n, width));
    dx = copy_of<T>(m.input_gradient());
  }
};
/// Rows [first, last) of a are not finite, all others as in b.
template <class T>
void check_rows(std::vector<T> const& a, std::vector<T> const& b, Index first, Index last) {
  Index leaks = 0, hidden = 0;
  for (Index i = 0; i < static_cast<Index>(a.size()) / width; ++i) {
    bool finite = true, same = true;
    for (Index j = 0; j < width; ++j) {
      auto const at = static_cast<std::size_t>(i * width + j);
      finite = finite && std::isfinite(a[at]);
      same = same && std::abs(a[at] - b[at]) <= T(1e-5) * (1 + std::abs(b[at]));
    }
    leaks += (i < first || i >= last) && !same;
    hidden += i >= first && i < last && finite;
  }
  CHECK(leaks == 0);
  CHECK(hidden == 0);
}

template <class Backend>
void check_window() {
  using T = typename Backend::scalar;
  using Layer = MultiHead<width, 2, 8, sliding_window<5>>;
  constexpr Index n = 300, odd = 123;
  pass<Layer, Backend> const finite(n, odd, T(1));
  for (T const number : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
    pass<Layer, Backend> const p(n, odd, number);
    check_rows(p.y, finite.y, odd, odd + 5);
    // Including keys and values that those rows see.
    check_rows(p.dx, finite.dx, odd - 4, odd + 5);
  }
}

}  // namespace

TEST_CASE("multi-head: a token that is not finite, and a window") {
  check_window<Reference<double>>();
  check_window<Cpu<float>>();
  check_window<Cpu<double>>();
}
TEST_CASE("moa: a token that is not finite, and a causal mask") {
  using Layer = Moa<width, 8, SoftmaxTopK<4, 2>, causal>;
  constexpr Index n = 90, odd = 77;
  pass<Layer, Cpu<float>> const finite(n, odd, 1.f);
  pass<Layer, Cpu<float>> p(n, odd, std::numeric_limits<float>::quiet_NaN());
  check_rows(p.y, finite.y, odd, n);
  view<Int const> const chosen = p.m.observed();
  CHECK(chosen(odd, 0) == 0);
  CHECK(chosen(odd, 1) == 1);
}

}  // namespace non_finite_test

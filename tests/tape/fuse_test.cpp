// SPDX-License-Identifier: MIT
// Kernels that do several steps at once: they are used where a backend has them and the steps follow each other, and
// nothing else changes.

#include "headmix/tape/fuse.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/tape/module.hpp"

namespace {

using namespace headmix;

/// The reference with a fused router, which is counted.
struct Fusing : Reference<double> {
  int* routed = nullptr;
  void route(view<double> z, view<double> p, view<Int> index, view<double const> x, view<double const> w) const {
    ++*routed;
    gemm(z, x, w, false);
    softmax(p, view<double const>(z));
    top_k(index, view<double const>(p));
  }
};

/// The result and the gradient by the input of a layer.
template <class L, class Backend>
std::vector<double> run(Backend backend) {
  Module<L, Backend> m(1, backend);
  m.set_randomness(randomness(3));
  std::vector<double> x(7 * 6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(3).uniform(i) - 0.5;
  auto const& w = m.template get<typename L::r::W_g>().value;
  for (Index i = 0; i < w.size(); ++i) w.data[i] = Random(4).uniform(static_cast<std::uint64_t>(i)) - 0.5;
  auto const y = m.forward(view<double const>(x.data(), 7, 6));
  m.backward(y, {0.1, 0.2});
  std::vector<double> all(y.data, y.data + y.size());
  all.insert(all.end(), m.input_gradient().data, m.input_gradient().data + y.size());
  return all;
}

TEST_CASE("fuse: a router's logits, probabilities and choice are one kernel where the backend has it") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  int routed = 0;
  Fusing backend;
  backend.routed = &routed;
  CHECK(run<L>(backend) == run<L>(Reference<double>{}));
  CHECK(routed == 1);
}
TEST_CASE("fuse: logits with noise are not only a product, so they are not fused") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2, noise<>>, causal>;
  int routed = 0;
  Fusing backend;
  backend.routed = &routed;
  CHECK(run<L>(backend) == run<L>(Reference<double>{}));
  CHECK(routed == 0);
}
TEST_CASE("fuse: without gradients too") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  int routed = 0;
  Fusing backend;
  backend.routed = &routed;
  Module<L, Fusing, inference> m(1, backend);
  std::vector<double> const x(12, 0.5);
  m.forward(view<double const>(x.data(), 2, 6));
  CHECK(routed == 1);
}

struct x : input<tokens, size<6>> {};
struct W : param<size<6>, size<4>> {};

TEST_CASE("fuse: the steps of a program that has no such kernel stay as they are") {
  using Y = decltype(take(softmax(wide(x{} % W{})), top_k<size<2>>(softmax(wide(x{} % W{})))));
  using steps = Tape<roots<std::remove_cv_t<Y>>, Reference<double>>::steps;
  CHECK(std::is_same_v<fuse<Reference<double>, steps>, steps>);
  CHECK(fuse<Fusing, steps>::size == steps::size - 2);
}

}  // namespace

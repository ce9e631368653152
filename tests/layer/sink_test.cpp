// SPDX-License-Identifier: MIT
// Learned sink logits, as the page of layers writes them, against loops that have them in the softmax's denominator.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/use.hpp"
#include "headmix/program/module.hpp"
#include "headmix/testing/gradcheck.hpp"

namespace sink_test {
namespace {

using namespace headmix;

struct sink : score_map {
  template <Extent Heads>
  struct logit : bias_param<Heads> {};
  static constexpr auto f(auto s, auto heads) {
    return s + logit<decltype(heads)>{} * relu(number<1>{} - key_position{});
  }
};
constexpr Index width = 4, heads = 2, wide = 2, length = 6, vocabulary = 5;
using Attention = MultiHead<width, heads, wide, causal, sink>;
struct Model {
  struct x : selection<tokens, size<1>, size<vocabulary>> {};
  struct W_e : param<size<vocabulary>, size<width>> {};
  static constexpr auto attn = use<Attention, "attn">(gather_rows(W_e{}, x{}));
  static constexpr auto y = attn.y;
  using losses = type_list<>;
  using observed = type_list<>;
};

TEST_CASE("learned sink logits: a score map and a first row of zeros") {
  Module<Model, Reference<double>> m(1);
  view<double> W_e, logit, W_q, W_k, W_v, W_o;
  for (auto const& p : m.parameters()) {
    for (Index i = 0; i < p.value.size(); ++i)
      p.value.data[i] = Random(named_seed(1, p.name)).normal(static_cast<std::uint64_t>(i));
    (p.name == "W_e"        ? W_e
     : p.name == "attn.W_q" ? W_q
     : p.name == "attn.W_k" ? W_k
     : p.name == "attn.W_v" ? W_v
     : p.name == "attn.W_o" ? W_o
                            : logit) = p.value;
  }
  REQUIRE(logit.size() == heads);
  Int const ids[] = {-1, 3, 0, 4, 3, 1};
  auto const y = m.forward({ids, length, 1});

  auto const project = [&](view<double> w, Index t, Index j) {
    double sum = 0;
    for (Index i = 0; i < width; ++i) sum += W_e(ids[t], i) * w(i, j);
    return sum;
  };
  for (Index j = 0; j < width; ++j) CHECK(y(0, j) == 0);
  for (Index t = 1; t < length; ++t) {
    std::vector<double> expected(width);
    for (Index h = 0; h < heads; ++h) {
      double below = std::exp(logit.data[h]);
      double o[wide] = {};
      for (Index s = 1; s <= t; ++s) {
        double score = 0;
        for (Index j = h * wide; j < (h + 1) * wide; ++j) score += project(W_q, t, j) * project(W_k, s, j);
        double const weight = std::exp(score / std::sqrt(double{wide}));
        below += weight;
        for (Index j = 0; j < wide; ++j) o[j] += weight * project(W_v, s, h * wide + j);
      }
      for (Index j = 0; j < wide; ++j) {
        for (Index i = 0; i < width; ++i) expected[static_cast<std::size_t>(i)] += o[j] / below * W_o(h * wide + j, i);
      }
    }
    for (Index i = 0; i < width; ++i) CHECK(std::abs(y(t, i) - expected[static_cast<std::size_t>(i)]) < 1e-13);
  }
}

TEST_CASE("the gradient of learned sink logits") { CHECK(gradcheck(Attention::y, at<tokens>(7)).ok()); }

}  // namespace
}  // namespace sink_test

// SPDX-License-Identifier: MIT
// Dense multi-head attention against a double loop, and its gradients.

#include "headmix/layer/multi_head.hpp"

#include <array>

#include "../test_program.hpp"

namespace multi_head_test {

using namespace headmix;
using namespace headmix::test;

namespace {

using Matrix = std::vector<std::vector<double>>;
Matrix product(view<double> a, view<double> b) {
  Matrix y(static_cast<std::size_t>(a.rows), std::vector<double>(static_cast<std::size_t>(b.cols)));
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < b.cols; ++j) {
      for (Index k = 0; k < a.cols; ++k)
        y[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] += a(i, k) * b(k, j);
    }
  }
  return y;
}

/// Value of a layer with h heads of width d_h over p key/value heads, against loops over everything.
template <class L>
void check_layer(segments s) {
  gradcheck_options o;
  o.token_sequences = s;
  TestProgram<roots<type_of<decltype(L::y)>>> p(o);
  auto const y = p.forward();
  auto const q = product(p.in(typename L::x{}), p.in(typename L::W_q{})),
             k = product(p.in(typename L::x{}), p.in(typename L::W_k{})),
             v = product(p.in(typename L::x{}), p.in(typename L::W_v{}));
  std::size_t const h = L::heads::value, d = L::head_dim::value, group = h / L::kv_heads::value;
  auto const W_o = p.in(typename L::W_o{});
  for (Index b = 0; b < s.count; ++b) {
    for (Index row = s.begin(b); row < s.end(b); ++row) {
      auto const t = static_cast<std::size_t>(row);
      std::vector<double> expected(static_cast<std::size_t>(y.cols));
      for (std::size_t i = 0; i < h; ++i) {
        double sum = 0;
        std::vector<double> o_i(d);
        for (Index key = s.begin(b); key <= row; ++key) {
          auto const u = static_cast<std::size_t>(key);
          double score = 0;
          for (std::size_t c = 0; c < d; ++c) score += q[t][i * d + c] * k[u][i / group * d + c];
          double const e = std::exp(score / std::sqrt(static_cast<double>(d)));
          sum += e;
          for (std::size_t c = 0; c < d; ++c) o_i[c] += e * v[u][i / group * d + c];
        }
        for (std::size_t c = 0; c < d; ++c) {
          for (std::size_t j = 0; j < expected.size(); ++j)
            expected[j] += o_i[c] / sum * W_o(static_cast<Index>(i * d + c), static_cast<Index>(j));
        }
      }
      for (std::size_t j = 0; j < expected.size(); ++j) CHECK(close(y(row, static_cast<Index>(j)), expected[j]));
    }
  }
  auto const r = gradcheck(L::y, o, at<tokens>(s.rows));
  CAPTURE(r.text);
  CHECK(r.ok());
}

std::array<Int, 5> const offsets{0, 1, 1, 5, 7};

}  // namespace

TEST_CASE("multi-head: a key/value head for every head") {
  check_layer<MultiHead<5, 3, 2, causal>>(uniform(1, 7));
  check_layer<MultiHead<5, 3, 2, causal>>(ragged(offsets.data(), 4));
}
TEST_CASE("multi-head: grouped queries") {
  check_layer<MultiHead<5, 4, 2, causal, kv_heads<2>>>(uniform(2, 3));
  check_layer<MultiHead<5, 4, 2, causal, kv_heads<2>>>(ragged(offsets.data(), 4));
}
TEST_CASE("multi-head: one key/value head for all") {
  check_layer<MultiHead<3, 2, 3, causal, kv_heads<1>>>(uniform(1, 1));
  check_layer<MultiHead<3, 2, 3, causal, kv_heads<1>>>(ragged(offsets.data(), 4));
}
TEST_CASE("multi-head: gradients without a mask, no tokens included") { check_gradient(MultiHead<4, 2, 3>::y); }
TEST_CASE("multi-head: gradients with a sliding window") {
  check_gradient(MultiHead<4, 2, 3, sliding_window<3>, kv_heads<1>>::y);
}
TEST_CASE("multi-head: dynamic sizes give what static ones give") {
  using L = MultiHead<6, 4, 3, causal, kv_heads<2>>;
  using F = MultiHead<dynamic, dynamic, dynamic, causal, kv_heads<dynamic>>;
  TestProgram<roots<type_of<decltype(L::y)>>> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(F::y)>>> q(at<tokens>(7), at<F::model_dim>(6), at<F::heads>(4), at<F::head_dim>(3),
                                                at<F::kv_heads>(2));
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == z.data[i]);
  p.backward();
  q.backward();
  CHECK(p.gradients(L::W_q{}) == q.gradients(F::W_q{}));
  CHECK(p.gradients(L::W_k{}) == q.gradients(F::W_k{}));
  CHECK(p.gradients(L::x{}) == q.gradients(F::x{}));
}

}  // namespace multi_head_test

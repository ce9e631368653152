// SPDX-License-Identifier: MIT
// Multi-head attention with other scores, against their formulas: cosine attention with a relative position bias on an
// image, and layer norms of queries and keys.

#include "../expr/attend.hpp"
#include "../test_program.hpp"
#include "headmix/layer/multi_head.hpp"

namespace multi_head_scores_test {

using namespace headmix;
using namespace headmix::test;

namespace {

std::vector<double> product(view<double> a, view<double> b) {
  std::vector<double> y;
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < b.cols; ++j) {
      double sum = 0;
      for (Index c = 0; c < a.cols; ++c) sum += a(i, c) * b(c, j);
      y.push_back(sum);
    }
  }
  return y;
}
/// Scales every row to length 3, then calls f(row, number of the row).
template <class F>
void each_head(std::vector<double>& v, F f) {
  for (std::size_t i = 0; i < v.size(); i += 3) f(&v[i], static_cast<Index>(i / 3));
}
void to_unit(double* r) {
  double const length = std::sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2]);
  for (Index c = 0; c < 3; ++c) r[c] /= length;
}
void normalise(double* r, view<double> gain, view<double> bias) {
  double const mean = (r[0] + r[1] + r[2]) / 3;
  double variance = 0;
  for (Index c = 0; c < 3; ++c) variance += (r[c] - mean) * (r[c] - mean) / 3;
  for (Index c = 0; c < 3; ++c) r[c] = (r[c] - mean) / std::sqrt(variance + 1e-5) * gain(0, c) + bias(0, c);
}
/// sign(d) log2(|d| + 1) / log2(8), d = 8 distance / (pretrained - 1)
double coordinate(Index distance, Index pretrained) {
  double const d = 8 * static_cast<double>(distance) / static_cast<double>(pretrained - 1);
  return (d < 0 ? -1 : 1) * std::log2(std::abs(d) + 1) / std::log2(8.0);
}

/// Four heads of width 3 over two key/value heads, twelve tokens in two sequences.
template <class L, class Mask, class Change>
void check_scores(Change change) {
  gradcheck_options o;
  o.token_sequences = uniform(2, 6);
  TestProgram<roots<type_of<decltype(L::y)>>> p(o);
  auto q = product(p.in(typename L::x{}), p.in(typename L::W_q{})),
       k = product(p.in(typename L::x{}), p.in(typename L::W_k{})),
       v = product(p.in(typename L::x{}), p.in(typename L::W_v{}));
  attended a{{q.data(), 12, 12}, {k.data(), 12, 6}, {v.data(), 12, 6}, uniform(2, 6), uniform(2, 6), 1, 2};
  std::vector<double> bias;
  change(p, q, k, bias, a);
  if (!bias.empty()) {
    a.bias = {bias.data(), 36, 4};
    a.bias_keys = 6;
  }
  auto heads = attend<Mask>(a);
  auto const expected = product({heads.data(), 12, 12}, p.in(typename L::W_o{}));
  auto const y = p.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], expected[static_cast<std::size_t>(i)]));
  auto const r = p.check_gradients(o);
  CAPTURE(r.text);
  CHECK(r.ok());
}

}  // namespace

TEST_CASE("multi-head: cosine scores and a bias by relative position") {
  using B = relative_position_bias<2, 3, 5, 3, 4>;
  using L = MultiHead<5, 4, 3, full, kv_heads<2>, cosine_scores<9>, B>;
  using C = L::scores::values;
  using N = B::of<L::heads>;
  check_scores<L, full>([](auto& p, auto& q, auto& k, auto& bias, attended& a) {
    each_head(q, [&](double* r, Index row) {
      to_unit(r);
      double const tau = p.in(C::temperature{})(row % 4, 0);
      for (Index c = 0; c < 3; ++c)
        r[c] = (r[c] + p.in(C::query_embedding{})(row % 4, c)) * std::log1p(std::exp(tau)) * std::log(9.0);
    });
    each_head(k, [](double* r, Index) { to_unit(r); });
    a.scaled = false;
    for (Index query = 0; query < 6; ++query) {
      for (Index key = 0; key < 6; ++key) {
        double const at[2] = {coordinate(query / 3 - key / 3, 3), coordinate(query % 3 - key % 3, 4)};
        for (Index head = 0; head < 4; ++head) {
          double sum = p.in(N::b_2{})(0, head);
          for (Index u = 0; u < 5; ++u) {
            double const z = at[0] * p.in(N::W_1{})(0, u) + at[1] * p.in(N::W_1{})(1, u) + p.in(N::b_1{})(0, u);
            sum += std::max(z, 0.0) * p.in(N::W_2{})(u, head);
          }
          bias.push_back(sum);
        }
      }
    }
  });
}
TEST_CASE("multi-head: layer norms of queries and keys") {
  using L = MultiHead<5, 4, 3, causal, kv_heads<2>, qk_norm>;
  using N = L::scores::values;
  check_scores<L, causal>([](auto& p, auto& q, auto& k, auto&, attended&) {
    each_head(q, [&](double* r, Index) { normalise(r, p.in(N::gain_q{}), p.in(N::bias_q{})); });
    each_head(k, [&](double* r, Index) { normalise(r, p.in(N::gain_k{}), p.in(N::bias_k{})); });
  });
}
TEST_CASE("multi-head: a module knows the coordinates of a relative position") {
  using L = MultiHead<5, 4, 3, kv_heads<2>, relative_position_bias<2, 3, 5>>;
  Module<L, Reference<double>, inference> m(1);
  TestProgram<roots<type_of<decltype(L::y)>>, inference> p(at<tokens>(6));
  for_each(typename decltype(m)::parameter_leaves{}, [&]<class Of>() {
    auto const& v = m.get<Of>().value;
    std::copy(v.data, v.data + v.size(), p.values(Of{}).begin());
  });
  auto const y = m.forward({p.values(L::x{}).data(), 6, 5}), z = p.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == z.data[i]);
}

}  // namespace multi_head_scores_test

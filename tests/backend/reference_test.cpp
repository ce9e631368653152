// SPDX-License-Identifier: MIT
// Numbers of Reference, the definition for all other backends.

#include "headmix/backend/reference.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace reference_test {

namespace {

using namespace headmix;

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
Reference<double> const reference;

view<double const> matrix(std::vector<double> const& v, Index rows) {
  return {v.data(), rows, static_cast<Index>(v.size()) / rows};
}
bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST_CASE("reference: softmax and log-sum-exp of rows that are easily wrong") {
  std::vector<double> const a{1000, 1000, -infinity, -infinity, -infinity, 0, infinity, 0, nan, 0};
  std::vector<double> const p{0.5, 0.5, 0, 0, 0, 1, nan, nan, nan, nan};
  std::vector<double> const lse{1000 + std::log(2.0), -infinity, 0, nan, nan};
  std::vector<double> y(10, nan), z(5, 7);
  reference.softmax(view<double>(y.data(), 5, 2), matrix(a, 5));
  reference.log_sum_exp(view<double>(z.data(), 5, 1), matrix(a, 5));
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(same(y[i], p[i]));
  for (std::size_t i = 0; i < z.size(); ++i) CHECK(same(z[i], lse[i]));
  reference.log_sum_exp(view<double>(z.data(), 1, 1), view<double const>(nullptr, 1, 0));
  CHECK(z[0] == -infinity);
}
TEST_CASE("reference: the best columns, with ties and without numbers") {
  std::vector<double> const a{1, 3, 3, 2, nan, -infinity, nan, 5, 0.0, -0.0, 0.0, -1};
  std::vector<Int> y(9, -7);
  reference.top_k(view<Int>(y.data(), 3, 3), matrix(a, 3));
  CHECK(y == std::vector<Int>{1, 2, 3, 3, 1, 0, 0, 1, 2});
}
TEST_CASE("reference: slots by expert, those of nobody behind all groups") {
  std::vector<Int> const index{2, 0, -1, 2, 0, 2};
  std::vector<Int> perm(6, -7), offsets(5, -7);
  reference.sort_by_expert(view<Int>(perm.data(), 1, 6), view<Int>(offsets.data(), 1, 5),
                           view<Int const>(index.data(), 3, 2), uniform(1, 3));
  CHECK(offsets == std::vector<Int>{0, 2, 2, 5, 5});
  CHECK(perm == std::vector<Int>{1, 4, 0, 3, 5, 2});
}
TEST_CASE("reference: slots by sequence and expert") {
  std::vector<Int> const index{1, 0, -1, 1, 0, 1, 1, -1}, sequences{0, 2, 2, 4};
  std::vector<Int> perm(8, -7), offsets(7, -7);
  reference.sort_by_expert(view<Int>(perm.data(), 1, 8), view<Int>(offsets.data(), 1, 7),
                           view<Int const>(index.data(), 4, 2), ragged(sequences.data(), 3));
  CHECK(offsets == std::vector<Int>{0, 1, 3, 3, 3, 4, 6});
  CHECK(perm == std::vector<Int>{1, 0, 3, 4, 5, 6, 2, 7});

  reference.sort_by_expert(view<Int>(perm.data(), 1, 0), view<Int>(offsets.data(), 1, 1),
                           view<Int const>(index.data(), 0, 2), uniform(0, 0));
  CHECK(offsets[0] == 0);
}
TEST_CASE("reference: attention of rows that see nothing, and of keys that nobody sees") {
  // Three queries, the last ones of a sequence with two keys: the first sees none, the second the first key.
  std::vector<double> const q{1, 2, 3}, k{1, nan}, v{5, nan}, k2{1, 1}, v2{5, 7};
  std::vector<double> o(3, nan), lse(3, nan);
  attention_extents const extents{uniform(1, 3), uniform(1, 2), 1, 1, 1, 1, {}};
  auto const run = [&](std::vector<double> const& keys, std::vector<double> const& values) {
    reference.attention<causal>(attention_forward<double>{extents,
                                                          matrix(q, 3),
                                                          matrix(keys, 2),
                                                          matrix(values, 2),
                                                          view<double>(o.data(), 3, 1),
                                                          view<double>(lse.data(), 3, 1),
                                                          {},
                                                          {},
                                                          {}},
                                {});
  };
  run(k2, v2);
  CHECK(o == std::vector<double>{0, 5, 6});
  CHECK(lse == std::vector<double>{-infinity, 2, 3 + std::log(2.0)});
  run(k, v);
  CHECK(o[0] == 0);
  CHECK(o[1] == 5);  // the NaN is in a later key
  CHECK(std::isnan(o[2]));

  std::vector<double> const d_o{1, 1, 0}, no_keys;
  std::vector<double> d_q(3, nan), d_k(2, nan), d_v(2, nan);
  run(k2, v2);
  reference.attention_gradient<causal>(attention_backward<double>{extents,
                                                                  matrix(q, 3),
                                                                  matrix(k2, 2),
                                                                  matrix(v2, 2),
                                                                  view<double const>(o.data(), 3, 1),
                                                                  matrix(d_o, 3),
                                                                  view<double const>(lse.data(), 3, 1),
                                                                  view<double>(d_q.data(), 3, 1),
                                                                  view<double>(d_k.data(), 2, 1),
                                                                  view<double>(d_v.data(), 2, 1),
                                                                  {},
                                                                  {},
                                                                  {}},
                                       {});
  CHECK(d_q == std::vector<double>{0, 0, 0});  // the softmax of one key is constant
  CHECK(d_v == std::vector<double>{1, 0});
  CHECK(d_k == std::vector<double>{0, 0});
}
TEST_CASE("reference: attention of rows whose scores are all minus infinity, whatever the values are") {
  std::vector<double> const q{1, 2}, k{1, 1}, v{nan, nan}, bias{-infinity, -infinity, 0, 0}, d_o{1, 1};
  std::vector<double> o(2, 7), lse(2, 7), d_q(2, 7), d_k(2, 7), d_v(2, 7), d_bias(4, 7);
  attention_extents const extents{uniform(1, 2), uniform(1, 2), 1, 1, 1, 1, {}};
  attention_scores<double, no_score_map> scores;
  scores.bias = matrix(bias, 4);
  scores.bias_keys = 2;
  reference.attention<full>(attention_forward<double>{extents,
                                                      matrix(q, 2),
                                                      matrix(k, 2),
                                                      matrix(v, 2),
                                                      view<double>(o.data(), 2, 1),
                                                      view<double>(lse.data(), 2, 1),
                                                      {},
                                                      scores,
                                                      {}},
                            {});
  CHECK(o[0] == 0);
  CHECK(lse[0] == -infinity);
  CHECK(std::isnan(o[1]));  // this query sees the NaN
  attention_backward<double> const backward{extents,
                                            matrix(q, 2),
                                            matrix(k, 2),
                                            matrix(v, 2),
                                            view<double const>(o.data(), 2, 1),
                                            matrix(d_o, 2),
                                            view<double const>(lse.data(), 2, 1),
                                            view<double>(d_q.data(), 2, 1),
                                            view<double>(d_k.data(), 2, 1),
                                            view<double>(d_v.data(), 2, 1),
                                            {},
                                            scores,
                                            {}};
  reference.attention_gradient<full>(backward, {});
  CHECK(d_q[0] == 0);
  CHECK(std::isnan(d_q[1]));
  CHECK(std::isnan(d_k[0]));
  CHECK(std::abs(d_v[0] - 0.5) < 1e-12);  // the first row contributes nothing
  reference.attention_bias_gradient<full>(view<double>(d_bias.data(), 4, 1), backward, {});
  CHECK(d_bias[0] == 0);
  CHECK(d_bias[1] == 0);
  CHECK(std::isnan(d_bias[2]));
}
TEST_CASE("reference: roundings do not hide what is not finite") {
  for (double const odd : {nan, infinity, -infinity}) {
    CAPTURE(odd);
    std::vector<double> const w{1, -2, 3, odd, 1, 2, 3, 4}, x{1, 2, 3, odd};
    std::vector<double> y(8, 7), of_rows(4, 7), product(4, 7);
    reference.absmean_ternary(view<double>(y.data(), 2, 2, 2), view<double const>(w.data(), 2, 2, 2));
    for (std::size_t i = 0; i < 8; ++i) CHECK(std::isnan(y[i]) == (i < 4));  // NaN in the first of two matrices
    reference.absmax_int8(view<double>(of_rows.data(), 2, 2), matrix(x, 2));
    CHECK(of_rows[1] == 2);
    CHECK(std::isnan(of_rows[3]));
    CHECK(std::isnan(of_rows[2]) == std::isinf(odd));
    Index const words = packed_ternary::words(2, 2);
    std::vector<Int> packed(static_cast<std::size_t>(2 * words));
    packed_ternary::pack(packed.data(), view<double const>(w.data(), 2, 2));
    packed_ternary::pack(packed.data() + words, view<double const>(w.data() + 4, 2, 2));
    for (Index e : {0, 1}) {
      reference.packed_gemm(view<double>(product.data(), 2, 2), matrix(x, 2),
                            view<Int const>(packed.data() + e * words, 1, words), {}, {}, 1, {});
      for (std::size_t i = 0; i < 4; ++i) CHECK(std::isnan(product[i]) == (e == 0 || i >= 2));
    }
  }
}

}  // namespace

}  // namespace reference_test

// SPDX-License-Identifier: MIT
// MoA's options: a custom gating, biases, several key/value heads, rotary embedding.

#include "../test_program.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "published.hpp"

namespace moa_options_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// The published gating with its commented-out lines: division by the sum + 1e-6.
struct published_detached : gating::policy {
  template <Expr P>
  static constexpr auto weights(P p) {
    return p / detach(row_sum(p) + number<1, 1'000'000>{});
  }
};

}  // namespace

TEST_CASE("moa options: the published numbers of a custom gating, and no gradient of any key bias") {
  // A key bias shifts all scores of a query alike, so it has no effect.
  using L = Moa<8, 4, SoftmaxTopK<6, 2, published_detached, loss::cv_squared>, causal, key_bias>;
  gradcheck_options options;
  options.token_sequences = uniform(2, 5);
  using cv = nth<0, L::losses>;
  TestProgram<roots<type_of<decltype(L::y)>, cv>> p(options);
  fill_as_published<L>(p);
  auto const y = p.forward();
  p.backward({0});
  CHECK(golden(y(0, 0), 0.1419696122));
  CHECK(golden(y(0, 3), -0.6284069449));
  CHECK(golden(p.program.get(cv{})(0, 0), 0.1065571, 1e-6));
  CHECK(golden(total(p.gradients(L::x{})), 0.4080538967));
  CHECK(golden(squares(p.gradients(L::x{})), 0.7334741557, 2e-6));
  auto const& d_g = p.gradients(L::r::W_g{});
  CHECK(golden(d_g[0], -0.0461696231));
  CHECK(golden(d_g[3], -0.1042715663));
  CHECK(golden(squares(d_g), 0.5401746155));
  CHECK(golden(squares(p.gradients(L::W_o{})), 10.7310967355));
  for (double const g : p.gradients(L::b_k{})) CHECK(g == 0);
}
TEST_CASE("moa options: gradients with every bias, two key/value heads and rotary embedding") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2, gating::raw>, query_bias, key_bias, value_bias, output_bias, kv_heads<2>,
                rope<>, causal>;
  for (Index const rows : {0, 1, 6}) {
    auto const r = gradcheck(L::y, at<tokens>(rows));
    CAPTURE(rows);
    CAPTURE(r.text);
    CHECK(r.ok());
  }
}
TEST_CASE("moa options: all experts of several heads with a router of zeros are grouped-query attention, averaged") {
  using L = Moa<6, 4, SoftmaxTopK<3, 3, gating::renormalized>, kv_heads<2>, causal>;
  using M = MultiHead<6, 6, 4, causal, kv_heads<2>>;
  TestProgram<roots<type_of<decltype(L::y)>>, inference> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(M::y)>>, inference> q(at<tokens>(7));
  p.values(L::r::W_g{}).assign(18, 0.0);
  q.values(M::x{}) = p.values(L::x{});
  q.values(M::W_k{}) = p.values(L::W_k{});
  q.values(M::W_v{}) = p.values(L::W_v{});
  for (Index e = 0; e < 3; ++e) {
    // The heads of a key/value head are adjacent in M, and apart in L.
    for (Index head = 0; head < 2; ++head) {
      for (Index c = 0; c < 4; ++c) {
        for (Index i = 0; i < 6; ++i) {
          q.in(M::W_q{})(i, (head * 3 + e) * 4 + c) = p.in(L::W_q{})[e](i, head * 4 + c);
          q.in(M::W_o{})((head * 3 + e) * 4 + c, i) = p.in(L::W_o{})[e](head * 4 + c, i);
        }
      }
    }
  }
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i] / 3));
}

}  // namespace moa_options_test

// SPDX-License-Identifier: MIT
// Full experts of MH-MoE: the dropped choices, and their effect on results, losses and gradients.

#include "mh_moe.hpp"

namespace mh_moe_capacity_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// With positive inputs all sub-tokens prefer expert 1.
void crowd(auto& p, auto w_g) {
  for (Index i = 0; i < p.in(w_g).rows; ++i) p.in(w_g)(i, 1) += 5;
}
gradcheck_options positive() { return {.low = 0.1, .high = 1}; }

}  // namespace

TEST_CASE("mh-moe: gradients where experts are full") {
  using L = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, capacity<3, 4>, no_head, subtoken_residual>;
  TestProgram<roots<type_of<decltype(L::y)>, type_of<decltype(L::index)>>> p(positive(), at<tokens>(7));
  crowd(p, L::r::W_g{});
  auto const r = p.check_gradients();
  CAPTURE(r.text);
  CHECK(r.ok());
  // 21 sub-tokens: ceil(21 / 4) = 6, of which three quarters are 4, for each of two choices: 8 rows.
  auto const index = p.program.get(L::index);
  Index kept = 0;
  for (Index i = 0; i < 21; ++i) {
    CHECK(index(i, 0) == (i < 8 ? 1 : -1));
    for (Index j = 0; j < 2; ++j) kept += index(i, j) >= 0 ? 1 : 0;
  }
  CHECK((kept >= 16 && kept < 42));
}
TEST_CASE("mh-moe: choices that find no place stay in sight of the losses and of the one who observes them") {
  using L = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, capacity<dynamic>>;
  using S = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, capacity<1, 2>>;
  using Dropless = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>>;
  TestProgram<mh_moe_roots<L>, inference> p(positive(), at<tokens>(7),
                                            at<L::expert_capacity>(capacity_rows(0.5, 21, 4, 2)));
  TestProgram<mh_moe_roots<S>, inference> q(positive(), at<tokens>(7));
  TestProgram<mh_moe_roots<Dropless>, inference> all(positive(), at<tokens>(7));
  crowd(p, L::r::W_g{});
  crowd(q, S::r::W_g{});
  crowd(all, Dropless::r::W_g{});
  auto const y = p.forward(), z = q.forward(), whole = all.forward();
  REQUIRE(y.size() == whole.size());
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == z.data[i]);
  // Six sub-tokens fit: those of the first two tokens.
  for (Index i = 0; i < 42; ++i) CHECK(close(y.data[i], whole.data[i]) == (i < 12));
  CHECK(p.program.get(nth<0, L::losses>{})(0, 0) == all.program.get(nth<0, Dropless::losses>{})(0, 0));
  auto const seen = p.program.get(nth<0, L::observed>{}), chosen = all.program.get(nth<0, Dropless::observed>{});
  for (Index i = 0; i < 42; ++i) CHECK(seen.data[i] == chosen.data[i]);
}
TEST_CASE("mh-moe: experts without places give nothing and learn nothing") {
  using L = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, capacity<0>>;
  TestProgram<roots<type_of<decltype(L::y)>>> p(at<tokens>(7));
  auto const y = p.forward();
  p.backward();
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == 0);
  for_each(decltype(p)::program_type::leaves{}, [&]<class Of>() {
    for (double const g : p.gradients(Of{})) CHECK(g == 0);
  });
}

}  // namespace mh_moe_capacity_test

// SPDX-License-Identifier: MIT
// The tests of positions_test.cpp for other masks, layers and backends; and masks with separate positions.

#include "../error_of.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/testing/gradcheck.hpp"
#include "positions.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {
/// A mask over the keys around the query's position, of two separately numbered sequences.
struct neighbours {
  static constexpr bool separate_positions = true;
  static constexpr bool sees(Index t, Index s) { return t - s < 2 && s - t < 2; }
};
template <class L>
std::vector<double> of_both(segments queries, segments keys) {
  Module<L, Reference<double>> m(1);
  fill(m);
  auto const x = text<double>(0, queries.rows), context = text<double>(2, keys.rows);
  auto const y =
      m.forward({x.data(), queries.rows, text_width}, queries, {context.data(), keys.rows, text_width}, keys);
  return {y.data, y.data + y.size()};
}
}  // namespace

TEST_CASE("positions: masks without a range, and full masks where the sequences say what came before") {
  check_positions<Reference<double>, first_and_latest, by_places, rope<>>();
  check_positions<Reference<double>, full, by_places, rope<>>();
  check_positions<Reference<double>, full, alibi, relative_position_bias<2, 3, 4>>();
}
TEST_CASE("positions: on the CPU") {
  check_positions<Cpu<float>, causal, by_places, alibi, relative_position_bias<2, 3, 4>, rope<>>();
  check_positions<Cpu<double>, sliding_window<3>, kv_heads<1>, qk_norm, relative_position_bias<2, 3, 4>, rope<>>();
}
TEST_CASE("positions: of mixtures of attention heads") {
  using B = Reference<double>;
  using moa = SoftmaxTopK<3, 2>;
  using two = TwoStage<1, 2, 1>;
  using norm = QueryNorm<1, 2, 1, estimator::active>;
  check_context<Moa<8, 4, moa, causal, alibi, rope<>, context_dim<8>>, Moa<8, 4, moa, causal, alibi, rope<>>, B>();
  check_context<Moh<8, 4, two, causal, by_places, rope<>, context_dim<8>>, Moh<8, 4, two, causal, by_places, rope<>>,
                B>();
  check_context<Moh<8, 4, two, sliding_window<3>, rope<>, dense_projections, context_dim<8>>,
                Moh<8, 4, two, sliding_window<3>, rope<>, dense_projections>, B>();
  check_context<Moh<8, 4, norm, causal, by_places, rope<>, context_dim<8>>, Moh<8, 4, norm, causal, by_places, rope<>>,
                Cpu<float>>();
  check_context<Mae<8, 2, 4, causal, alibi, rope<>, context_dim<8>>::mean, Mae<8, 2, 4, causal, alibi, rope<>>::mean,
                B>();
  check_decoder<Moa<8, 4, moa, causal, alibi, rope<>>, B>();
  check_decoder<Moh<8, 4, two, sliding_window<3>, by_places, rope<>>, B>();
}
TEST_CASE("positions: where a mask counts each side by itself, queries begin at 0") {
  using maps = MultiHead<8, 2, 4, by_places, context_dim<8>>;
  using turned = MultiHead<8, 2, 4, rope<>, context_dim<8>>;
  using biased = MultiHead<8, 2, 4, relative_position_bias<2, 3, 4>, context_dim<8>>;
  using aligned_sides = MultiHead<8, 2, 4, neighbours, rope<>, context_dim<8>>;
  // One query more or less before the keys' last ones changes nothing for queries after position 0.
  auto const check = []<class L>(L*) {
    CAPTURE(type_name<L>());
    auto const few = of_both<L>(uniform(1, 2), uniform(1, 4)), many = of_both<L>(uniform(1, 6), uniform(1, 4));
    for (std::size_t i = 0; i < few.size(); ++i) CHECK(std::abs(few[i] - many[i]) < 1e-14);
  };
  check(static_cast<maps*>(nullptr));
  check(static_cast<turned*>(nullptr));
  check(static_cast<biased*>(nullptr));
  check(static_cast<aligned_sides*>(nullptr));
  CHECK(says(error_of([] { of_both<biased>(uniform(1, 7), uniform(1, 4)); }),
             "positions 0 .. 5; sequence 0 has 7 queries for 4 keys, at positions 0 .. 6"));
}
TEST_CASE("positions: what came before rows is refused where nobody keeps it") {
  using Self = MultiHead<8, 2, 4, causal, rope<>>;
  using Pooled = Mae<8, 2, 4, causal, context_dim<8>>;
  Int const some[] = {3}, negative[] = {-1};
  segments s = uniform(1, 2);
  s.past = some;
  Module<Self, Reference<double>> self(1);
  auto const x = text<double>(0, 2);
  view<double const> const rows(x.data(), 2, 8);
  CHECK(says(error_of([&] { self.forward(rows, s); }), "segments::past"));
  Module<Pooled, Reference<double>> pooled(1);
  CHECK(says(error_of([&] { pooled.forward(rows, s, rows, uniform(1, 2)); }), "window_mean"));
  Module<MultiHead<8, 2, 4, causal, context_dim<8>>, Reference<double>> cross(1);
  CHECK(says(error_of([&] { cross.forward(rows, uniform(1, 2), rows, s); }), "segments::past"));
  s.past = negative;
  CHECK(says(error_of([&] { cross.forward(rows, s, rows, uniform(1, 2)); }),
             "-1 rows came before those of sequence 0; expected 0 or more"));
}
TEST_CASE("positions: gradients of chunks of a context") {
  Int const queries[] = {0, 2, 2, 5}, keys[] = {0, 5, 6, 9};
  gradcheck_options o;
  o.token_sequences = ragged(queries, 3);
  o.context_sequences = ragged(keys, 3);
  auto const check = [&]<class L>(L*) {
    auto const r = gradcheck(L::y, o);
    CAPTURE(r.text);
    CHECK(r.ok());
  };
  using raw = SoftmaxTopK<3, 2, gating::raw>;
  check(static_cast<MultiHead<5, 2, 4, causal, by_places, relative_position_bias<2, 3, 4>, rope<>, context_dim<3>>*>(
      nullptr));
  check(static_cast<MultiHead<5, 2, 4, alibi, relative_position_bias<2, 3, 4>, rope<>, context_dim<3>>*>(nullptr));
  check(static_cast<Moa<5, 4, raw, sliding_window<3>, rope<>, alibi, context_dim<3>>*>(nullptr));
  check(static_cast<Mae<5, 3, 4, causal, rope<>, context_dim<3>, gate_dim<2>>*>(nullptr));
}

#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the tests of MoH: the layer as "compute all heads, multiply by the weights", and the comparison of
// two forms.

#include <array>

#include "../test_program.hpp"
#include "headmix/layer/moh.hpp"

namespace headmix::test {

/// The y of layer L from all heads of every token and their weights, gate [tokens, E].
template <class L, Expr G>
constexpr auto composed(G) {
  using heads = typename L::heads;
  using S = typename L::scores;
  constexpr auto q = L::template rotate_queries<heads>(S::template queries<heads>(L::all_q));
  constexpr auto o = S::template attend<typename L::kv_heads, void>(q, L::k, L::v);
  constexpr auto mixed =
      merge_rows<heads>(round_to_storage(split_rows<heads>(G{}) * split_rows<heads>(o))) % typename L::W_o{} +
      when<L::template has<output_bias>>(typename L::b_o{});
  return either<L::template has<padded>>(scatter_rows(mixed, typename L::valid_rows{}), mixed);
}
/// The composed form with the weights of the layer's router.
template <class L>
inline constexpr auto twin = composed<L>(scatter_cols(L::r::gate, L::r::index));

inline void check_same(std::vector<double> const& found, std::vector<double> const& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(close(found[i], expected[i]));
  }
}

/// Two expressions of the same leaves: values and all gradients agree. `fill(program)` may change the numbers of p.
/// Returns p's check by differences.
template <Expr Y, Expr Z, class Fill, Extent... X>
gradcheck_result check_twins(Y, Z, gradcheck_options const& options, Fill fill, size_value<X>... sizes) {
  TestProgram<roots<Y>> p(options, sizes...);
  TestProgram<roots<Z>> q(options, sizes...);
  using leaves = leaves_of<roots<Y>>;
  static_assert(leaves::size == leaves_of<roots<Z>>::size);
  fill(p);
  for_each(leaves{}, [&]<class Of>() { q.values(Of{}) = p.values(Of{}); });
  auto const y = p.forward(), z = q.forward();
  REQUIRE(y.size() == z.size());
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
  p.backward();
  q.backward();
  for_each(leaves{}, [&]<class Of>() {
    CAPTURE(type_name<Of>());
    check_same(p.gradients(Of{}), q.gradients(Of{}));
  });
  return p.check_gradients(options);
}

inline constexpr std::array<Int, 5> some_offsets{0, 3, 3, 4, 7};
inline gradcheck_options ragged_seven() {
  gradcheck_options o;
  o.token_sequences = ragged(some_offsets.data(), 4);
  return o;
}
/// The tested numbers of tokens: none, one, seven, seven in four sequences.
template <class F>
void each_batch(F f) {
  for (Index const rows : {0, 1, 7, -7}) {
    CAPTURE(rows);
    f(0 > rows ? ragged_seven() : gradcheck_options{}, rows < 0 ? -rows : rows);
  }
}
/// Layer L against its composed form, and its gradients by differences.
template <class L, Extent... X>
void check_layer(size_value<X>... sizes) {
  each_batch([&](gradcheck_options const& o, Index rows) {
    auto const r = check_twins(
        L::y, twin<L>, o, [](auto&) {}, at<tokens>(rows), sizes...);
    CAPTURE(r.text);
    CAPTURE(r.repeated);
    CHECK(r.ok());
  });
}

/// Sees every third key and its own.
struct checkered {
  static constexpr bool sees(Index t, Index s) { return s == t || (s + t) % 3 == 0; }
};

}  // namespace headmix::test

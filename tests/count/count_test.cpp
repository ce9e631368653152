// SPDX-License-Identifier: MIT
// Counts against execution: the products of a backend and the memory of a module; then the effect of each flag, mask
// and size. The papers' tables are in static/counts.cpp.

#include <doctest/doctest.h>

#include "counting.hpp"
#include "headmix/count/count.hpp"
#include "headmix/count/parity.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"

namespace count_test {

using namespace headmix;
using namespace headmix::test;

namespace {

using router = SoftmaxTopK<5, 2>;
using plain = Moa<6, 4, router>;
using biased = Moa<6, 4, router, causal, query_bias, key_bias, value_bias, output_bias>;
using grouped = Moa<6, 4, router, sliding_window<3>, kv_heads<2>, rope<>, query_bias, key_bias, output_bias>;
using sampling = Moa<6, 4, NoisyTopK<5, 3, sampled<1>>, even>;
using any_size = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>, causal, context_dim<dynamic>, key_bias>;
using multi_query = MultiHead<6, 4, 3, causal, kv_heads<2>>;

}  // namespace

TEST_CASE("count: products are those that a backend runs, parameters those that a module owns") {
  for (Index const n : {1, 3}) {
    for (Index const length : {1, 7}) {
      check<grouped>(n, length, 0);
      check<sampling>(n, length, 0);
      check<multi_query>(n, length, 0);
      for (Index const keys : {0, 4, 9}) {
        check<any_size>(n, length, keys, at<any_size::model_dim>(6), at<any_size::head_dim>(4),
                        at<any_size::context_dim>(3), at<any_size::experts>(5), at<any_size::top_k>(2));
      }
    }
  }
}

// ---- flags ----

static_assert(count_parameters<biased>() - count_parameters<biased>({.bias = false}) == 5 * 4 + 4 + 4 + 5 * 6);
static_assert(count_parameters<biased>({.bias = false}) == count_parameters<plain>());
static_assert(count_parameters<plain>() - count_parameters<plain>({.router = false}) == 6 * 5);
// Noise has its own product and weights.
static_assert(count_parameters<sampling>() - count_parameters<sampling>({.router = false}) == 2 * 6 * 5);
static_assert(count_macs<plain>(at<tokens>(9)) - count_macs<plain>({.router = false}, at<tokens>(9)) == 9 * 6 * 5);
// Without the scores that the mask hides, 2 d_h each in 2 heads; with the product of weights and output biases.
static_assert(count_macs<biased>(at<tokens>(9)) ==
              count_macs<plain>(at<tokens>(9)) - 2 * 2 * 4 * (9 * 8 / 2) + 9 * 5 * 6);
// Padding costs nothing.
static_assert(count_macs<Moa<6, 4, router, padded>>(at<tokens>(9)) == count_macs<plain>(at<tokens>(9)));
// Queries see only keys of their own sequence.
static_assert(count_macs<grouped>(at<tokens>(4 * 9), at<sequences>(4)) == 4 * count_macs<grouped>(at<tokens>(9)));

// ---- custom layers and operations ----

namespace {

/// A layer of products that is not in the library: weights seen through views, names and pointwise operations.
struct Own {
  struct D : size<8> {};
  struct H : size<4> {};
  struct x : input<tokens, D> {};
  struct W : param<D, H> {};
  struct b : bias_param<D> {};
  struct W_g : router_param<D, H> {};
  struct scaled : let<decltype(W_g{} * number<2>{})> {};
  struct b_g : router_param<H> {};
  struct unused : param<D, D> {};
  struct observed_only : router_param<D, H> {};
  static constexpr auto h = x{} % W{};
  static constexpr auto z = x{} % scaled{} + softmax(x{} % W_g{});
  static constexpr auto y = (h + h * sigmoid(z + b_g{})) % t(W{}) + b{};
  using losses = type_list<decltype(sum(x{} % W{}))>;
  using observed = type_list<decltype(arg_top_k<size<1>>(x{} % observed_only{}))>;
};
static_assert(count_macs<Own>(at<tokens>(3)) == 3 * 8 * 4 * 4);  // h once, two routers, y
static_assert(count_macs<Own>({.router = false}, at<tokens>(3)) == 3 * 8 * 4 * 2);
static_assert(count_parameters<Own>() == 8 * 4 + 8 + 2 * 8 * 4 + 4);
static_assert(count_parameters<Own>({.bias = false, .router = false}) == 8 * 4);

/// x U^T U x^T of each row, as one kernel.
struct quadratic : operation {
  template <class X, class U>
  using shape_of = shape<rows<X>, size<1>>;
};
template <Expr X, Expr U>
constexpr Index macs(detail::node<quadratic, X, U>, auto const& sizes) {
  return sizes.template extent<rows<X>>() * (sizes.template extent<cols<U>>() + 1) * sizes.template extent<rows<U>>();
}
/// Attention by running sums: the flag attention_term omits the operation's attention_macs.
struct running : operation {
  template <class Q, class V>
  using shape_of = shape<rows<Q>, cols<V>>;
};
template <Expr Q, Expr V>
constexpr Index attention_macs(detail::node<running, Q, V>, auto const& sizes) {
  return 2 * sizes.template extent<rows<Q>>() * sizes.template extent<cols<Q>>() * sizes.template extent<cols<V>>();
}
struct OwnOperations {
  struct D : size<8> {};
  struct R : size<dynamic> {};
  struct x : input<tokens, D> {};
  struct U : param<R, D> {};
  static constexpr auto y = make<quadratic>(x{}, U{}) * make<running>(x{}, x{});
  using losses = type_list<>;
  using observed = type_list<>;
};
static_assert(count_macs<OwnOperations>(at<tokens>(3), at<OwnOperations::R>(5)) == 3 * (8 + 1) * 5 + 2 * 3 * 8 * 8);
static_assert(count_macs<OwnOperations>({.attention_term = false}, at<tokens>(3), at<OwnOperations::R>(5)) ==
              3 * (8 + 1) * 5);

/// Extents composed of sizes.
struct Composed {
  struct D : size<dynamic> {};
  struct N : size<dynamic> {};
  struct x : input<tokens, D> {};
  struct W : param<over<D, N>, size<3>> {};
  struct V : param<plus_one<N>, times<D, N>, extent_sum<D, N>> {};
  static constexpr auto y = split_rows<N>(x{}) % W{} + sum(V{});
  using losses = type_list<>;
  using observed = type_list<>;
};

}  // namespace

static_assert(count_macs<Composed>(at<tokens>(7), at<Composed::D>(8), at<Composed::N>(2)) == 7 * 2 * 4 * 3);
static_assert(count_parameters<Composed>(at<Composed::D>(8), at<Composed::N>(2)) == 4 * 3 + 3 * 16 * 10);

TEST_CASE("count: sizes that cannot be are refused") {
  CHECK_THROWS_WITH_AS((void)count_macs<plain>(at<tokens>(-3)), "headmix: a size must not be negative; found -3",
                       Error);
  CHECK_THROWS_WITH_AS((void)count_macs<plain>(at<tokens>(7), at<sequences>(2)),
                       "headmix: 7 cannot be divided into 2 equal parts", Error);
  CHECK_THROWS_WITH_AS((void)count_macs<plain>(at<tokens>(7), at<sequences>(0)),
                       "headmix: 7 cannot be divided into 0 equal parts", Error);
  CHECK_THROWS_WITH_AS((void)count_parameters<Composed>(at<Composed::D>(8), at<Composed::N>(3)),
                       "headmix: 8 cannot be divided into 3 equal parts", Error);
}
TEST_CASE("count: the pairs of a mask in closed form are those that it lets through") {
  auto const check_mask = []<class Mask>(Mask) {
    for (Index queries = 0; queries < 9; ++queries) {
      for (Index keys = 0; keys < 9; ++keys) {
        Index pairs = 0;
        for (Index t = keys - queries; t < keys; ++t) {
          for (Index s = 0; s < keys; ++s) pairs += Mask::sees(t, s) ? 1 : 0;
        }
        CHECK(headmix::detail::visible_pairs(std::type_identity<Mask>{}, queries, keys).value == pairs);
      }
    }
  };
  check_mask(full{});
  check_mask(causal{});
  check_mask(sliding_window<1>{});
  check_mask(sliding_window<3>{});
  check_mask(even{});
}
TEST_CASE("count: sizes whose products no Index can hold are an error with the sizes") {
  using layer = Moa<512, 64, SoftmaxTopK<8, 2>, causal>;
  // A sum over a billion tokens, without a loop.
  CHECK(count_macs<layer>({.attention_term = false}, at<tokens>(Index{1} << 30)) ==
        (count_macs<layer>({.attention_term = false}, at<tokens>(Index{1})) << 30));
  CHECK(count_macs<layer>(at<tokens>(Index{1} << 20)) > 0);
  CHECK_THROWS_WITH_AS(static_cast<void>(count_macs<layer>(at<tokens>(Index{1} << 40))),
                       doctest::Contains("sizes are too large: "), Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(count_macs<layer>(at<tokens>(-5))),
                       "headmix: a size must not be negative; found -5", Error);
  constexpr Index wide = Index{1} << 22;
  CHECK_THROWS_WITH_AS(
      static_cast<void>(count_parameters<any_size>(at<any_size::model_dim>(wide), at<any_size::head_dim>(wide),
                                                   at<any_size::context_dim>(wide), at<any_size::experts>(wide))),
      "headmix: sizes are too large: 17592186044416 * 4194304 is more than 9223372036854775807", Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(parity_hidden(Index{1} << 40, {.hidden = Index{1} << 62, .experts = 8}, 3)),
                       doctest::Contains("sizes are too large: "), Error);
}

}  // namespace count_test

// SPDX-License-Identifier: MIT
// MoH with shared heads only, and with other routers.

#include "headmix/router/softmax_top_k.hpp"
#include "moh.hpp"

namespace moh_router_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// The head of a token is given by the sign of its first feature; the weight is that feature.
struct by_sign {
  struct experts : size<2> {};
  struct top_k : size<1> {};
  template <Expr X, class Tag = void>
  struct route {
    static constexpr auto first = gather_cols(X{}, iota_cols<size<0>, size<1>, cols<X>>(X{}));
    static constexpr auto index = arg_top_k<top_k>(concat_cols(first, -first));
    static constexpr auto gate = first;
    using losses = type_list<>;
  };
};

}  // namespace

TEST_CASE("moh: of a softmax top-k router") {
  check_layer<Moh<4, 3, SoftmaxTopK<4, 2, gating::renormalized>, sliding_window<3>, value_bias>>();
}
TEST_CASE("moh: all heads shared") { check_layer<Moh<4, 3, TwoStage<3, 0, 0>, causal, kv_heads<1>, query_bias>>(); }
TEST_CASE("moh: of a custom router, which observes the heads themselves") {
  using L = Moh<4, 3, by_sign>;
  static_assert(std::is_same_v<L::observed, type_list<type_of<decltype(L::r::index)>>>);
  TestProgram<roots<type_of<decltype(L::y)>>> p(at<tokens>(6));
  auto const r = p.check_gradients();
  CAPTURE(r.text);
  CHECK(r.ok());
}

}  // namespace moh_router_test

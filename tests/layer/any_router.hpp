#pragma once
// SPDX-License-Identifier: MIT
// Every router with every layer, and every expert with MhMoe: the library's and a user's.

#include "../test_program.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/smoe.hpp"

namespace headmix::test {

/// The cosine of a token and each expert's vector, times a learned scale.
template <Index Experts, Index TopK>
struct CosineTopK {
  struct experts : size<Experts> {};
  struct top_k : size<TopK> {};
  template <Expr X, class Tag = void>
  struct route {
    struct V : router_param<cols<X>, experts> {};
    struct log_scale : router_param<size<1>> {};
    static constexpr auto lengths = safe_sqrt(row_sum(square(X{}))) * safe_sqrt(col_sum(square(V{})));
    static constexpr auto p = softmax(upcast(X{} % V{}) / lengths * exp(log_scale{}));
    static constexpr auto index = arg_top_k<top_k>(p);
    static constexpr auto gate = gather_cols(p, index);
    using losses = type_list<>;
  };
};
static_assert(RouterPolicy<CosineTopK<4, 2>>);

/// x W_e + b_e
struct Affine {
  template <Extent E, Extent D, class Tag = void>
  struct experts {
    struct W : param<E, D, D> {};
    struct b : bias_param<E, D> {};
    template <Expr X, Expr G, Selection Chosen>
    static constexpr auto mixture(X x, G gate, Chosen index) {
      return combine(gate, expert_linear(x, W{}, index) + expert_bias(b{}, index));
    }
  };
};
static_assert(ExpertPolicy<Affine>);

/// Routers whose gates can be checked by differences; sampled experts do not change with the input.
using PlainRouter = SoftmaxTopK<4, 2, gating::raw>;
using NoisyRouter = NoisyTopK<4, 3, sampled<1>>;
using TwoStageRouter = TwoStage<1, 3, 2>;
using OwnRouter = CosineTopK<4, 2>;

}  // namespace headmix::test

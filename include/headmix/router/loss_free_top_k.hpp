#pragma once
// SPDX-License-Identifier: MIT
// The router of DeepSeek-V3, balanced without a loss (Wang et al. 2024).

#include "headmix/expr/initializer.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/router/router.hpp"

namespace headmix {

/// Chooses the TopK experts with the largest p + b, p = sigmoid(x W_g), with weights p / sum of the chosen p. The bias
/// b is a buffer without a gradient: update_selection_bias() (train/selection_bias.hpp) raises it for experts with less
/// than the mean load. (DeepSeek-V3, equations 13 to 16)
template <Index Experts, Index TopK>
struct LossFreeTopK {
  struct experts : size<Experts> {};
  struct top_k : size<TopK> {};
  template <Expr X, class Tag = void>
  struct route {
    struct W_g : router_param<cols<X>, experts> {
      using initializer = fan_in_uniform;
    };
    struct selection_bias : buffer<experts> {};
    static constexpr auto p = sigmoid(upcast(X{} % W_g{}));
    static constexpr auto index = arg_top_k<top_k>(p + selection_bias{});
    static constexpr auto gate = normalize_sum(gather_cols(p, index));
    using losses = type_list<>;
  };
};

}  // namespace headmix

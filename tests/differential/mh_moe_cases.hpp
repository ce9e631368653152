#pragma once
// SPDX-License-Identifier: MIT

#include "differential.hpp"
#include "headmix/layer/smoe.hpp"

namespace headmix::differential {

struct MhMoeManyOptions {
  static constexpr bool also_in_double = true;
  using shared = FeedForward<dynamic, activation::gelu>;
  using layer = MhMoe<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic, gating::raw, loss::first_choice_balance>,
                      FeedForward<dynamic>, head_bias, merge_bias, subtoken_residual, shared_expert<shared>, padded,
                      capacity<dynamic>, output_dropout<1, 10>>;
  static auto sizes(Dice& dice, Shape& shape) {
    Index const split = dice.range(1, 4), experts = dice.range(1, 6);
    shape.width = split * dice.range(1, 6), shape.padded = true;
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::split>(split), at<layer::experts>(experts),
                      at<layer::top_k>(dice.range(1, experts)), at<layer::network::hidden_dim>(dice.range(1, 12)),
                      at<shared::template shared<layer::model_dim>::hidden_dim>(dice.range(1, 12)),
                      at<layer::expert_capacity>(dice.range(0, 40)));
  }
};

}  // namespace headmix::differential

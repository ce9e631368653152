#pragma once
// SPDX-License-Identifier: MIT

#include "differential.hpp"
#include "headmix/layer/moa.hpp"

namespace headmix::differential {

struct MoaManyOptions {
  static constexpr bool also_in_double = true;
  using layer = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>, causal, query_bias, key_bias, value_bias,
                    output_bias, kv_heads<dynamic>, rope<>, padded, probability_dropout<1, 10>, output_dropout<1, 10>>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20), shape.padded = true;
    Index const experts = dice.range(1, 6);
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::head_dim>(2 * dice.range(1, 5)),
                      at<layer::kv_heads>(dice.range(1, 3)), at<layer::experts>(experts),
                      at<layer::top_k>(dice.range(1, experts)));
  }
};

}  // namespace headmix::differential

// SPDX-License-Identifier: MIT
#include "headmix/layer/mae.hpp"

#include "differential.hpp"

namespace headmix::differential {
namespace {

struct Mixture {
  static constexpr bool also_in_double = true;
  using layer = Mae<dynamic, 4, dynamic, causal, left_out_heads<2>, gate_dim<5>, output_bias, padded, rope<>,
                    probability_dropout<1, 10>>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20), shape.padded = true;
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::head_dim>(2 * dice.range(1, 5)));
  }
};
struct OneExpert {
  using mixture = Mae<dynamic, 3, dynamic, pool::window<3>, gate_dim<4>, context_dim<dynamic>, output_dropout<1, 5>>;
  using layer = mixture::expert<choice::drawn>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20), shape.context_width = dice.range(1, 20);
    return std::tuple(at<mixture::model_dim>(shape.width), at<mixture::context_dim>(shape.context_width),
                      at<mixture::head_dim>(dice.range(1, 9)));
  }
};

}  // namespace

std::vector<Entry> mae_layers() {
  return {entry<Mixture>("Mae, the mixture"), entry<OneExpert>("Mae, one expert of each sequence")};
}

}  // namespace headmix::differential

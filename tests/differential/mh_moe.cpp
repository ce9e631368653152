// SPDX-License-Identifier: MIT
#include "headmix/router/two_stage.hpp"
#include "mh_moe_cases.hpp"

namespace headmix::differential {
namespace {

struct Ternary {
  static constexpr bool also_in_double = true;
  using R = TwoStage<1, 4, 2>;
  using layer =
      MhMoe<dynamic, dynamic, R, FeedForward<dynamic, activation::relu, weights::ternary>, no_head, capacity<5, 4>>;
  static auto sizes(Dice& dice, Shape& shape) {
    Index const split = dice.range(1, 4);
    shape.width = split * dice.range(2, 8), shape.contiguous = true;
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::split>(split),
                      at<layer::network::hidden_dim>(dice.range(1, 12)));
  }
};
struct Whole {
  using layer = Smoe<dynamic, SoftmaxTopK<dynamic, dynamic, gating::renormalized, loss::z_with_padding>,
                     FeedForward<dynamic, activation::gelu>, padded>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20), shape.padded = shape.reads_padding = true;
    Index const experts = dice.range(1, 6);
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::experts>(experts),
                      at<layer::top_k>(dice.range(1, experts)), at<layer::network::hidden_dim>(dice.range(1, 12)));
  }
};

}  // namespace

std::vector<Entry> mh_moe_layers() {
  return {entry<MhMoeManyOptions>("MhMoe, many options"), entry<Ternary>("MhMoe, ternary experts, no head"),
          entry<Whole>("Smoe"), entry<Whole, inference>("Smoe, prepared for inference")};
}

}  // namespace headmix::differential

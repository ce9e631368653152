// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"

#include "headmix/router/two_stage.hpp"
#include "moa_cases.hpp"

namespace headmix::differential {
namespace {

struct Cross {
  using layer = Moa<dynamic, dynamic, NoisyTopK<dynamic, 3, sampled<1>, loss::cv_squared>, context_dim<dynamic>,
                    query_bias, value_bias, soft_cap<5>>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20), shape.context_width = dice.range(1, 20);
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::context_dim>(shape.context_width),
                      at<layer::head_dim>(dice.range(1, 9)), at<layer::experts>(dice.range(3, 7)));
  }
};
struct TwoStages {
  using R = TwoStage<dynamic, dynamic, dynamic, scaling::paper>;
  using layer = Moa<dynamic, dynamic, R, sliding_window<5>, kv_heads<2>, alibi>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20);
    Index const routed = dice.range(1, 4);
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::head_dim>(dice.range(1, 9)),
                      at<R::shared_heads>(dice.range(1, 2)), at<R::routed_heads>(routed),
                      at<R::routed_top_k>(dice.range(1, routed)));
  }
};

}  // namespace

std::vector<Entry> moa_layers() {
  return {entry<MoaManyOptions>("Moa, many options"), entry<Cross>("Moa, cross-attention, noise, sampling"),
          entry<TwoStages>("Moa, two stages, window, alibi"),
          entry<TwoStages, inference>("Moa, two stages, prepared for inference")};
}

}  // namespace headmix::differential

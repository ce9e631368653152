// SPDX-License-Identifier: MIT
#include "headmix/layer/moh.hpp"

#include "differential.hpp"
#include "headmix/layer/multi_head.hpp"

namespace headmix::differential {
namespace {

struct TwoStages {
  static constexpr bool also_in_double = true;
  using R = TwoStage<dynamic, dynamic, dynamic>;
  using layer = Moh<dynamic, dynamic, R, causal, kv_heads<dynamic>, query_bias, output_bias, padded, rope<100>,
                    probability_dropout<1, 5>>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20), shape.padded = true;
    Index const shared = dice.range(1, 3), routed = dice.range(1, 4);
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::head_dim>(2 * dice.range(1, 5)),
                      at<R::shared_heads>(shared), at<R::routed_heads>(routed),
                      at<R::routed_top_k>(dice.range(1, routed)), at<layer::kv_heads>(dice.divisor(shared + routed)));
  }
};
struct AllByNorm {
  using R = QueryNorm<dynamic, dynamic, dynamic, loss::head_balance_unscaled>;
  using layer = Moh<dynamic, dynamic, R, context_dim<dynamic>, padded, soft_cap<4>, value_bias>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20), shape.context_width = dice.range(1, 20), shape.padded = true;
    // The standardized lengths of two heads are always 1 and -1 over the root of 2, so their gradient is 0, and float
    // computes the rounding errors of large terms.
    Index const routed = dice.range(3, 5);
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::context_dim>(shape.context_width),
                      at<layer::head_dim>(dice.range(1, 9)), at<R::shared_heads>(dice.range(1, 2)),
                      at<R::routed_heads>(routed), at<R::routed_top_k>(dice.range(1, routed)));
  }
};
struct ActiveByNorm {
  using layer = Moh<dynamic, dynamic, QueryNorm<2, 4, 2, estimator::active>, sliding_window<7>, qk_norm, key_bias,
                    output_dropout<1, 3>>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20);
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::head_dim>(dice.range(3, 9)));
  }
};
/// A learned slope for each head.
struct far_is_less : score_map {
  template <Extent Heads>
  struct slope : bias_param<Heads> {};
  static constexpr auto f(auto s, auto heads) {
    return s - slope<decltype(heads)>{} * abs(query_position{} - key_position{});
  }
};
struct Dense {
  static constexpr bool also_in_double = true;
  using layer = MultiHead<dynamic, dynamic, dynamic, causal, kv_heads<dynamic>, query_bias, key_bias, value_bias,
                          output_bias, far_is_less, soft_cap<6>>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20);
    Index const heads = dice.range(1, 6);
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::head_dim>(dice.range(1, 9)), at<layer::heads>(heads),
                      at<layer::kv_heads>(dice.divisor(heads)));
  }
};
struct OnImages {
  using layer = MultiHead<dynamic, 3, dynamic, cosine_scores<9>, relative_position_bias<3, 3, 4>, query_bias>;
  static auto sizes(Dice& dice, Shape& shape) {
    shape.width = dice.range(1, 20), shape.length = 9;
    // k / |k| of one number is 1 or -1, with a gradient of 0.
    return std::tuple(at<layer::model_dim>(shape.width), at<layer::head_dim>(dice.range(2, 9)));
  }
};

}  // namespace

std::vector<Entry> moh_layers() {
  return {entry<TwoStages>("Moh, two stages, rope"), entry<AllByNorm>("Moh, by norms, all heads"),
          entry<ActiveByNorm>("Moh, by norms, active heads, qk_norm"), entry<Dense>("MultiHead, score maps"),
          entry<OnImages>("MultiHead, cosine scores, relative bias")};
}

}  // namespace headmix::differential

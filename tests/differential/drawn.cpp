// SPDX-License-Identifier: MIT
// Written by definition/generate.py --draw 1: 10 layers whose options were drawn at random.

#include "../definition/own_options.hpp"
#include "differential.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::differential {
namespace {

using namespace headmix::definition;

struct drawn_0 {
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::raw, noise<>, sampled<1>>, neighbouring_keys, kv_heads<2>,
      probability_dropout<1, 4>, output_dropout<1, 4>, output_bias, soft_cap<2>, value_bias, geometric_alibi,
      learned_gain>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6;
    return {};
  }
};
struct drawn_1 {
  using layer = Moa<6, 4, TwoStage<0, 6, 2, loss::first_choice_balance, loss::head_balance_unscaled>,
      probability_dropout<1, 4>, key_bias, rope<>, value_bias, geometric_alibi, query_bias, output_bias,
      output_dropout<1, 4>, padded>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6, shape.padded = true;
    return {};
  }
};
struct drawn_2 {
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::detached, noise<>, sampled<2>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, cosine_scores<6>, key_bias, query_bias, soft_cap<2>,
      dense_projections, geometric_alibi>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6, shape.reads_padding = true;
    return {};
  }
};
struct drawn_3 {
  using layer = Moh<6, 4, TwoStage<2, 4, 1, scaling::paper, loss::cv_squared>, output_dropout<1, 4>,
      relative_position_bias<2, 3, 4, 3, 5>, padded, kv_heads<2>, value_bias, geometric_alibi, query_bias,
      probability_dropout<1, 4>, place_and_head, soft_cap<5, 2>>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6, shape.padded = true, shape.length = 6;
    return {};
  }
};
struct drawn_4 {
  using layer = MultiHead<6, 6, 4, neighbouring_keys, relative_position_bias<2, 3, 4>, probability_dropout<1, 4>,
      alibi, qk_norm, query_bias, kv_heads<2>, output_bias>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6, shape.length = 6;
    return {};
  }
};
struct drawn_5 {
  using layer = MultiHead<6, 6, 4, value_bias, learned_slope, sliding_window<3>, relative_position_bias<2, 3, 4>,
      probability_dropout<1, 4>, rope<>, cosine_scores<6>, learned_gain>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6, shape.length = 6;
    return {};
  }
};
struct drawn_6 {
  using layer = MhMoe<6, 1, TwoStage<6, 0, 0, scaling::paper, loss::cv_squared>, FeedForward<3, activation::gelu,
      weights::ternary>, capacity<1, 2>, padded, head_bias, subtoken_residual, output_dropout<1, 4>>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6, shape.padded = true, shape.contiguous = true;
    return {};
  }
};
struct drawn_7 {
  using layer = MhMoe<6, 3, TwoStage<2, 4, 1>, FeedForward<3, activation::gelu>, shared_expert<FeedForward<5,
      activation::gelu>>, capacity<1, 2>, output_dropout<1, 4>, head_bias, padded, subtoken_residual>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6, shape.padded = true, shape.contiguous = true;
    return {};
  }
};
struct drawn_8 {
  using layer = Mae<6, 5, 4, pool::prefix, output_bias, soft_cap<2>, rope<>, probability_dropout<1, 4>, padded,
      context_dim<5>, gate_dim<5>, sliding_window<3>, alibi, learned_gain>::expert<choice::best>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6, shape.context_width = 5, shape.padded = true;
    return {};
  }
};
struct drawn_9 {
  using layer = Mae<6, 5, 4, output_bias, pool::all, probability_dropout<1, 4>, alibi, gate_dim<5>,
      context_dim<5>>::expert<choice::uniform>;
  static std::tuple<> sizes(Dice&, Shape& shape) {
    shape.width = 6, shape.context_width = 5;
    return {};
  }
};

}  // namespace

std::vector<Entry> drawn_layers() {
  return {entry<drawn_0>("moa, drawn 0"),
          entry<drawn_1>("moa, drawn 1"),
          entry<drawn_2>("moh, drawn 0"),
          entry<drawn_3>("moh, drawn 1"),
          entry<drawn_4>("multi_head, drawn 0"),
          entry<drawn_5>("multi_head, drawn 1"),
          entry<drawn_6>("mh_moe, drawn 0"),
          entry<drawn_7>("mh_moe, drawn 1"),
          entry<drawn_8>("mae, drawn 0"),
          entry<drawn_9>("mae, drawn 1")};
}

}  // namespace headmix::differential

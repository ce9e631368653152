// SPDX-License-Identifier: MIT
// A key bias that shifts all scores of a query alike, whose gradient is 0: the layer detaches it.

#include "check.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::key_bias_test {

struct in_multi_head {
  static constexpr char const* name = "MultiHead, key_bias";
  using layer = MultiHead<6, 6, 4, sliding_window<3>, query_bias, key_bias, kv_heads<2>, context_dim<5>, alibi>;
  static layer_options options() {
    return {.family = family::multi_head,
            .heads = 6,
            .mask = mask_kind::window,
            .query_bias = true,
            .key_bias = true,
            .kv_heads = 2,
            .context_width = 5,
            .maps = {{map_kind::alibi}}};
  }
};
struct in_moa {
  static constexpr char const* name = "Moa, key_bias";
  using layer = Moa<6, 4, TwoStage<1, 4, 2>, causal, key_bias, padded, place_and_head>;
  static layer_options options() {
    return {.family = family::moa,
            .mask = mask_kind::causal,
            .key_bias = true,
            .padded = true,
            .maps = {{map_kind::place_and_head}},
            .router = router_kind::two_stage,
            .top_k = 2,
            .shared = 1,
            .routed = 4,
            .losses = {loss_kind::head_balance}};
  }
};

TEST_CASE("definition: a key bias that no probability depends on") {
  static_assert(in_multi_head::layer::softmax_hides_key_bias && in_moa::layer::softmax_hides_key_bias);
  check<in_multi_head>();
  check<in_moa>();
}

}  // namespace headmix::definition::key_bias_test

// SPDX-License-Identifier: MIT
// Decoders against the definitions: a sequence in chunks of any size.

#include "headmix/decode/decoder.hpp"

#include "check.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

namespace headmix::definition::decoder_test {

constexpr Index text_rows = 6;

template <class L>
void check_decoder(layer_options const& o) {
  using Backend = Reference<double>;
  Module<L, Backend, inference> m(1);
  Arrays arrays{{"x", drawn("x", text_rows * o.width, 1.5, 1)}};
  if (o.value_width > 0) arrays["values"] = drawn("values", text_rows * o.value_width, 1.5, 1);
  for (auto const& p : m.parameters()) {
    auto& values = arrays[std::string(p.name)];
    values = drawn(std::string(p.name), p.value.size(), 0.8, 1);
    std::copy(values.begin(), values.end(), p.value.data);
  }
  Setting s;
  s.sequences.resize(1);
  for (Count i = 0; i < text_rows; ++i) s.sequences[0].queries.push_back(i), s.sequences[0].keys.push_back(i);
  s.dy.assign(arrays["x"].size(), 1), s.loss_weights.assign(3, 1);
  double slope_error = 0;
  Pass const expected = pass_of(o, arrays, s, slope_error);
  Decoder<L, Backend> decoder({.tokens = text_rows}, share_parameters{}, m);
  for (Index size = 1; size <= text_rows; ++size) {
    decoder.rewind(0, 0);
    Pass found;
    found.losses = expected.losses;
    for (Index begin = 0; begin < text_rows; begin += size) {
      Index const rows = (std::min)(size, text_rows - begin);
      if constexpr (requires {
                      requires headmix::detail::contains <
                          typename Decoder<L, Backend>::module_type::program_type::leaves,
                      typename L::values > ;
                    }) {
        decoder.module().program().bind(typename L::values{},
                                        {arrays["values"].data() + begin * o.value_width, rows, o.value_width});
      }
      auto const y = to_doubles(decoder.prefill({arrays["x"].data() + begin * o.width, rows, o.width}));
      found.y.insert(found.y.end(), y.begin(), y.end());
    }
    CAPTURE(size);
    CHECK(differences(found, expected, 1e-10) == "");
  }
}

TEST_CASE("definition: a decoder of MultiHead") {
  check_decoder<MultiHead<6, 4, 4, causal, kv_heads<2>, query_bias, key_bias, value_bias, output_bias, qk_norm, rope<>,
                          relative_position_bias<2, 3, 4>, learned_slope, soft_cap<2>>>(
      {.mask = mask_kind::causal,
       .query_bias = true,
       .key_bias = true,
       .value_bias = true,
       .output_bias = true,
       .kv_heads = 2,
       .rope_theta = 10000,
       .scores = scores_kind::layer_norm,
       .image_height = 2,
       .image_width = 3,
       .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 2}}});
}
TEST_CASE("definition: a decoder of MultiHead with values of a further input") {
  check_decoder<MultiHead<6, 4, 4, causal, value_dim<3>, rope<>>>(
      {.mask = mask_kind::causal, .value_width = 3, .rope_theta = 10000});
}
TEST_CASE("definition: a decoder of Moh") {
  check_decoder<
      Moh<6, 4, TwoStage<1, 3, 2>, sliding_window<3>, kv_heads<2>, key_bias, cosine_scores<6>, rope<>, place_and_head>>(
      {.family = family::moh,
       .mask = mask_kind::window,
       .key_bias = true,
       .kv_heads = 2,
       .rope_theta = 10000,
       .scores = scores_kind::cosine,
       .maps = {{map_kind::place_and_head}},
       .router = router_kind::two_stage,
       .top_k = 2,
       .shared = 1,
       .routed = 3,
       .losses = {loss_kind::head_balance}});
}
TEST_CASE("definition: a decoder of Moa") {
  check_decoder<Moa<6, 4, SoftmaxTopK<4, 2, gating::raw>, first_and_latest_keys, kv_heads<2>, query_bias, output_bias,
                    rope<>, geometric_alibi, learned_gain>>(
      {.family = family::moa,
       .mask = mask_kind::first_and_latest,
       .query_bias = true,
       .output_bias = true,
       .kv_heads = 2,
       .rope_theta = 10000,
       .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}},
       .router = router_kind::softmax_top_k,
       .gating = gating_kind::raw,
       .losses = {loss_kind::load_balance, loss_kind::z}});
}
TEST_CASE("definition: a decoder of Mae") {
  check_decoder<Mae<6, 4, 4, causal, left_out_heads<2>, pool::window<2>, gate_dim<5>, rope<>, alibi, soft_cap<2>>>(
      {.family = family::mae,
       .mask = mask_kind::causal,
       .rope_theta = 10000,
       .maps = {{map_kind::alibi}, {map_kind::soft_cap, 2}},
       .left_out = 2,
       .gate_dim = 5,
       .pool = pool_kind::window});
}

}  // namespace headmix::definition::decoder_test

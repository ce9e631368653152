// SPDX-License-Identifier: MIT
// Programs without gradients against the definitions: the active heads alone of QueryNorm, and packed weights.

#include "check.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/copy_parameters.hpp"

namespace headmix::definition::inference_test {

/// y of a module for inference, which draws nothing, and of the definition.
template <class T>
void check_results(layer_options const& o, double tolerance, auto make) {
  for (int which = 0; which < 2; ++which) {
    Case c = case_of(o, which, 1);
    Arrays arrays = c.arrays;
    auto const m = make(arrays);
    std::vector<T> const x(arrays["x"].begin(), arrays["x"].end());
    batch const tokens = c.queries.as_batch();
    auto const found = to_doubles(m->forward({x.data(), c.queries.rows(), o.width}, tokens));
    double slope_error = 0;
    c.setting.draws = {};
    Pass const expected = pass_of(o, arrays, c.setting, slope_error);
    Pass of_layer;
    of_layer.y = found, of_layer.losses = expected.losses;
    CAPTURE(which);
    CHECK(differences(of_layer, expected, tolerance) == "");
  }
}
template <class M>
void fill(M& m, Arrays& arrays) {
  for (auto const& p : m.parameters()) {
    auto& values = arrays[std::string(p.name)];
    values = drawn(std::string(p.name), p.value.size(), 0.8, 1);
    for (Index i = 0; i < p.value.size(); ++i) {
      p.value.data[i] =
          static_cast<std::remove_reference_t<decltype(p.value.data[0])>>(values[static_cast<std::size_t>(i)]);
    }
  }
}

TEST_CASE("definition: the active heads of QueryNorm alone") {
  using L = Moh<6, 4, QueryNorm<1, 3, 2>, sliding_window<3>, kv_heads<2>, query_bias, key_bias, output_bias, qk_norm,
                rope<>, padded, alibi, soft_cap<2>>;
  layer_options const o{.family = family::moh,
                        .mask = mask_kind::window,
                        .query_bias = true,
                        .key_bias = true,
                        .output_bias = true,
                        .kv_heads = 2,
                        .padded = true,
                        .rope_theta = 10000,
                        .scores = scores_kind::layer_norm,
                        .maps = {{map_kind::alibi}, {map_kind::soft_cap, 2}},
                        .router = router_kind::query_norm,
                        .top_k = 2,
                        .shared = 1,
                        .routed = 3,
                        .losses = {loss_kind::head_balance}};
  using Backend = Reference<double>;
  check_results<double>(o, 1e-10, [](Arrays& arrays) {
    auto m = std::make_unique<Module<L, Backend, inference>>(1);
    fill(*m, arrays);
    return m;
  });
}

template <class Weights>
using layer_of = MhMoe<6, 2, SoftmaxTopK<4, 2, gating::raw>, FeedForward<5, Weights>, padded, capacity<1>, no_merge,
                       head_bias, subtoken_residual, shared_expert<FeedForward<4, activation::gelu, Weights>>>;

TEST_CASE("definition: packed weights") {
  layer_options const o{.family = family::mh_moe,
                        .padded = true,
                        .router = router_kind::softmax_top_k,
                        .gating = gating_kind::raw,
                        .losses = {loss_kind::load_balance, loss_kind::z},
                        .split = 2,
                        .merge = false,
                        .head_bias = true,
                        .residual = true,
                        .expert = {.hidden = 5, .ternary = true},
                        .shared_expert = {.hidden = 4, .activation = activation_kind::gelu, .ternary = true},
                        .capacity = 1};
  check_results<float>(o, 1e-4, [](Arrays& arrays) {
    Module<layer_of<weights::ternary>, Cpu<float>> trained(1);
    fill(trained, arrays);
    auto m = std::make_unique<Module<layer_of<weights::packed>, Cpu<float>, inference>>(1);
    copy_parameters(trained, *m);
    return m;
  });
}

}  // namespace headmix::definition::inference_test

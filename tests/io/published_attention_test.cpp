// SPDX-License-Identifier: MIT
// Attention of published models, loaded from files with their names and shapes: compared with numbers of the published
// code where available, otherwise with loops over the file's numbers.

#include "files.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "named.hpp"

using namespace headmix;
using namespace headmix::test;

TEST_CASE("names: attention of Llama with grouped keys, with biases") {
  std::string const at = "model.layers.3.self_attn.";
  NamedFile f;
  auto const &q = f.add(at + "q_proj.weight", {16, 6}, 0.5, 0.7), &k = f.add(at + "k_proj.weight", {8, 6}, 0.5, 1.1),
             &v = f.add(at + "v_proj.weight", {8, 6}, 0.5, 1.3), &o = f.add(at + "o_proj.weight", {6, 16}, 0.5, 1.7),
             &b_q = f.add(at + "q_proj.bias", {16}, 0.3, 1.9), &b_k = f.add(at + "k_proj.bias", {8}, 0.3, 2.1),
             &b_v = f.add(at + "v_proj.bias", {8}, 0.3, 2.2);
  f.add("model.norm.weight", {6}, 1, 1);
  Loaded<MultiHead<6, 4, 4, causal, kv_heads<2>, rope<>, query_bias, key_bias, value_bias>> m(1);
  load(m, f.tensors, "f", published::llama_attention().below(at));
  auto const x = sines(5 * 6, 2.3);
  auto queries = linear(x, q.data(), 16, 6, b_q.data()), keys = linear(x, k.data(), 8, 6, b_k.data());
  rotate_half(queries, 16, 4);
  rotate_half(keys, 8, 4);
  auto const heads = causal_attention(queries, keys, linear(x, v.data(), 8, 6, b_v.data()), 4, 2, 4,
                                      [](std::size_t h) { return h / 2; });
  agree(m.forward({x.data(), 5, 6}), linear(heads, o.data(), 6, 16));
}

TEST_CASE("names: MoH's LLaMA") {
  NamedFile f;
  f.add("q_proj.weight", {32, 32}, 0.5, 0.7);
  f.add("k_proj.weight", {16, 32}, 0.5, 1.1);
  f.add("v_proj.weight", {16, 32}, 0.5, 1.3);
  f.add("o_proj.weight", {32, 32}, 0.5, 1.7);
  Loaded<Moh<32, 4, QueryNorm<4, 4, 2>, causal, kv_heads<4>, rope<>>> m(1);
  load(m, f.tensors, "f", published::llama_attention());
  auto const x = sines(5 * 32, 2.3);
  is_published(m.forward({x.data(), 5, 32}), {0.0854372928, -0.4280002438, 0.3821463258, 0.0105113185}, -0.1537671524,
               4.1067281233);
}

TEST_CASE("names: MoH's DiT") {
  NamedFile f;
  f.add("attn.qkv.weight", {72, 12}, 0.5, 0.7);
  f.add("attn.qkv.bias", {72}, 0.1, 1.1);
  f.add("attn.proj.weight", {12, 24}, 0.5, 1.3);
  f.add("attn.proj.bias", {12}, 0.1, 1.7);
  f.add("attn.wg.weight", {4, 12}, 1, 1.9);
  f.add("attn.wg_0.weight", {2, 12}, 1, 2.1);
  f.add("attn.wg_1.weight", {2, 12}, 1, 2.2);
  Loaded<Moh<12, 4, TwoStage<2, 4, 2>, query_bias, key_bias, value_bias, output_bias>> m(1);
  load(m, f.tensors, "f", published::moh_image_attention().below("attn."));
  auto const x = sines(120, 2.3);
  is_published(m.forward({x.data(), 10, 12}, uniform(2, 5)), {0.1702454751, 0.0486345133, -0.0187287871, 0.1194981043},
               -2.3393544709, 2.4930567480);
}

TEST_CASE("names: MoH's ViT") {
  using L = Moh<8, 2, TwoStage<1, 3, 2>, query_bias, key_bias, value_bias, output_bias, cosine_scores<6>,
                relative_position_bias<2, 3, 5>>;
  NamedFile f;
  auto const &qkv = f.add("qkv.weight", {24, 8}, 0.5, 0.7), &b = f.add("qkv.bias", {24}, 0.5, 0.8),
             &proj = f.add("proj.weight", {8, 8}, 0.5, 0.9), &b_o = f.add("proj.bias", {8}, 0.5, 1.1),
             &wg = f.add("wg.weight", {3, 8}, 1, 1.2), &wg_0 = f.add("wg_0.weight", {2, 8}, 1, 1.3),
             &tau = f.add("temperature", {4, 1, 1}, 1, 1.4), &e = f.add("query_embedding", {4, 1, 2}, 1, 1.6),
             &w_1 = f.add("cpb_fc1.weight", {5, 2}, 1, 1.7), &b_1 = f.add("cpb_fc1.bias", {5}, 1, 1.8),
             &w_2 = f.add("cpb_fc2.weight", {4, 5}, 1, 1.9), &b_2 = f.add("cpb_fc2.bias", {4}, 1, 2.1);
  Loaded<L> m(1);
  load(m, f.tensors, "f", published::moh_image_attention());
  auto const x = sines(6 * 8, 2.3);
  auto const all = linear(x, qkv.data(), 24, 8, b.data()), u = linear(x, wg.data(), 3, 8),
             a = linear(x, wg_0.data(), 2, 8);
  auto const unit = [&all](std::size_t t, std::size_t part, std::size_t h, std::size_t i) {
    double const *v = all.data() + t * 24 + part * 8 + h * 2, norm = std::hypot(v[0], v[1]);
    return v[i] / norm;
  };
  auto const log_spaced = [](double c) { return std::copysign(std::log2(std::abs(c) + 1) / 3, c); };
  std::vector<double> heads(6 * 8, 0);
  for (std::size_t t = 0; t < 6; ++t) {
    // The two routed heads with the largest logits; their weights sum to 2 before the group weights.
    double gate[4] = {1, std::exp(u[t * 3]), std::exp(u[t * 3 + 1]), std::exp(u[t * 3 + 2])};
    std::size_t least = 1;
    for (std::size_t h = 2; h < 4; ++h) least = gate[h] < gate[least] ? h : least;
    gate[least] = 0;
    double const sum = gate[1] + gate[2] + gate[3], alpha = 2 / (1 + std::exp(a[t * 2 + 1] - a[t * 2]));
    gate[0] = alpha;
    for (std::size_t h = 1; h < 4; ++h) gate[h] *= (2 - alpha) * 2 / sum;
    for (std::size_t h = 0; h < 4; ++h) {
      std::vector<double> p(6);
      double total = 0;
      for (std::size_t s = 0; s < 6; ++s) {
        double const distance[2] = {static_cast<double>(t / 3) - static_cast<double>(s / 3),
                                    static_cast<double>(t % 3) - static_cast<double>(s % 3)};
        double const c[2] = {log_spaced(8 * distance[0] / 1), log_spaced(8 * distance[1] / 2)};
        double bias = b_2[h], score = 0;
        for (std::size_t j = 0; j < 5; ++j) {
          bias += w_2[h * 5 + j] * std::max(0.0, w_1[j * 2] * c[0] + w_1[j * 2 + 1] * c[1] + b_1[j]);
        }
        for (std::size_t i = 0; i < 2; ++i) score += (unit(t, 0, h, i) + e[h * 2 + i]) * unit(s, 1, h, i);
        total += p[s] = std::exp(score * std::log1p(std::exp(tau[h])) * std::log(6.0) + bias);
      }
      for (std::size_t s = 0; s < 6; ++s) {
        for (std::size_t i = 0; i < 2; ++i)
          heads[t * 8 + h * 2 + i] += gate[h] * p[s] / total * all[s * 24 + 16 + h * 2 + i];
      }
    }
  }
  agree(m.forward({x.data(), 6, 8}), linear(heads, proj.data(), 8, 8, b_o.data()));
}

TEST_CASE("names: MoA's code") {
  NamedFile f;
  std::string const at = "decoder.layers.0.self_attn.";
  f.add(at + "q_proj.w_gate", {8, 6}, 1, 0.7);
  f.add(at + "q_proj.experts.w", {6, 8, 4}, 0.5, 1.1);
  f.add(at + "q_proj.output_experts.w", {6, 4, 8}, 0.5, 1.3);
  f.add(at + "k_proj.weight", {4, 8}, 0.5, 1.7);
  f.add(at + "v_proj.weight", {4, 8}, 0.5, 1.9);
  Loaded<Moa<8, 4, SoftmaxTopK<6, 2, gating::raw>, causal>> m(1);
  load(m, f.tensors, "f", published::moa_attention().below(at));
  std::vector<double> x(80);  // the published x is [time, batch, width]
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t t = 0; t < 5; ++t) {
      for (std::size_t j = 0; j < 8; ++j)
        x[(b * 5 + t) * 8 + j] = std::sin(2.3 * static_cast<double>((t * 2 + b) * 8 + j + 1));
    }
  }
  is_published(m.forward({x.data(), 10, 8}, uniform(2, 5)), {.1388227107, .7568294502, .2660792721, -.6144776630},
               3.6898843485, 7.3562794145);
}

TEST_CASE("names: attention of JetMoE") {
  NamedFile f;
  auto const &router = f.add("experts.router.layer.weight", {3, 6}, 1, 0.7),
             &in = f.add("experts.input_linear.weight", {3, 8, 6}, 0.5, 1.1),
             &out = f.add("experts.output_linear.weight", {3, 6, 8}, 0.5, 1.3),
             &bias = f.add("experts.bias", {6}, 0.5, 1.4), &kv = f.add("kv_proj.weight", {16, 6}, 0.5, 1.7);
  Loaded<Moa<6, 4, SoftmaxTopK<3, 2, gating::renormalized>, causal, kv_heads<2>, rope<>, output_bias>> m(1);
  load(m, f.tensors, "f", published::jetmoe_attention());
  auto const x = sines(5 * 6, 2.3);
  auto keys = linear(x, kv.data(), 8, 6);
  rotate_half(keys, 8, 4);
  auto const logits = linear(x, router.data(), 3, 6), values = linear(x, kv.data() + 8 * 6, 8, 6);
  std::vector<double> expected(5 * 6);
  for (std::size_t e = 0; e < 3; ++e) {  // every expert for all tokens, with weight 0 if it was not chosen
    auto queries = linear(x, in.data() + e * 48, 8, 6);
    rotate_half(queries, 8, 4);
    auto const y = linear(causal_attention(queries, keys, values, 2, 2, 4, [](std::size_t h) { return h; }),
                          out.data() + e * 48, 6, 8);
    for (std::size_t t = 0; t < 5; ++t) {
      double const *const z = logits.data() + t * 3;
      double const least = std::min({z[0], z[1], z[2]}), sum = std::exp(z[0]) + std::exp(z[1]) + std::exp(z[2]);
      double const gate = z[e] > least ? std::exp(z[e]) / (sum - std::exp(least)) : 0;
      for (std::size_t j = 0; j < 6; ++j) expected[t * 6 + j] += gate * y[t * 6 + j] + (e == 0 ? bias[j] : 0);
    }
  }
  agree(m.forward({x.data(), 5, 6}), expected);

  // Writing restores the file, unless experts have learned different biases.
  Folder const folder;
  save(folder / "a", m, published::jetmoe_attention());
  CHECK(same(Safetensors::read(folder / "a").tensors(), f.tensors));
  for (auto const &p : m.parameters()) {
    if (p.name == "b_o") p.value.data[7] += 1;
  }
  CHECK_THROWS_WITH_AS(save(folder / "a", m, published::jetmoe_attention()),
                       doctest::Contains("a: \"experts.bias\": expected pieces of b_o that are equal"), Error);
}

// SPDX-License-Identifier: MIT
// Whole networks of MoA's and of MH-MoE's code, with the names of fairseq and torchscale, against loops over the file's
// numbers and the definitions of their layers.

#include "../definition/definition.hpp"
#include "../error_of.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "named.hpp"

namespace fairseq_networks_test {

using namespace headmix;
using namespace headmix::test;
using numbers = std::vector<double>;

namespace {

constexpr Index width = 6, hidden = 5, words = 7, length = 4;
constexpr std::size_t d = width;
struct depth : size<dynamic> {};

struct Gain : param<size<width>> {
  using initializer = ones;
};
struct Bias : bias_param<size<width>> {};

/// Sines and cosines of positions, as in Vaswani et al. 2017, and a position for every row.
struct sines_of_positions : constant<size<length>, size<width>> {
  static double element(Index t, Index j) {
    double const angle = static_cast<double>(t) * std::pow(10'000., -static_cast<double>(j % 3) / 2.);
    return j < 3 ? std::sin(angle) : std::cos(angle);
  }
};

/// The feed-forward network of both.
struct Ffn {
  struct x : input<tokens, size<width>> {};
  struct W_1 : param<size<width>, size<hidden>> {};
  struct b_1 : bias_param<size<hidden>> {};
  struct W_2 : param<size<hidden>, size<width>> {};
  struct b_2 : bias_param<size<width>> {};
  static constexpr auto y = relu(x{} % W_1{} + b_1{}) % W_2{} + b_2{};
  using losses = type_list<>;
  using observed = type_list<>;
};

// MoA's code: x = LN(x + attention(x)), x = LN(x + ffn(x)).
using Router = SoftmaxTopK<3, 2, gating::raw>;
struct EncoderBlock {
  struct x : input<tokens, size<width>> {};
  struct self_gain : Gain {};
  struct self_bias : Bias {};
  struct ffn_gain : Gain {};
  struct ffn_bias : Bias {};
  static constexpr auto self = use<Moa<width, 4, Router, key_bias, value_bias>, "self">(x{});
  struct h : let<decltype(layer_norm(x{} + self.y, self_gain{}, self_bias{}))> {};
  static constexpr auto ffn = use<Ffn, "ffn">(h{});
  static constexpr auto y = layer_norm(h{} + ffn.y, ffn_gain{}, ffn_bias{});
  using losses = type_list<>;
  using observed = type_list<>;
};
struct DecoderBlock {
  struct x : input<tokens, size<width>> {};
  struct context : input<context_tokens, size<width>> {};
  struct self_gain : Gain {};
  struct self_bias : Bias {};
  struct cross_gain : Gain {};
  struct cross_bias : Bias {};
  struct ffn_gain : Gain {};
  struct ffn_bias : Bias {};
  static constexpr auto self = use<Moa<width, 4, Router, causal, key_bias, value_bias>, "self">(x{});
  struct a : let<decltype(layer_norm(x{} + self.y, self_gain{}, self_bias{}))> {};
  static constexpr auto cross =
      use<Moa<width, 4, Router, context_dim<width>, key_bias, value_bias>, "cross">(a{}, context{});
  struct h : let<decltype(layer_norm(a{} + cross.y, cross_gain{}, cross_bias{}))> {};
  static constexpr auto ffn = use<Ffn, "ffn">(h{});
  static constexpr auto y = layer_norm(h{} + ffn.y, ffn_gain{}, ffn_bias{});
  using losses = type_list<>;
  using observed = type_list<>;
};
struct Encoder {
  struct x : selection<tokens, size<1>, size<words>> {};
  struct place : selection<tokens, size<1>, size<length>> {};
  struct W_s : param<size<words>, size<width>> {};
  struct embedded : let<decltype(gather_rows(W_s{}, x{}) + gather_rows(sines_of_positions{}, place{}))> {};
  static constexpr auto blocks = repeat<depth, EncoderBlock, "encoder">(embedded{});
  static constexpr auto y = blocks.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
struct Logits {
  struct x : selection<tokens, size<1>, size<words>> {};
  struct place : selection<tokens, size<1>, size<length>> {};
  using context = DecoderBlock::context;
  struct W_e : param<size<words>, size<width>> {};
  struct W_lm : param<size<words>, size<width>> {};
  struct embedded : let<decltype(gather_rows(W_e{}, x{}) + gather_rows(sines_of_positions{}, place{}))> {};
  static constexpr auto blocks = repeat<depth, DecoderBlock, "decoder">(embedded{}, context{});
  static constexpr auto y = blocks.y % t(W_lm{});
  using losses = type_list<>;
  using observed = type_list<>;
};

// MH-MoE's code: x = x + attention(LN(x)), x = x + mixture(LN(x)).
struct MixtureBlock {
  using Attention = MultiHead<width, 2, 3, causal, query_bias, key_bias, value_bias, output_bias>;
  using Mixture = MhMoe<width, 2, SoftmaxTopK<3, 2, gating::raw, loss::first_choice_balance>,
                        FeedForward<hidden, activation::gelu, feed_forward_bias>, head_bias, merge_bias>;
  struct x : input<tokens, size<width>> {};
  struct attn_gain : Gain {};
  struct attn_bias : Bias {};
  struct ffn_gain : Gain {};
  struct ffn_bias : Bias {};
  static constexpr auto attn = use<Attention, "attn">(layer_norm(x{}, attn_gain{}, attn_bias{}));
  struct h : let<decltype(x{} + attn.y)> {};
  static constexpr auto ffn = use<Mixture, "ffn">(layer_norm(h{}, ffn_gain{}, ffn_bias{}));
  static constexpr auto y = h{} + ffn.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
struct MixtureDecoder {
  struct x : selection<tokens, size<1>, size<words>> {};
  struct W_e : param<size<words>, size<width>> {};
  struct gain : Gain {};
  struct bias : Bias {};
  static constexpr auto blocks = repeat<depth, MixtureBlock, "blocks">(gather_rows(W_e{}, x{}));
  static constexpr auto y = layer_norm(blocks.y, gain{}, bias{}) % t(W_e{});
  using losses = type_list<>;
  using observed = type_list<>;
};

struct File : NamedFile {
  double next = 0.31;

  void tensor(std::string const& name, std::vector<Index> shape, double scale) {
    add(name, std::move(shape), scale, next += 0.23);
  }
  void linear_layer(std::string const& name, Index out, Index in) {
    tensor(name + ".weight", {out, in}, 0.6);
    tensor(name + ".bias", {out}, 0.3);
  }
  void norm(std::string const& name) {
    tensor(name + ".weight", {width}, 0.9);
    tensor(name + ".bias", {width}, 0.4);
  }
  void mixture_of_heads(std::string const& at) {
    tensor(at + "q_proj.w_gate", {width, 3}, 0.7);
    tensor(at + "q_proj.experts.w", {3, width, 4}, 0.6);
    tensor(at + "q_proj.output_experts.w", {3, 4, width}, 0.6);
    linear_layer(at + "k_proj", 4, width);
    linear_layer(at + "v_proj", 4, width);
  }
  /// Two layers of encoder and decoder of MoA's code.
  static File of_moa() {
    File f;
    for (std::string const side : {"encoder", "decoder"}) {
      f.tensor(side + ".embed_tokens.weight", {words, width}, 1);
      f.tensor(side + ".version", {1}, 3);
      f.tensor(side + ".embed_positions._float_tensor", {1}, 1);
      for (int b = 0; b < 2; ++b) {
        std::string const at = message(side, ".layers.", b, ".");
        f.mixture_of_heads(at + "self_attn.");
        f.norm(at + "self_attn_layer_norm");
        if (side == "decoder") f.mixture_of_heads(at + "encoder_attn."), f.norm(at + "encoder_attn_layer_norm");
        f.linear_layer(at + "fc1", hidden, width);
        f.linear_layer(at + "fc2", width, hidden);
        for (std::string const of : {"weight", "bias"}) {  // the code stores them again
          f.tensors[at + "ffd.0." + of] = f.tensors.at(at + "fc1." + of);
          f.tensors[at + (side == "encoder" ? "ffd.3." : "ffd.2.") + of] = f.tensors.at(at + "fc2." + of);
        }
        f.norm(at + "final_layer_norm");
      }
    }
    f.tensor("decoder.output_projection.weight", {words, width}, 0.8);
    return f;
  }
  /// Two layers of MH-MoE's code, whose logits read the embedding.
  static File of_mh_moe() {
    File f;
    f.tensor("decoder.embed_tokens.weight", {words, width}, 1);
    f.norm("decoder.layer_norm");
    for (int b = 0; b < 2; ++b) {
      std::string const at = message("decoder.layers.", b, ".");
      for (std::string const name : {"q_proj", "k_proj", "v_proj", "out_proj"})
        f.linear_layer(at + "self_attn." + name, width, width);
      f.norm(at + "self_attn_layer_norm");
      f.norm(at + "final_layer_norm");
      f.linear_layer(at + "moe_layer.multi_heads", width, width);
      f.linear_layer(at + "moe_layer.out_proj", width, width);
      f.tensor(at + "moe_layer.gate.wg.weight", {3, width / 2}, 0.7);
      for (int e = 0; e < 3; ++e) {
        f.linear_layer(message(at, "moe_layer.experts.", e, ".fc1"), hidden, width / 2);
        f.linear_layer(message(at, "moe_layer.experts.", e, ".fc2"), width / 2, hidden);
      }
    }
    return f;
  }

  // ---- its networks ----

  [[nodiscard]] numbers const& of(std::string const& name) const { return values.at(name); }
  [[nodiscard]] numbers transposed(std::string const& name, std::size_t in) const {
    numbers const& w = of(name);
    numbers y(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) y[i % in * (w.size() / in) + i / in] = w[i];
    return y;
  }
  [[nodiscard]] numbers apply(std::string const& name, numbers const& x) const {
    auto const &w = of(name + ".weight"), &b = of(name + ".bias");
    return linear(x, w.data(), b.size(), w.size() / b.size(), b.data());
  }
  [[nodiscard]] numbers normalised(std::string const& name, numbers x) const {
    for (std::size_t t = 0; t < x.size(); t += d) {
      double mean = 0, square = 0;
      for (std::size_t j = 0; j < d; ++j) mean += x[t + j] / d;
      for (std::size_t j = 0; j < d; ++j) square += std::pow(x[t + j] - mean, 2) / d;
      for (std::size_t j = 0; j < d; ++j) {
        x[t + j] = (x[t + j] - mean) / std::sqrt(square + 1e-5) * of(name + ".weight")[j] + of(name + ".bias")[j];
      }
    }
    return x;
  }
  static numbers sum(numbers x, numbers const& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    return x;
  }
  /// A layer by its definition.
  static numbers defined(definition::layer_options const& o, definition::Arrays const& arrays) {
    definition::Values v;
    definition::Inputs in;
    std::map<std::string, definition::Row> rows;
    for (auto const& [name, values] : arrays) rows[name] = definition::Row(values.begin(), values.end());
    definition::detail::bind(o, rows, v, in);
    definition::Sequence s;
    for (std::size_t t = 0; t < in.x.size(); ++t) s.queries.push_back(static_cast<Index>(t));
    s.keys = s.queries;
    if (o.context_width > 0) {
      s.keys.clear();
      for (std::size_t t = 0; t < in.context.size(); ++t) s.keys.push_back(static_cast<Index>(t));
    }
    in.sequences = {s};
    numbers y;
    for (auto const& row : definition::results(o, v, in).y) {
      for (auto const& a : row) y.push_back(a.value);
    }
    return y;
  }
  [[nodiscard]] numbers heads(std::string const& at, bool is_causal, numbers const& x,
                              numbers const& context = {}) const {
    using namespace definition;
    layer_options const o{.family = family::moa,
                          .width = width,
                          .head_dim = 4,
                          .mask = is_causal ? mask_kind::causal : mask_kind::full,
                          .key_bias = true,
                          .value_bias = true,
                          .context_width = context.empty() ? 0 : width,
                          .router = router_kind::softmax_top_k,
                          .experts = 3,
                          .top_k = 2,
                          .gating = gating_kind::raw};
    Arrays arrays{{"x", x},
                  {"W_g", of(at + "q_proj.w_gate")},
                  {"W_q", of(at + "q_proj.experts.w")},
                  {"W_o", of(at + "q_proj.output_experts.w")},
                  {"W_k", transposed(at + "k_proj.weight", d)},
                  {"b_k", of(at + "k_proj.bias")},
                  {"W_v", transposed(at + "v_proj.weight", d)},
                  {"b_v", of(at + "v_proj.bias")}};
    if (!context.empty()) arrays["context"] = context;
    return defined(o, arrays);
  }
  [[nodiscard]] numbers ffn(std::string const& at, numbers const& x) const {
    numbers h = apply(at + "fc1", x);
    for (double& a : h) a = std::max(a, 0.0);
    return apply(at + "fc2", h);
  }
  [[nodiscard]] numbers embedded(std::string const& side, std::vector<Int> const& ids, bool with_places) const {
    numbers x;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      for (std::size_t j = 0; j < d; ++j) {
        double const place =
            with_places ? sines_of_positions::element(static_cast<Index>(t), static_cast<Index>(j)) : 0;
        x.push_back(of(side + ".embed_tokens.weight")[static_cast<std::size_t>(ids[t]) * d + j] + place);
      }
    }
    return x;
  }
  [[nodiscard]] numbers encoded(std::vector<Int> const& ids) const {
    numbers x = embedded("encoder", ids, true);
    for (int b = 0; b < 2; ++b) {
      std::string const at = message("encoder.layers.", b, ".");
      x = normalised(at + "self_attn_layer_norm", sum(x, heads(at + "self_attn.", false, x)));
      x = normalised(at + "final_layer_norm", sum(x, ffn(at, x)));
    }
    return x;
  }
  [[nodiscard]] numbers decoded(std::vector<Int> const& ids, numbers const& context) const {
    numbers x = embedded("decoder", ids, true);
    for (int b = 0; b < 2; ++b) {
      std::string const at = message("decoder.layers.", b, ".");
      x = normalised(at + "self_attn_layer_norm", sum(x, heads(at + "self_attn.", true, x)));
      x = normalised(at + "encoder_attn_layer_norm", sum(x, heads(at + "encoder_attn.", false, x, context)));
      x = normalised(at + "final_layer_norm", sum(x, ffn(at, x)));
    }
    return linear(x, of("decoder.output_projection.weight").data(), words, d);
  }
  [[nodiscard]] numbers mixed(std::vector<Int> const& ids) const {
    using namespace definition;
    numbers x = embedded("decoder", ids, false);
    for (int b = 0; b < 2; ++b) {
      std::string const at = message("decoder.layers.", b, "."), attn = at + "self_attn.", moe = at + "moe_layer.";
      x = sum(x, defined({.family = family::multi_head,
                          .width = width,
                          .heads = 2,
                          .head_dim = 3,
                          .mask = mask_kind::causal,
                          .query_bias = true,
                          .key_bias = true,
                          .value_bias = true,
                          .output_bias = true},
                         {{"x", normalised(at + "self_attn_layer_norm", x)},
                          {"W_q", transposed(attn + "q_proj.weight", d)},
                          {"W_k", transposed(attn + "k_proj.weight", d)},
                          {"W_v", transposed(attn + "v_proj.weight", d)},
                          {"W_o", transposed(attn + "out_proj.weight", d)},
                          {"b_q", of(attn + "q_proj.bias")},
                          {"b_k", of(attn + "k_proj.bias")},
                          {"b_v", of(attn + "v_proj.bias")},
                          {"b_o", of(attn + "out_proj.bias")}}));
      Arrays arrays{
          {"x", normalised(at + "final_layer_norm", x)}, {"W_head", transposed(moe + "multi_heads.weight", d)},
          {"b_head", of(moe + "multi_heads.bias")},      {"W_merge", transposed(moe + "out_proj.weight", d)},
          {"b_merge", of(moe + "out_proj.bias")},        {"W_g", transposed(moe + "gate.wg.weight", d / 2)}};
      auto const append = [&](std::string const& name, numbers const& more) {
        arrays[name].insert(arrays[name].end(), more.begin(), more.end());
      };
      for (int e = 0; e < 3; ++e) {
        std::string const expert = message(moe, "experts.", e, ".");
        append("W_up", transposed(expert + "fc1.weight", d / 2));
        append("b_up", of(expert + "fc1.bias"));
        append("W_down", transposed(expert + "fc2.weight", hidden));
        append("b_down", of(expert + "fc2.bias"));
      }
      x = sum(x, defined({.family = family::mh_moe,
                          .width = width,
                          .router = router_kind::softmax_top_k,
                          .experts = 3,
                          .top_k = 2,
                          .gating = gating_kind::raw,
                          .split = 2,
                          .head_bias = true,
                          .merge_bias = true,
                          .expert = {.hidden = hidden, .activation = activation_kind::gelu, .bias = true}},
                         arrays));
    }
    return linear(normalised("decoder.layer_norm", x), of("decoder.embed_tokens.weight").data(), words, d);
  }
};

std::vector<Int> const source = {3, 0, 6, 2}, target = {5, 1, 4}, places = {0, 1, 2, 3};
view<Int const> column(std::vector<Int> const& ids, std::size_t n) { return {ids.data(), static_cast<Index>(n), 1}; }
template <class L>
using Built = Module<L, Reference<double>, inference>;

}  // namespace

TEST_CASE("whole networks: the encoder and the decoder of MoA's code") {
  File const f = File::of_moa();
  Built<Encoder> encoder(1, {}, at<depth>(2));
  load(encoder, f.tensors, "f", published::moa().ignoring("decoder.*"));
  encoder.program().bind(Encoder::place{}, column(places, 4));
  auto const context = encoder.forward(column(source, 4));
  agree(context, f.encoded(source));

  Built<Logits> decoder(1, {}, at<depth>(2));
  load(decoder, f.tensors, "f", published::moa().ignoring("encoder.*"));
  decoder.program().bind(Logits::place{}, column(places, 3));
  agree(decoder.forward(column(target, 3), uniform(1, 3), context, uniform(1, 4)),
        f.decoded(target, f.encoded(source)));
}

TEST_CASE("whole networks: the decoder of MH-MoE's code") {
  File f = File::of_mh_moe();
  Built<MixtureDecoder> m(1, {}, at<depth>(2));
  load(m, f.tensors, "f", published::mh_moe_decoder());
  agree(m.forward(column(source, 4)), f.mixed(source));
  f.tensor("decoder.layers.1.moe_layer.experts.1.ffn_layernorm.weight", {hidden}, 1);
  CHECK(says(error_of([&] { load(m, f.tensors, "f", published::mh_moe_decoder()); }),
             "f: \"decoder.layers.1.moe_layer.experts.1.ffn_layernorm.weight\""));
}

}  // namespace fairseq_networks_test

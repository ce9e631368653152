// SPDX-License-Identifier: MIT
// The numbers of parameters and multiply-accumulates that Zhang et al. 2022 print for models with MoA, and Jin et al.
// 2024 for language models with MoH, from the layers of this library. Everything but attention (embeddings,
// feed-forward blocks, norms, the output) is counted by hand.

#include <string_view>

#include "headmix/count/count.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"

namespace static_counts {

using namespace headmix;

namespace {

constexpr Index mega = 1'000'000, giga = 1'000'000'000;

/// True if n, rounded to the digits of a table, equals the printed text.
constexpr bool prints(Index n, std::string_view text, Index unit) {
  Index digits = 0;
  bool fraction = false;
  for (char const c : text) {
    if (c == '.') {
      fraction = true;
    } else {
      digits = 10 * digits + (c - '0');
      if (fraction) unit /= 10;
    }
  }
  return (n + unit / 2) / unit == digits;
}
static_assert(prints(61'894'999, "61.89", mega) && !prints(61'895'000, "61.89", mega) && prints(5'500, "6", 1'000));

constexpr Index linear(Index in, Index out) { return in * out; }
constexpr Index linear_with_bias(Index in, Index out) { return in * out + out; }
constexpr Index layer_norm(Index width) { return 2 * width; }

// ---- Tables 1 and 3: translation, WMT14 English-German ----
// An encoder and a decoder; each of the decoder's layers has two attentions. Sentences of 10 tokens on either side.
// MACs are those of linear maps, the router's among them: the tables leave the attention term out. The paper names a
// vocabulary of 32k, but no single one gives all of its numbers, so each group has the one that fits:
// - numbers of parameters: about 37,000, for source, target and output together, and no biases in the attention;
// - MACs of the MoA rows: 31,945 to 31,971, for the output;
// - MACs of Admin 18-18: 31,992 or more, since 1485 must round up to the 1490 that is printed.

struct translator {
  Index encoder_layers, decoder_layers, width, hidden;
};
constexpr translator base = {6, 6, 512, 2048}, big = {6, 6, 1024, 4096};
constexpr Index words_for_parameters = 37'000, words_for_macs = 31'960, words_for_dense_macs = 32'000;

template <class Encoder, class Decoder, class Cross>
constexpr Index translator_parameters(translator m) {
  Index const attention = m.encoder_layers * count_parameters<Encoder>() +
                          m.decoder_layers * (count_parameters<Decoder>() + count_parameters<Cross>());
  Index const feed_forward = (m.encoder_layers + m.decoder_layers) *
                             (linear_with_bias(m.width, m.hidden) + linear_with_bias(m.hidden, m.width));
  Index const norms = (2 * m.encoder_layers + 3 * m.decoder_layers) * layer_norm(m.width);
  return linear(words_for_parameters, m.width) + attention + feed_forward + norms;
}

template <class Encoder, class Decoder, class Cross>
constexpr Index translator_macs(translator m, Index words) {
  constexpr Index length = 10;
  constexpr auto attention_macs = []<class Layer>(std::type_identity<Layer>) {
    return count_macs<Layer>({.attention_term = false}, at<tokens>(length), at<context_tokens>(length));
  };
  Index const attention =
      m.encoder_layers * attention_macs(std::type_identity<Encoder>{}) +
      m.decoder_layers * (attention_macs(std::type_identity<Decoder>{}) + attention_macs(std::type_identity<Cross>{}));
  Index const feed_forward =
      (m.encoder_layers + m.decoder_layers) * length * (linear(m.width, m.hidden) + linear(m.hidden, m.width));
  return attention + feed_forward + length * linear(m.width, words);
}

/// With as many keys as queries a dense cross-attention costs as much as a self-attention.
template <Index Width, Index Heads>
constexpr Index dense_macs(translator m, Index words) {
  using encoder = MultiHead<Width, Heads, 64>;
  using decoder = MultiHead<Width, Heads, 64, causal>;
  return translator_macs<encoder, decoder, encoder>(m, words);
}
static_assert(prints(dense_macs<512, 8>(base, words_for_macs), "604", mega));
static_assert(prints(dense_macs<512, 8>(base, words_for_macs), "604.04", mega));
// The larger baselines are printed to three digits.
static_assert(prints(dense_macs<1024, 16>(big, words_for_dense_macs), "2.09", giga));
static_assert(prints(dense_macs<1024, 16>(big, words_for_dense_macs), "2089.3", mega));
constexpr translator admin_18_18 = {18, 18, 512, 2048}, admin_60_12 = {60, 12, 512, 2048};
static_assert(prints(dense_macs<512, 8>(admin_18_18, words_for_dense_macs), "1.49", giga));
static_assert(prints(dense_macs<512, 8>(admin_18_18, words_for_dense_macs), "1485", mega));
static_assert(prints(dense_macs<512, 8>(admin_60_12, words_for_dense_macs), "2.55", giga));
static_assert(prints(dense_macs<512, 8>(admin_60_12, words_for_dense_macs), "2555", mega));

/// Base and big differ from each other, and from the rows of the ablation, in K, E and D alone.
template <Index K, Index E, Index D>
struct translation {
  using router = SoftmaxTopK<E, K>;
  using encoder = Moa<512, D, router>;
  using decoder = Moa<512, D, router, causal>;
  using cross = Moa<512, D, router, context_dim<512>>;
  static constexpr Index macs = translator_macs<encoder, decoder, cross>(base, words_for_macs);
  static constexpr Index parameters = translator_parameters<encoder, decoder, cross>(base);
};
constexpr bool row(Index n, std::string_view printed, std::string_view exact) {
  return prints(n, printed, mega) && prints(n, exact, mega);
}
// clang-format off
static_assert(row(translation< 8,  8, 128>::macs,  "628",  "628.37") && row(translation< 8,  8, 128>::parameters,  "65",  "65.48"));  // base
static_assert(row(translation< 8,  8, 256>::macs,  "841",  "840.70") && row(translation< 8,  8, 256>::parameters,  "87",  "86.71"));  // A
static_assert(row(translation< 8, 16, 256>::macs,  "841",  "841.44") && row(translation< 8, 16, 256>::parameters, "125", "124.53"));  // B
static_assert(row(translation< 8, 32,  64>::macs,  "524",  "524.41") && row(translation< 8, 32,  64>::parameters,  "83",  "83.39"));  // C
static_assert(row(translation< 8, 32, 128>::macs,  "631",  "630.58"));                                                                // D: 122.32 M parameters, printed 123
static_assert(                                                          row(translation< 8, 32, 256>::parameters, "200", "200.18"));  // E: 842.92 M MACs, printed 841, without the router
static_assert(row(translation< 4, 32, 256>::macs,  "654",  "654.17") && row(translation< 4, 32, 256>::parameters, "200", "200.18"));  // F
static_assert(row(translation<16, 32, 256>::macs, "1220", "1220.40") && row(translation<16, 32, 256>::parameters, "200", "200.18"));  // big
// clang-format on

// ---- Table 2: masked language model, WikiText-103 ----
// 8 layers of width 512 with biases everywhere, the attention's included, 50,265 words, 128 + 2 learned
// positions. The head is a linear map, a norm and a bias for every word; its words are the embedding's. Its
// MACs are not compared: the table counts the attention term for MoA and not for the baseline.

constexpr Index language_model_parameters(Index attention) {
  constexpr Index layers = 8, width = 512, hidden = 2048, words = 50'265, positions = 128 + 2;
  Index const layer =
      attention + linear_with_bias(width, hidden) + linear_with_bias(hidden, width) + 2 * layer_norm(width);
  Index const embedding = linear(words, width) + linear(positions, width) + layer_norm(width);
  Index const head = linear_with_bias(width, width) + layer_norm(width) + words;
  return embedding + layers * layer + head;
}
/// MultiHead has no biases: add four of the model's width.
constexpr Index dense_language_model = language_model_parameters(count_parameters<MultiHead<512, 8, 64>>() + 4 * 512);
template <Index K, Index E, Index D>
constexpr Index language_model = language_model_parameters(
    count_parameters<Moa<512, D, SoftmaxTopK<E, K>, query_bias, key_bias, value_bias, output_bias>>());

static_assert(row(dense_language_model, "51.34", "51.336"));
// 8K8E128D has 52.444 M, printed 52.45
static_assert(row(language_model<8, 8, 256>, "61.89", "61.892"));
static_assert(row(language_model<8, 16, 256>, "78.75", "78.751"));
static_assert(row(language_model<8, 32, 256>, "112.47", "112.469"));
static_assert(row(language_model<8, 64, 256>, "179.91", "179.906"));

// ---- equations (18) to (20) ----

template <Index T, Index K, Index E, Index D, Index H>
constexpr bool moa_equations() {
  using layer = Moa<D, H, SoftmaxTopK<E, K>>;
  constexpr Index attention_term = K * T * T * H, router = T * D * E;
  constexpr Index equation_18 = attention_term + 2 * (K + 1) * T * H * D, equation_20 = (2 * E + 2) * H * D;
  return count_macs<layer>(at<tokens>(T)) == equation_18 + attention_term + router &&
         count_macs<layer>({.router = false}, at<tokens>(T)) == equation_18 + attention_term &&
         count_macs<layer>({.attention_term = false}, at<tokens>(T)) == equation_18 - attention_term + router &&
         count_macs<layer>({.router = false, .attention_term = false}, at<tokens>(T)) == equation_18 - attention_term &&
         count_parameters<layer>() == equation_20 + D * E && count_parameters<layer>({.router = false}) == equation_20;
}
static_assert(moa_equations<128, 8, 32, 512, 256>() && moa_equations<3, 1, 1, 7, 5>() &&
              moa_equations<0, 2, 4, 8, 4>());

template <Index T, Index Heads, Index H>
constexpr bool multi_head_equations() {
  constexpr Index D = Heads * H;
  using layer = MultiHead<D, Heads, H>;
  return count_macs<layer>(at<tokens>(T)) == 4 * T * D * D + 2 * T * T * D &&
         count_macs<layer>({.attention_term = false}, at<tokens>(T)) == 4 * T * D * D &&
         count_parameters<layer>() == 4 * D * D;
}
static_assert(multi_head_equations<10, 8, 64>() && multi_head_equations<7, 1, 3>());

// Keys and values that decoding keeps, per token and layer: 2 d_h for MoA, 2 d for multi-head attention.
template <class Layer>
constexpr Index cached = cols<decltype(Layer::k)>::value + cols<decltype(Layer::v)>::value;
static_assert(4 * cached<translation<8, 8, 128>::decoder> == cached<MultiHead<512, 8, 64>>);
static_assert(2 * cached<translation<16, 32, 256>::decoder> == cached<MultiHead<512, 8, 64>>);

// ---- Jin et al. 2024, table 3: language models with MoH ----
// Attention without biases, SwiGLU, root-mean-square norms, 65,536 words, input and output apart.

constexpr Index moh_language_model(Index layers, Index width, Index hidden, Index attention) {
  constexpr Index words = 65'536;
  return 2 * linear(words, width) + layers * (attention + 3 * linear(width, hidden) + 2 * width) + width;
}
template <Index Layers, Index Width, Index Hidden, Index Heads>
constexpr Index dense_model = moh_language_model(Layers, Width, Hidden,
                                                 count_parameters<MultiHead<Width, Heads, Width / Heads, causal>>());
/// Shared heads are always active, and TopK of the others for a token, on which the number of parameters does not
/// depend.
template <Index Layers, Index Width, Index Hidden, Index Heads, Index Shared, Index TopK>
constexpr Index moh_model =
    moh_language_model(Layers, Width, Hidden,
                       count_parameters<Moh<Width, Width / Heads, TwoStage<Shared, Heads - Shared, TopK>, causal>>());

static_assert(prints(dense_model<12, 768, 2048, 12>, "186", mega) &&
              prints(dense_model<12, 768, 2048, 12>, "185.62", mega));
static_assert(prints(moh_model<12, 768, 2048, 12, 3, 6>, "186", mega) &&
              prints(moh_model<12, 768, 2048, 12, 3, 6>, "185.75", mega));
static_assert(moh_model<12, 768, 2048, 12, 2, 4> == moh_model<12, 768, 2048, 12, 3, 6>);
static_assert(prints(dense_model<24, 1536, 4096, 16>, "881", mega) &&
              prints(dense_model<24, 1536, 4096, 16>, "880.88", mega));
static_assert(prints(moh_model<24, 1536, 4096, 16, 4, 8>, "882", mega) &&
              prints(moh_model<24, 1536, 4096, 16, 4, 8>, "881.54", mega));

/// Parameters of a layer's router: d (h - shared_heads), 2 d for the groups, and shared_heads d for two or more shared
/// heads.
template <Index D, Index Shared, Index Routed, Index TopK>
constexpr Index router_parameters = count_parameters<Moh<D, 4, TwoStage<Shared, Routed, TopK>>>() -
                                    count_parameters<Moh<D, 4, TwoStage<Shared, Routed, TopK>>>({.router = false});
static_assert(router_parameters<12, 2, 4, 2> == 12 * (4 + 2 + 2) && router_parameters<12, 1, 5, 2> == 12 * (5 + 2));
static_assert(router_parameters<12, 0, 6, 3> == 12 * 6 && router_parameters<12, 6, 0, 0> == 12 * 6);
static_assert(router_parameters<12, 1, 0, 0> == 0);
static_assert(count_parameters<Moh<12, 4, QueryNorm<3, 3, 2>>>() == count_parameters<MultiHead<12, 6, 4>>());
static_assert(count_parameters<Moh<12, 4, TwoStage<2, 4, 2>>>({.router = false}) ==
              count_parameters<MultiHead<12, 6, 4>>());

// ---- Jin et al. 2024, tables 1 and 2: shares of active heads ----
// The heads of layers of the published configurations: all of them, those that are shared, and those chosen.

template <Index Layers, Index Heads, Index Shared, Index TopK>
struct layers {
  using router = TwoStage<Shared, TopK == 0 ? 0 : Heads - Shared, TopK>;
  static constexpr Index active = Layers * router::top_k::value, all = Layers * router::experts::value;
  static_assert(all == Layers * Heads);
};
/// Active heads in percent of all, as printed.
template <class... L>
constexpr bool share_prints(std::string_view text) {
  constexpr Index active = (L::active + ...), all = (L::all + ...);
  return prints(100 * mega * active / all, text, mega);
}
// clang-format off
static_assert(share_prints<layers<5, 3, 3, 0>, layers<5, 6, 6, 0>, layers<22, 12, 3, 6>, layers<5, 24, 8, 12>>("79.95"));   // MoH-ViT-S, 80 %
static_assert(share_prints<layers<5, 3, 3, 0>, layers<5, 6, 6, 0>, layers<22, 12, 3, 6>, layers<5, 24, 4, 12>>("75.29"));   // MoH-ViT-S, 75 %
static_assert(share_prints<layers<5, 4, 4, 0>, layers<5, 8, 8, 0>, layers<23, 16, 4, 8>, layers<5, 32, 5, 16>>("75.0"));    // MoH-ViT-B, 75 %
static_assert(share_prints<layers<5, 4, 2, 2>, layers<5, 8, 2, 4>, layers<23, 16, 2, 6>, layers<5, 32, 4, 8>>("50.0"));     // MoH-ViT-B, 50 %
static_assert(share_prints<layers<9, 8, 8, 0>, layers<10, 16, 16, 0>, layers<9, 24, 16, 3>>("89.96"));                      // MoH-DiT-XL, 90 %
static_assert(share_prints<layers<9, 8, 8, 0>, layers<10, 16, 10, 2>, layers<9, 24, 14, 2>>("75.0"));                       // MoH-DiT-XL, 75 %
static_assert(share_prints<layers<8, 8, 8, 0>, layers<8, 16, 16, 0>, layers<8, 24, 16, 3>>("89.6"));                        // MoH-DiT-L, 90 %
static_assert(share_prints<layers<5, 12, 6, 4>, layers<5, 12, 7, 4>, layers<2, 12, 12, 0>>("89.6"));                        // MoH-DiT-B, 90 %
static_assert(share_prints<layers<8, 6, 3, 2>, layers<4, 6, 6, 0>>("88.9"));                                                // MoH-DiT-S, 90 %
static_assert(share_prints<layers<32, 32, 16, 8>>("75.0"));                                                                 // MoH-LLaMA3-8B
// clang-format on

// Score maps cost no products.
using mapped = MultiHead<64, 4, 16, causal, alibi, soft_cap<30>>;
using unmapped = MultiHead<64, 4, 16, causal>;
static_assert(count_macs<mapped>(at<tokens>(10)) == count_macs<unmapped>(at<tokens>(10)) &&
              count_parameters<mapped>() == count_parameters<unmapped>());

}  // namespace

}  // namespace static_counts

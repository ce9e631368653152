// SPDX-License-Identifier: MIT
// The numbers of parameters and multiply-accumulates that the papers print for models of the layers of
// layer/papers.hpp. Everything but these layers (embeddings, norms, other feed-forward networks, the output) is counted
// by hand. Cells that no single rule gives are listed where they are left out.

#include "headmix/layer/papers.hpp"

#include <string_view>

#include "headmix/count/count.hpp"

namespace static_papers {

using namespace headmix;
using namespace headmix::papers;

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
constexpr bool row(Index n, std::string_view printed, std::string_view exact) {
  return prints(n, printed, mega) && prints(n, exact, mega);
}

constexpr Index linear(Index in, Index out) { return in * out; }
constexpr Index linear_with_bias(Index in, Index out) { return in * out + out; }
constexpr Index layer_norm(Index width) { return 2 * width; }

// ---- Zhang et al. 2022, tables 1 and 3: translation, WMT14 ----
// Each of the decoder's layers has two attentions. Sentences of 10 tokens on either side. MACs are those of linear
// maps, the router's among them: the tables leave the attention term out. The paper names a vocabulary of 32k, but no
// single one gives all of its numbers, so each group has the one that fits, for source, target and output together,
// without biases in the attention:
// - parameters, English-German: about 37,000; of Admin 60-12 and MAE-7 32,000;
// - parameters, English-French: 44,512 for all four models; the paper names 40k;
// - MACs of the MoA rows: 31,945 to 31,971, for the output;
// - MACs of Admin 18-18: 31,992 or more, since 1485 must round up to the 1490 that is printed.

struct translator {
  Index encoder_layers, decoder_layers, width, hidden;
};
constexpr translator base_model = {6, 6, 512, 2048}, big_model = {6, 6, 1024, 4096};
constexpr translator admin_18_18 = {18, 18, 512, 2048}, admin_60_12 = {60, 12, 512, 2048};
constexpr Index words_german = 37'000, words_german_less = 32'000, words_french = 44'512;
constexpr Index words_for_macs = 31'960, words_for_dense_macs = 32'000;

template <class T>
constexpr Index attention_parameters(translator m) {
  return m.encoder_layers * count_parameters<typename T::template encoder<>>() +
         m.decoder_layers *
             (count_parameters<typename T::template decoder<>>() + count_parameters<typename T::template cross<>>());
}
template <class T>
constexpr Index parameters(translator m, Index words) {
  Index const feed_forward = (m.encoder_layers + m.decoder_layers) *
                             (linear_with_bias(m.width, m.hidden) + linear_with_bias(m.hidden, m.width));
  Index const norms = (2 * m.encoder_layers + 3 * m.decoder_layers) * layer_norm(m.width);
  return linear(words, m.width) + attention_parameters<T>(m) + feed_forward + norms;
}
template <class T>
constexpr Index macs(translator m, Index words) {
  constexpr Index length = 10;
  constexpr auto attention_macs = []<class Layer>(std::type_identity<Layer>) {
    return count_macs<Layer>({.attention_term = false}, at<tokens>(length), at<context_tokens>(length));
  };
  Index const attention = m.encoder_layers * attention_macs(std::type_identity<typename T::template encoder<>>{}) +
                          m.decoder_layers * (attention_macs(std::type_identity<typename T::template decoder<>>{}) +
                                              attention_macs(std::type_identity<typename T::template cross<>>{}));
  Index const feed_forward =
      (m.encoder_layers + m.decoder_layers) * length * (linear(m.width, m.hidden) + linear(m.hidden, m.width));
  return attention + feed_forward + length * linear(m.width, words);
}

/// With as many keys as queries a dense cross-attention costs as much as a self-attention.
template <Index Width, Index Heads>
struct dense_translation {
  template <class...>
  using encoder = MultiHead<Width, Heads, 64>;
  template <class...>
  using decoder = MultiHead<Width, Heads, 64, causal>;
  template <class...>
  using cross = encoder<>;
};
using dense_512 = dense_translation<512, 8>;
using dense_1024 = dense_translation<1024, 16>;
static_assert(row(macs<dense_512>(base_model, words_for_macs), "604", "604.04"));
// The larger baselines are printed to three digits.
static_assert(prints(macs<dense_1024>(big_model, words_for_dense_macs), "2.09", giga));
static_assert(prints(macs<dense_1024>(big_model, words_for_dense_macs), "2089.3", mega));
static_assert(prints(macs<dense_512>(admin_18_18, words_for_dense_macs), "1.49", giga));
static_assert(prints(macs<dense_512>(admin_18_18, words_for_dense_macs), "1485", mega));
static_assert(prints(macs<dense_512>(admin_60_12, words_for_dense_macs), "2.55", giga));
static_assert(prints(macs<dense_512>(admin_60_12, words_for_dense_macs), "2555", mega));
static_assert(row(parameters<dense_512>(admin_18_18, words_german), "151", "151.25"));
static_assert(row(parameters<dense_512>(admin_60_12, words_german_less), "256", "255.80"));
static_assert(row(parameters<dense_512>(base_model, words_french), "67", "66.89"));
static_assert(row(parameters<dense_512>(admin_60_12, words_french), "262", "262.21"));

/// Base and big differ from each other, and from the rows of the ablation, in K, E and D alone.
template <class T>
constexpr Index macs_of = macs<T>(base_model, words_for_macs);
template <class T>
constexpr Index parameters_of = parameters<T>(base_model, words_german);
// clang-format off
static_assert(row(macs_of<moa::base >,  "628",  "628.37") && row(parameters_of<moa::base >,  "65",  "65.48"));
static_assert(row(macs_of<moa::row_A>,  "841",  "840.70") && row(parameters_of<moa::row_A>,  "87",  "86.71"));
static_assert(row(macs_of<moa::row_B>,  "841",  "841.44") && row(parameters_of<moa::row_B>, "125", "124.53"));
static_assert(row(macs_of<moa::row_C>,  "524",  "524.41") && row(parameters_of<moa::row_C>,  "83",  "83.39"));
static_assert(row(macs_of<moa::row_F>,  "654",  "654.17") && row(parameters_of<moa::row_F>, "200", "200.18"));
static_assert(row(macs_of<moa::big  >, "1220", "1220.40") && row(parameters_of<moa::big  >, "200", "200.18"));
// Left out: D's parameters, printed 123, and E's MACs, printed 841 as without the router, which D's 631 includes.
static_assert(row(macs_of<moa::row_D>,  "631",  "630.58") && row(parameters_of<moa::row_D>, "122", "122.32"));
static_assert(row(macs_of<moa::row_E>,  "843",  "842.92") && row(parameters_of<moa::row_E>, "200", "200.18"));
// clang-format on
static_assert(row(parameters<moa::base>(base_model, words_french), "69", "69.32"));
static_assert(row(parameters<moa::big>(base_model, words_french), "204", "204.03"));

// ---- Zhang et al. 2022, table 2: masked language model, WikiText-103 ----
// 8 layers of width 512 with biases everywhere, the attention's included, 50,265 words, 128 + 2 learned positions. The
// head is a linear map, a norm and a bias for every word; its words are the embedding's.

constexpr Index mlm_layers = 8, mlm_width = 512, mlm_words = 50'265, mlm_length = 128;
constexpr Index mlm_parameters(Index attention) {
  constexpr Index hidden = 2048, positions = mlm_length + 2;
  Index const layer =
      attention + linear_with_bias(mlm_width, hidden) + linear_with_bias(hidden, mlm_width) + 2 * layer_norm(mlm_width);
  Index const embedding = linear(mlm_words, mlm_width) + linear(positions, mlm_width) + layer_norm(mlm_width);
  Index const head = linear_with_bias(mlm_width, mlm_width) + layer_norm(mlm_width) + mlm_words;
  return embedding + mlm_layers * layer + head;
}
template <class L>
constexpr Index mlm_parameters_of = mlm_parameters(count_parameters<L>());
using mlm_dense = MultiHead<512, 8, 64, query_bias, key_bias, value_bias, output_bias>;
static_assert(row(mlm_parameters_of<mlm_dense>, "51.34", "51.336"));
static_assert(row(mlm_parameters_of<moa::mlm_8K8E256D<>>, "61.89", "61.892"));
static_assert(row(mlm_parameters_of<moa::mlm_8K16E256D<>>, "78.75", "78.751"));
static_assert(row(mlm_parameters_of<moa::mlm_8K32E256D<>>, "112.47", "112.469"));
static_assert(row(mlm_parameters_of<moa::mlm_8K64E256D<>>, "179.91", "179.906"));
// Left out: 8K8E128D, printed 52.45.
static_assert(row(mlm_parameters_of<moa::mlm_8K8E128D<>>, "52.44", "52.444"));

/// MACs with `terms` times the attention's and without biases, whose sum over experts is a product here.
template <class L>
constexpr Index mlm_macs(Index terms) {
  constexpr Index none = count_macs<L>({.attention_term = false}, at<tokens>(mlm_length));
  constexpr Index once = count_macs<L>(at<tokens>(mlm_length)) - none;
  Index const others = mlm_length * (2 * linear(mlm_width, 2048)),
              head = mlm_length * (linear(mlm_width, mlm_width) + linear(mlm_width, mlm_words));
  return mlm_layers * (none + terms * once + others) + head;
}
// The table has no attention term for the baseline and, in three of five rows, twice that of MoA: a contradiction.
static_assert(prints(mlm_macs<MultiHead<512, 8, 64>>(0), "6.55", giga));
static_assert(prints(mlm_macs<moa::heads<8, 8, 256>::layer<>>(2), "8.97", giga));
static_assert(prints(mlm_macs<moa::heads<8, 16, 256>::layer<>>(2), "8.97", giga));
static_assert(prints(mlm_macs<moa::heads<8, 32, 256>::layer<>>(2), "8.98", giga));
// Left out: 8K8E128D, printed 7.27, and 8K64E256D, printed 8.98.
static_assert(prints(mlm_macs<moa::heads<8, 8, 128>::layer<>>(2), "7.224", giga));
static_assert(prints(mlm_macs<moa::heads<8, 64, 256>::layer<>>(2), "8.998", giga));

// Keys and values that decoding keeps, per token and layer: 2 d_h for MoA, 2 d for multi-head attention.
template <class Layer>
constexpr Index cached = cols<decltype(Layer::k)>::value + cols<decltype(Layer::v)>::value;
static_assert(4 * cached<moa::base::decoder<>> == cached<MultiHead<512, 8, 64>>);
static_assert(2 * cached<moa::big::decoder<>> == cached<MultiHead<512, 8, 64>>);

// ---- Peng et al. 2020 ----
// 61 million parameters without and 63 with gates; gates are 3 to 5 % of them; fine-tuning of gates and output matrices
// (FTG+) moves a ninth.

// With biases of the attention; MoA's table prints 63 for MAE-7 without them.
constexpr Index attention_biases = 18 * 4 * 512;
static_assert(row(parameters<dense_512>(base_model, words_german_less) + attention_biases, "61", "60.52"));
static_assert(row(parameters<mae::MAE_7>(base_model, words_german_less) + attention_biases, "63", "62.92"));
static_assert(row(parameters<mae::MAE_7>(base_model, words_german_less), "63", "62.89"));
constexpr Index gates = attention_parameters<mae::MAE_7>(base_model) - attention_parameters<dense_512>(base_model);
static_assert(gates == 18 * (513 * 256 + 257 * 8));
static_assert(prints(100 * mega * gates / parameters<mae::MAE_7>(base_model, words_german_less), "3.82", mega));
static_assert(attention_parameters<mae::MAE_6>(base_model) - attention_parameters<mae::MAE_7>(base_model) ==
              18 * 257 * (28 - 8));
constexpr Index moved = gates + 18 * linear(512, 512);
static_assert(prints(mega * parameters<mae::MAE_7>(base_model, words_german_less) / moved, "8.83", mega));
static_assert(prints(mega * parameters<mae::MAE_7>(base_model, words_german) / moved, "9.19", mega));

// ---- Huang et al. 2024: cost of the layers; static/parity.cpp has the paper's equations ----

/// Multiply-adds of one token, without the router.
template <class L>
constexpr Index products = count_macs<L>({.router = false}, at<tokens>(1));
template <class L>
constexpr Index weights_of = count_parameters<L>({.router = false});
static_assert(products<mh_moe::dense<>> == 4'718'592 && weights_of<mh_moe::dense<>> == 4'718'592);
static_assert(products<mh_moe::smoe<>> == 4'718'592 && products<mh_moe::fine_grained<>> == 4'718'592 &&
              products<mh_moe::two_heads<>> == 4'718'592 && products<mh_moe::three_heads<>> == 4'718'592);
static_assert(weights_of<mh_moe::smoe<>> == 37'748'736 && weights_of<mh_moe::fine_grained<>> == 37'748'736);
// 40 and 96 experts are the multiples of 8 next to 41 1/3 and 93, which have 37,748,736.
static_assert(weights_of<mh_moe::two_heads<>> == 36'569'088 && weights_of<mh_moe::three_heads<>> == 38'928'384);
/// Ternary weights cost the same, a shared network that of one more expert of the sparse mixture.
template <template <class, class...> class L>
constexpr bool has_variants() {
  using ternary = weights::ternary;
  using plain = L<weights::real>;
  using shared = L<weights::real, mh_moe::shared_network<>>;
  using shared_ternary = L<ternary, mh_moe::shared_network<ternary>>;
  return products<L<ternary>> == products<plain> && weights_of<L<ternary>> == weights_of<plain> &&
         products<shared> == 2 * products<plain> && weights_of<shared> == weights_of<plain> + 4'718'592 &&
         products<shared_ternary> == products<shared> && weights_of<shared_ternary> == weights_of<shared>;
}
static_assert(has_variants<mh_moe::smoe>() && has_variants<mh_moe::fine_grained>() &&
              has_variants<mh_moe::two_heads>() && has_variants<mh_moe::three_heads>());
static_assert(products<mh_moe::dense<weights::ternary>> == products<mh_moe::dense<>>);

// ---- Jin et al. 2024, tables 1 and 2: images ----

/// Active heads in percent of all, as printed.
template <class... S>
constexpr bool share_prints(type_list<S...>, std::string_view text) {
  constexpr Index active = ((S::layers * S::router::top_k::value) + ...), all = ((S::layers * S::heads) + ...);
  static_assert(((S::router::experts::value == S::heads) && ...));
  return prints(100 * mega * active / all, text, mega);
}
static_assert(share_prints(moh::vit_s_80{}, "79.95") && share_prints(moh::vit_s_75{}, "75.29"));
static_assert(share_prints(moh::vit_b_75{}, "75.0") && share_prints(moh::vit_b_50{}, "50.0"));
static_assert(share_prints(moh::dit_s_90{}, "88.9") && share_prints(moh::dit_s_75{}, "75.0"));
static_assert(share_prints(moh::dit_b_90{}, "89.6") && share_prints(moh::dit_b_75{}, "75.0"));
static_assert(share_prints(moh::dit_l_90{}, "89.6") && share_prints(moh::dit_l_75{}, "75.0"));
static_assert(share_prints(moh::dit_xl_90{}, "89.96") && share_prints(moh::dit_xl_75{}, "75.0"));

/// TransNeXt: a block has two norms, attention and a gated network with a depthwise convolution of 3 x 3. Aggregated
/// attention has, beside the parameters of the other one, a map and a norm of pooled keys, and 9 local keys a head with
/// a bias, a learned token and its bias each.
template <class S>
constexpr Index vit_stage(Index stage, Index before) {
  constexpr Index d = S::width;
  constexpr Index attention = count_parameters<moh::vit_attention<S>>();
  Index const aggregated = linear_with_bias(d, d) + layer_norm(d) + 9 * S::heads + 9 * d + 9 * S::heads;
  Index const hidden = 2 * d * (stage < 2 ? 8 : 4) / 3, patch = stage == 0 ? 7 * 7 * 3 : 3 * 3 * before;
  Index const network = linear_with_bias(d, 2 * hidden) + 10 * hidden + linear_with_bias(hidden, d);
  Index const block = 2 * layer_norm(d) + attention + (stage < 3 ? aggregated : 0) + network;
  return linear_with_bias(patch, d) + layer_norm(d) + S::layers * block + layer_norm(d);
}
template <class A, class B, class C, class D>
constexpr Index vit(type_list<A, B, C, D>) {
  return vit_stage<A>(0, 0) + vit_stage<B>(1, A::width) + vit_stage<C>(2, B::width) + vit_stage<D>(3, C::width) +
         linear_with_bias(D::width, 1000);
}
static_assert(row(vit(moh::vit_s_80{}), "50", "49.91") && row(vit(moh::vit_s_75{}), "50", "49.91"));
static_assert(row(vit(moh::vit_b_75{}), "90", "90.02") && prints(vit(moh::vit_b_50{}), "90", mega));

/// DiT for 32 x 32 x 4 latents in 256 patches, 1000 classes and none, 256 frequencies of time, fixed positions counted.
constexpr Index dit(Index width, Index layers, Index attentions) {
  Index const block =
      linear_with_bias(width, 4 * width) + linear_with_bias(4 * width, width) + linear_with_bias(width, 6 * width);
  Index const embedding = linear_with_bias(2 * 2 * 4, width) + 256 * width + linear_with_bias(256, width) +
                          linear_with_bias(width, width) + 1001 * width;
  Index const last = linear_with_bias(width, 2 * width) + linear_with_bias(width, 2 * 2 * 8);
  return embedding + attentions + layers * block + last;
}
template <class First, class... More>
constexpr Index dit_of(type_list<First, More...>) {
  auto const attentions = []<class S>(std::type_identity<S>) {
    return S::layers * count_parameters<typename S::template layer<>>();
  };
  return dit(First::width, First::layers + (0 + ... + More::layers),
             attentions(std::type_identity<First>{}) + (0 + ... + attentions(std::type_identity<More>{})));
}
template <Index Width, Index Heads>
constexpr Index dense_dit(Index layers) {
  using attention = MultiHead<Width, Heads, Width / Heads, query_bias, key_bias, value_bias, output_bias>;
  return dit(Width, layers, layers * count_parameters<attention>());
}
static_assert(prints(dense_dit<384, 6>(12), "33", mega) && prints(dense_dit<768, 12>(12), "130.5", mega) &&
              prints(dense_dit<1024, 16>(24), "458", mega) && prints(dense_dit<1152, 16>(28), "675.13", mega));
static_assert(row(dit_of(moh::dit_s_90{}), "33", "33.00") && prints(dit_of(moh::dit_s_75{}), "33", mega));
static_assert(row(dit_of(moh::dit_b_90{}), "131", "130.64") && prints(dit_of(moh::dit_b_75{}), "131", mega));
static_assert(row(dit_of(moh::dit_l_90{}), "459", "458.51") && prints(dit_of(moh::dit_l_75{}), "459", mega));
static_assert(row(dit_of(moh::dit_xl_90{}), "676", "675.67") && prints(dit_of(moh::dit_xl_75{}), "676", mega));

// ---- Jin et al. 2024, table 3: language models ----
// Attention without biases, SwiGLU, root-mean-square norms, 65,536 words, input and output apart.

constexpr Index language_model(Index layers, Index width, Index hidden, Index words, Index attention) {
  return 2 * linear(words, width) + layers * (attention + 3 * linear(width, hidden) + 2 * width) + width;
}
template <class L>
constexpr Index llm_s = language_model(12, 768, 2048, 65'536, count_parameters<L>());
template <class L>
constexpr Index llm_b = language_model(24, 1536, 4096, 65'536, count_parameters<L>());
static_assert(row(llm_s<MultiHead<768, 12, 64, causal>>, "186", "185.62"));
static_assert(row(llm_s<moh::llm_s_75<>>, "186", "185.75") && row(llm_s<moh::llm_s_50<>>, "186", "185.75"));
static_assert(row(llm_b<MultiHead<1536, 16, 96, causal>>, "881", "880.88"));
static_assert(row(llm_b<moh::llm_b_75<>>, "882", "881.54"));
// LLaMA3-8B has 8,030,261,248 parameters; the heads of MoH are chosen by their queries, without a router.
static_assert(language_model(32, 4096, 14'336, 128'256, count_parameters<moh::llama3_8b<>>()) == 8'030'261'248);

}  // namespace

}  // namespace static_papers

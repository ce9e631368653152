#pragma once
// SPDX-License-Identifier: MIT
// The published configurations as layers, named as the papers' tables name them. tests/static/papers.cpp counts the
// parameters and multiply-adds of their models and compares them with the tables.
//
//   Module<papers::moa::base::decoder<output_dropout<1, 5>>, Cpu<float>> m(1);
//   Module<papers::mh_moe::three_heads<weights::ternary>, Cpu<float>> experts(1);

#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/smoe.hpp"

/// The published configurations.
namespace headmix::papers {

/// The attentions of a translation model of width 512, with 6 + 6 layers and feed-forward networks of 2048.
/// @tparam Layer  the attention with further options
template <template <class...> class Layer>
struct translation {
  template <class... Options>
  using encoder = Layer<Options...>;  ///< self-attention of the encoder
  template <class... Options>
  using decoder = Layer<causal, Options...>;  ///< self-attention of the decoder
  template <class... Options>
  using cross = Layer<context_dim<512>, Options...>;  ///< of the decoder to the encoder's output
};

/// Zhang et al. 2022, "Mixture of Attention Heads: Selecting Attention Heads Per Token".
namespace moa {

/// Experts chosen, experts, and width of a head.
template <Index TopK, Index Experts, Index HeadDim>
struct heads {
  /// Without biases.
  template <class... Options>
  using layer = Moa<512, HeadDim, SoftmaxTopK<Experts, TopK>, Options...>;
  /// With biases.
  template <class... Options>
  using biased = layer<query_bias, key_bias, value_bias, output_bias, Options...>;
};
/// A translation model of these heads.
template <Index TopK, Index Experts, Index HeadDim>
using translation_of = translation<heads<TopK, Experts, HeadDim>::template layer>;

// Tables 1 and 3.
using base = translation_of<8, 8, 128>;    ///< MoA base
using big = translation_of<16, 32, 256>;   ///< MoA big
using row_A = translation_of<8, 8, 256>;   ///< row A of table 3
using row_B = translation_of<8, 16, 256>;  ///< row B
using row_C = translation_of<8, 32, 64>;   ///< row C
using row_D = translation_of<8, 32, 128>;  ///< row D
using row_E = translation_of<8, 32, 256>;  ///< row E
using row_F = translation_of<4, 32, 256>;  ///< row F

// Table 2: masked language models of width 512 with 8 layers, feed-forward networks of 2048 and biases.
/// 8 of 8 experts of 128 columns.
template <class... Options>
using mlm_8K8E128D = heads<8, 8, 128>::biased<Options...>;
/// 8 of 8 experts of 256 columns.
template <class... Options>
using mlm_8K8E256D = heads<8, 8, 256>::biased<Options...>;
/// 8 of 16 experts of 256 columns.
template <class... Options>
using mlm_8K16E256D = heads<8, 16, 256>::biased<Options...>;
/// 8 of 32 experts of 256 columns.
template <class... Options>
using mlm_8K32E256D = heads<8, 32, 256>::biased<Options...>;
/// 8 of 64 experts of 256 columns.
template <class... Options>
using mlm_8K64E256D = heads<8, 64, 256>::biased<Options...>;

}  // namespace moa

/// Peng et al. 2020, "A Mixture of h - 1 Heads is Better than h Heads": 8 heads, of which an expert leaves out 1 or 2.
namespace mae {

/// Experts that leave out so many heads.
template <Index LeftOut>
struct heads {
  template <class... Options>
  using layer = Mae<512, 8, 64, left_out_heads<LeftOut>, Options...>;
};
using MAE_7 = translation<heads<1>::layer>;  ///< 8 experts
using MAE_6 = translation<heads<2>::layer>;  ///< 28 experts

}  // namespace mae

/// Huang et al. 2024, "MH-MoE: Multi-Head Mixture-of-Experts": feed-forward layers of equal cost of a language model of
/// width 768 with 12 layers, every second of which is a mixture. `W` is weights::real or, of table 3, weights::ternary;
/// with `shared_network<W>` they are the rows of table 2.
namespace mh_moe {

/// The router of the published code.
template <Index Experts, Index TopK>
using router = SoftmaxTopK<Experts, TopK, gating::raw, loss::first_choice_balance, init<fan_in_uniform>>;

/// One SwiGLU network of width 2048.
template <class W = weights::real>
struct dense : token_block<dense<W>, option_set<accepts<>>, 768> {
  using block = typename dense::token_block;
  static constexpr auto y = FeedForward<2048, W>::template shared<typename block::model_dim>::of(block::x_t);
  using losses = type_list<>;
  using observed = type_list<>;
};
/// One of 8 experts of a token.
template <class W = weights::real, class... Options>
using smoe = Smoe<768, router<8, 1>, FeedForward<2048, W>, Options...>;
/// Two of 16 experts, half as wide.
template <class W = weights::real, class... Options>
using fine_grained = Smoe<768, router<16, 2>, FeedForward<1024, W>, Options...>;
/// Two of 40 experts of each half of a token.
template <class W = weights::real, class... Options>
using two_heads = MhMoe<768, 2, router<40, 2>, FeedForward<768, W>, Options...>;
/// Three of 96 experts of each third of a token.
template <class W = weights::real, class... Options>
using three_heads = MhMoe<768, 3, router<96, 3>, FeedForward<512, W>, Options...>;
/// The option of a shared expert.
template <class W = weights::real>
using shared_network = shared_expert<FeedForward<2048, W>>;

}  // namespace mh_moe

/// Jin et al. 2024, "MoH: Multi-Head Attention as Mixture-of-Head Attention".
namespace moh {

/// Layers of equal heads: of Heads heads Shared are always active, and TopK of the others for a token; all are shared
/// if TopK is 0.
/// @tparam Width of the layer, @tparam HeadDim of a head
template <Index Layers, Index Width, Index HeadDim, Index Heads, Index Shared, Index TopK>
struct stage {
  static constexpr Index layers = Layers;  ///< number of layers
  static constexpr Index width = Width;    ///< of a token
  static constexpr Index heads = Heads;    ///< of a layer
  using router = TwoStage<Shared, TopK == 0 ? 0 : Heads - Shared, TopK>;
  /// With biases.
  template <class... Options>
  using layer = Moh<Width, HeadDim, router, query_bias, key_bias, value_bias, output_bias, Options...>;
};

/// A vision transformer (TransNeXt) for images of 224 x 224 (table 1). Layers of the first three stages are aggregated
/// attention (a window and pooled keys in one softmax), which the library does not have; the last stage's have this
/// type.
template <class Stage, class... Options>
using vit_attention = typename Stage::template layer<cosine_scores<49>, relative_position_bias<7, 7>, Options...>;
/// A stage of heads of 24 columns.
template <Index Layers, Index Heads, Index Shared, Index TopK>
using vit_stage = stage<Layers, 24 * Heads, 24, Heads, Shared, TopK>;
/// MoH-ViT-S, 80 % of the heads.
using vit_s_80 =
    type_list<vit_stage<5, 3, 3, 0>, vit_stage<5, 6, 6, 0>, vit_stage<22, 12, 3, 6>, vit_stage<5, 24, 8, 12>>;
/// MoH-ViT-S, 75 %.
using vit_s_75 =
    type_list<vit_stage<5, 3, 3, 0>, vit_stage<5, 6, 6, 0>, vit_stage<22, 12, 3, 6>, vit_stage<5, 24, 4, 12>>;
/// MoH-ViT-B, 75 %.
using vit_b_75 =
    type_list<vit_stage<5, 4, 4, 0>, vit_stage<5, 8, 8, 0>, vit_stage<23, 16, 4, 8>, vit_stage<5, 32, 5, 16>>;
/// MoH-ViT-B, 50 %.
using vit_b_50 =
    type_list<vit_stage<5, 4, 2, 2>, vit_stage<5, 8, 2, 4>, vit_stage<23, 16, 2, 6>, vit_stage<5, 32, 4, 8>>;

/// A diffusion transformer of patches of 2 x 2 (table 2). The number of heads differs between layers, their width does
/// not.
template <Index Width, Index HeadDim>
struct dit {
  /// Layers of equal heads.
  template <Index Layers, Index Heads, Index Shared, Index TopK>
  using layers = stage<Layers, Width, HeadDim, Heads, Shared, TopK>;
};
/// MoH-DiT-S/2.
using dit_s = dit<384, 64>;
/// MoH-DiT-S/2, 90 % of the heads.
using dit_s_90 = type_list<dit_s::layers<8, 6, 3, 2>, dit_s::layers<4, 6, 6, 0>>;
/// MoH-DiT-S/2, 75 %.
using dit_s_75 = type_list<dit_s::layers<2, 6, 2, 1>, dit_s::layers<4, 6, 3, 1>, dit_s::layers<4, 6, 3, 2>,
                           dit_s::layers<2, 6, 6, 0>>;
/// MoH-DiT-B/2.
using dit_b = dit<768, 64>;
/// MoH-DiT-B/2, 90 % of the heads.
using dit_b_90 = type_list<dit_b::layers<5, 12, 6, 4>, dit_b::layers<5, 12, 7, 4>, dit_b::layers<2, 12, 12, 0>>;
/// MoH-DiT-B/2, 75 %.
using dit_b_75 = type_list<dit_b::layers<2, 12, 4, 2>, dit_b::layers<8, 12, 6, 3>, dit_b::layers<2, 12, 12, 0>>;
/// MoH-DiT-L/2.
using dit_l = dit<1024, 64>;
/// MoH-DiT-L/2, 90 % of the heads.
using dit_l_90 = type_list<dit_l::layers<8, 8, 8, 0>, dit_l::layers<8, 16, 16, 0>, dit_l::layers<8, 24, 16, 3>>;
/// MoH-DiT-L/2, 75 %.
using dit_l_75 = type_list<dit_l::layers<8, 8, 8, 0>, dit_l::layers<8, 16, 8, 4>, dit_l::layers<8, 24, 12, 4>>;
/// MoH-DiT-XL/2.
using dit_xl = dit<1152, 72>;
/// MoH-DiT-XL/2, 90 % of the heads.
using dit_xl_90 = type_list<dit_xl::layers<9, 8, 8, 0>, dit_xl::layers<10, 16, 16, 0>, dit_xl::layers<9, 24, 16, 3>>;
/// MoH-DiT-XL/2, 75 %.
using dit_xl_75 = type_list<dit_xl::layers<9, 8, 8, 0>, dit_xl::layers<10, 16, 10, 2>, dit_xl::layers<9, 24, 14, 2>>;

// Language models (table 3): S has 12 layers and feed-forward networks (SwiGLU) of 2048, B 24 layers and 4096.
/// MoH-LLM-S, 75 % of the heads.
template <class... Options>
using llm_s_75 = Moh<768, 64, TwoStage<3, 9, 6>, causal, rope<>, Options...>;
/// MoH-LLM-S, 50 %.
template <class... Options>
using llm_s_50 = Moh<768, 64, TwoStage<2, 10, 4>, causal, rope<>, Options...>;
/// MoH-LLM-B, 75 %.
template <class... Options>
using llm_b_75 = Moh<1536, 96, TwoStage<4, 12, 8>, causal, rope<>, Options...>;

/// LLaMA3-8B, continued as MoH: 32 layers, half of whose 32 heads are shared and half of the others active.
template <class... Options>
using llama3_8b = Moh<4096, 128, QueryNorm<16, 16, 8>, causal, kv_heads<8>, rope<500'000>, Options...>;

}  // namespace moh

}  // namespace headmix::papers

#pragma once
// SPDX-License-Identifier: MIT
// Names and layouts of published models: a table for each layer, which names the corresponding headmix layer, and
// tables of whole networks. A layer's place in the file is a prefix:
//
//   load(m, "model-00001-of-00004.safetensors", published::llama_attention().below("model.layers.0.self_attn."));
//   load(network, "Meta-Llama-3-8B", published::llama());  // a folder with an index and its files

#include "headmix/io/weights.hpp"

namespace headmix::published {

using enum tensor_name::order;
using enum tensor_name::piece;

/// Attention of Llama and derivatives, with grouped keys and values, as in Hugging Face: MultiHead<d, h, d_h, causal,
/// kv_heads<n>, rope<theta>>, with the bias options for biases of q, k and v (Qwen2), and with llama3_frequencies<> in
/// rope for Llama 3.1. Also MoH's LLaMA, which has no further weights: Moh<d, d_h, QueryNorm<h_s, E_r, K_r>, causal,
/// kv_heads<n>, rope<theta>>. For a router with weights, `.keeping("W_r W_s W_h")` keeps their initial values.
[[nodiscard]] inline TensorNames llama_attention() {
  return {{"W_q", "q_proj.weight"}, {"W_k", "k_proj.weight"}, {"W_v", "v_proj.weight"}, {"W_o", "o_proj.weight"},
          {"b_q", "q_proj.bias"},   {"b_k", "k_proj.bias"},   {"b_v", "v_proj.bias"},   {"b_o", "o_proj.bias"}};
}

/// A network of Llama's form, as in Hugging Face, by names of parameters:
/// - the embedding W_e [vocabulary, d], the gain of the last RMSNorm, and W_lm [vocabulary, d] of the logits y W_lm^T,
///   unless they are y W_e^T;
/// - blocks.*, a repeated layer: attn_gain and ffn_gain of the RMSNorms before its layers, the attention `attn` of
///   llama_attention(), and W_gate, W_up [d, hidden] and W_down [hidden, d] of the feed-forward layer `ffn`.
[[nodiscard]] inline TensorNames llama() {
  TensorNames const block =
      TensorNames{{"attn_gain", "input_layernorm.weight"}, {"ffn_gain", "post_attention_layernorm.weight"}} +
      llama_attention().below("self_attn.").into("attn").ignoring("rotary_emb.inv_freq") +
      TensorNames{{"W_gate", "gate_proj.weight"}, {"W_up", "up_proj.weight"}, {"W_down", "down_proj.weight"}}
          .below("mlp.")
          .into("ffn");
  return TensorNames{{"W_e", "model.embed_tokens.weight", in_out},
                     {"gain", "model.norm.weight"},
                     {"W_lm", "lm_head.weight", in_out}} +
         block.below("model.layers.*.").into("blocks.*");
}

/// Attention of MoH's image models: Moh<d, d_h, TwoStage<h_s, E_r, K_r>, query_bias, key_bias, value_bias,
/// output_bias>; for DiT with qk_norm if the model has it; for ViT (TransNeXt's `Attention`) with cosine_scores<tokens>
/// and relative_position_bias<height, width>. TransNeXt's `AggregatedAttention` is another layer.
[[nodiscard]] inline TensorNames moh_image_attention() {
  return {{"W_q W_k W_v", "qkv.weight"},
          {"b_q b_k b_v", "qkv.bias"},
          {"W_o", "proj.weight"},
          {"b_o", "proj.bias"},
          {"W_r", "wg.weight"},
          {"W_h", "wg_0.weight"},
          {"W_s", "wg_1.weight"},
          {"temperature", "temperature", in_out},
          {"query_embedding", "query_embedding", in_out},
          {"W_1", "cpb_fc1.weight"},
          {"b_1", "cpb_fc1.bias"},
          {"W_2", "cpb_fc2.weight"},
          {"b_2", "cpb_fc2.bias"},
          {"gain_q", "q_norm.weight"},
          {"bias_q", "q_norm.bias"},
          {"gain_k", "k_norm.weight"},
          {"bias_k", "k_norm.bias"}};
}

/// A diffusion transformer of DiT's code, with dense attention or MoH, by names of parameters:
/// - W_patch and b_patch of the patches; W_1, b_1, W_2 and b_2 of the network of the noise step's sines; W_class of the
///   classes; W_ada, b_ada, W_out and b_out of the last layer;
/// - blocks.*, a repeated layer, with W_ada [d, 6 d] and b_ada of shifts, scales and gates, the attention `attn` of
///   moh_image_attention(), and W_1, b_1, W_2 and b_2 of the feed-forward network `mlp`.
///
/// The positions are those of the code, fixed sines, and are not loaded. save() writes W_patch as a matrix.
[[nodiscard]] inline TensorNames dit() {
  TensorNames const block =
      TensorNames{{"W_ada", "adaLN_modulation.1.weight"}, {"b_ada", "adaLN_modulation.1.bias"}} +
      moh_image_attention().below("attn.").into("attn") +
      TensorNames{{"W_1", "fc1.weight"}, {"b_1", "fc1.bias"}, {"W_2", "fc2.weight"}, {"b_2", "fc2.bias"}}
          .below("mlp.")
          .into("mlp");
  return (TensorNames{{"W_patch", "x_embedder.proj.weight"},
                      {"b_patch", "x_embedder.proj.bias"},
                      {"W_1", "t_embedder.mlp.0.weight"},
                      {"b_1", "t_embedder.mlp.0.bias"},
                      {"W_2", "t_embedder.mlp.2.weight"},
                      {"b_2", "t_embedder.mlp.2.bias"},
                      {"W_class", "y_embedder.embedding_table.weight", in_out},
                      {"W_ada", "final_layer.adaLN_modulation.1.weight"},
                      {"b_ada", "final_layer.adaLN_modulation.1.bias"},
                      {"W_out", "final_layer.linear.weight"},
                      {"b_out", "final_layer.linear.bias"}} +
          block.below("blocks.*.").into("blocks.*"))
      .ignoring("pos_embed");
}

/// Attention of JetMoE: Moa<d, d_h, SoftmaxTopK<E, k, gating::renormalized>, causal, kv_heads<n>, rope<>, output_bias>.
/// The model has one bias, which is loaded as that of every expert: weights of a token's experts sum to 1.
[[nodiscard]] inline TensorNames jetmoe_attention() {
  return {{"W_g", "experts.router.layer.weight"},
          {"W_q", "experts.input_linear.weight"},
          {"W_o", "experts.output_linear.weight"},
          {"b_o", "experts.bias", out_in, row},
          {"W_k W_v", "kv_proj.weight"}};
}

/// Feed-forward mixture of JetMoE: Smoe<d, SoftmaxTopK<E, k, gating::renormalized>, FeedForward<hidden>, output_bias>.
[[nodiscard]] inline TensorNames jetmoe_feed_forward() {
  return {{"W_g", "router.layer.weight"},
          {"W_gate W_up", "input_linear.weight"},
          {"W_down", "output_linear.weight"},
          {"b_o", "bias"}};
}

/// A network of JetMoE, as in Hugging Face, by names of parameters: W_e, gain and W_lm as of llama(), and blocks.*, a
/// repeated layer, with attn_gain and ffn_gain of the RMSNorms, `attn` of jetmoe_attention() and `ffn` of
/// jetmoe_feed_forward().
[[nodiscard]] inline TensorNames jetmoe() {
  TensorNames const block =
      TensorNames{{"attn_gain", "input_layernorm.weight"}, {"ffn_gain", "post_attention_layernorm.weight"}} +
      jetmoe_attention().below("self_attention.").into("attn") + jetmoe_feed_forward().below("mlp.").into("ffn");
  return TensorNames{{"W_e", "model.embed_tokens.weight", in_out},
                     {"gain", "model.norm.weight"},
                     {"W_lm", "lm_head.weight", in_out}} +
         block.below("model.layers.*.").into("blocks.*");
}

/// Attention of MoA's code: Moa<d, d_h, SoftmaxTopK<E, k, gating::raw>, causal>, with noise<> and the biases if the
/// model has them, and with context_dim<n> for encoder-decoder attention.
[[nodiscard]] inline TensorNames moa_attention() {
  return {{"W_g", "q_proj.w_gate", in_out},
          {"W_noise", "q_proj.w_noise", in_out},
          {"W_q", "q_proj.experts.w", in_out},
          {"b_q", "q_proj.experts.b", in_out},
          {"W_o", "q_proj.output_experts.w", in_out},
          {"b_o", "q_proj.output_experts.b", in_out},
          {"W_k", "k_proj.weight"},
          {"b_k", "k_proj.bias"},
          {"W_v", "v_proj.weight"},
          {"b_v", "v_proj.bias"}};
}

/// An encoder-decoder of MoA's code, a fork of fairseq's transformer, by names of parameters:
/// - W_e, W_s and W_lm [vocabulary, d]: the embeddings of the decoder and of the encoder, and the logits y W_lm^T.
/// Where
///   they are one table, it is W_e, with `.ignoring("encoder.embed_tokens.weight decoder.output_projection.weight")`;
/// - encoder.* and decoder.*, repeated layers, with self_gain, self_bias, ffn_gain, ffn_bias and, of the decoder,
///   cross_gain and cross_bias of the LayerNorms, `self` and `cross` of moa_attention(), and W_1, b_1, W_2 and b_2 of
///   the feed-forward network `ffn`;
/// - encoder_gain, encoder_bias, decoder_gain and decoder_bias of the last LayerNorms, if the model has them.
///
/// The position vectors are sines. The code stores the feed-forward networks twice; the second copies are not read.
[[nodiscard]] inline TensorNames moa() {
  auto const norm = [](std::string_view parameters, std::string_view tensors) {
    std::string const of(parameters), in(tensors);
    return TensorNames(std::vector<tensor_name>{{of + "_gain", in + ".weight"}, {of + "_bias", in + ".bias"}});
  };
  TensorNames const block =
      moa_attention().below("self_attn.").into("self") + norm("self", "self_attn_layer_norm") +
      norm("ffn", "final_layer_norm") +
      TensorNames{{"W_1", "fc1.weight"}, {"b_1", "fc1.bias"}, {"W_2", "fc2.weight"}, {"b_2", "fc2.bias"}}.into("ffn");
  TensorNames const cross =
      moa_attention().below("encoder_attn.").into("cross") + norm("cross", "encoder_attn_layer_norm");
  return (TensorNames{{"W_e", "decoder.embed_tokens.weight", in_out},
                      {"W_s", "encoder.embed_tokens.weight", in_out},
                      {"W_lm", "decoder.output_projection.weight", in_out}} +
          norm("encoder", "encoder.layer_norm") + norm("decoder", "decoder.layer_norm") +
          block.below("encoder.layers.*.").into("encoder.*") +
          (block + cross).below("decoder.layers.*.").into("decoder.*"))
      .ignoring("*.ffd.* *.version *.embed_positions.*");
}

/// Mixture of MH-MoE's code: MhMoe<d, h, SoftmaxTopK<E, k, gating::raw, loss::first_choice_balance>,
/// FeedForward<hidden>, head_bias, merge_bias>, with feed_forward_bias if the model has biases; without head and merge
/// layers (h = 1) Smoe.
[[nodiscard]] inline TensorNames mh_moe() {
  return {{"W_head", "multi_heads.weight"},
          {"b_head", "multi_heads.bias"},
          {"W_merge", "out_proj.weight"},
          {"b_merge", "out_proj.bias"},
          {"W_g", "gate.wg.weight"},
          {"W_up", "experts.*.fc1.weight"},
          {"b_up", "experts.*.fc1.bias", out_in, row},
          {"W_gate", "experts.*.fc3.weight"},
          {"b_gate", "experts.*.fc3.bias", out_in, row},
          {"W_down", "experts.*.fc2.weight"},
          {"b_down", "experts.*.fc2.bias", out_in, row}};
}

/// A decoder of MH-MoE's code, torchscale's, in which every layer has a mixture (moe_freq 1) and its normalisations
/// come first, by names of parameters:
/// - W_e [vocabulary, d], and W_lm [vocabulary, d] of the logits y W_lm^T, unless they are y W_e^T; gain and bias of
/// the
///   last LayerNorm;
/// - blocks.*, a repeated layer, with attn_gain, attn_bias, ffn_gain and ffn_bias of the LayerNorms, `attn` with W_q,
///   W_k, W_v, W_o and their biases, and `ffn` of mh_moe().
///
/// A LayerNorm inside attention or experts (subln) is another model.
[[nodiscard]] inline TensorNames mh_moe_decoder() {
  TensorNames const attention = {{"W_q", "q_proj.weight"},   {"W_k", "k_proj.weight"}, {"W_v", "v_proj.weight"},
                                 {"b_q", "q_proj.bias"},     {"b_k", "k_proj.bias"},   {"b_v", "v_proj.bias"},
                                 {"W_o", "out_proj.weight"}, {"b_o", "out_proj.bias"}};
  TensorNames const block = TensorNames{{"attn_gain", "self_attn_layer_norm.weight"},
                                        {"attn_bias", "self_attn_layer_norm.bias"},
                                        {"ffn_gain", "final_layer_norm.weight"},
                                        {"ffn_bias", "final_layer_norm.bias"}} +
                            attention.below("self_attn.").into("attn") + mh_moe().below("moe_layer.").into("ffn");
  return TensorNames{{"W_e", "decoder.embed_tokens.weight", in_out},
                     {"W_lm", "decoder.output_projection.weight", in_out},
                     {"gain", "decoder.layer_norm.weight"},
                     {"bias", "decoder.layer_norm.bias"}} +
         block.below("decoder.layers.*.").into("blocks.*");
}

}  // namespace headmix::published

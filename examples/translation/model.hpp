#pragma once
// SPDX-License-Identifier: MIT
// The equations of the translator: an encoder, and a decoder that reads the encoder's result in every block. Blocks are
// normalised before their sublayers; positions enter self-attention by rope<>. One table of subwords is the embedding
// of both languages and the matrix of the output.

#include "headmix/expr/linear.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/layer/use.hpp"

namespace translation {

using headmix::dynamic, headmix::input, headmix::let, headmix::param, headmix::selection, headmix::size,
    headmix::tokens, headmix::context_tokens, headmix::use;

struct Width : size<dynamic> {};
struct Hidden : size<dynamic> {};
struct Vocabulary : size<dynamic> {};
struct Layers : size<dynamic> {};

using output_dropout = headmix::output_dropout<1, 10>;
template <headmix::Expr A>
constexpr auto dropped(A a) {
  return headmix::dropout<1, 10>(a);
}

/// Gain and bias of a normalisation.
struct Gain : param<Width> {
  using initializer = headmix::ones;
};
struct Bias : headmix::bias_param<Width> {};

/// The feed-forward network: one hidden layer, ReLU.
struct FeedForward {
  struct x : input<tokens, Width> {};
  struct W_1 : param<Width, Hidden> {};
  struct b_1 : headmix::bias_param<Hidden> {};
  struct W_2 : param<Hidden, Width> {};
  struct b_2 : headmix::bias_param<Width> {};
  static constexpr auto y = dropped(relu(x{} % W_1{} + b_1{}) % W_2{} + b_2{});
  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

/// A block of the encoder, with the attention of the kind.
template <class Kind>
struct EncoderBlock {
  struct x : input<tokens, Width> {};
  struct self_gain : Gain {};
  struct self_bias : Bias {};
  struct ffn_gain : Gain {};
  struct ffn_bias : Bias {};
  static constexpr auto self = use<typename Kind::Encoder, "self">(layer_norm(x{}, self_gain{}, self_bias{}));
  struct h : let<decltype(x{} + Kind::scaled(self.y))> {};
  static constexpr auto ffn = use<FeedForward, "ffn">(layer_norm(h{}, ffn_gain{}, ffn_bias{}));
  static constexpr auto y = h{} + ffn.y;
  using losses = headmix::losses_of<self>;
  using observed = headmix::observed_of<self>;
};

/// A block of the decoder. The context is the encoder's result.
template <class Kind>
struct DecoderBlock {
  struct x : input<tokens, Width> {};
  struct context : input<context_tokens, Width> {};
  struct self_gain : Gain {};
  struct self_bias : Bias {};
  struct cross_gain : Gain {};
  struct cross_bias : Bias {};
  struct ffn_gain : Gain {};
  struct ffn_bias : Bias {};
  static constexpr auto self = use<typename Kind::Self, "self">(layer_norm(x{}, self_gain{}, self_bias{}));
  struct a : let<decltype(x{} + Kind::scaled(self.y))> {};
  static constexpr auto cross =
      use<typename Kind::Cross, "cross">(layer_norm(a{}, cross_gain{}, cross_bias{}), context{});
  struct h : let<decltype(a{} + Kind::scaled(cross.y))> {};
  static constexpr auto ffn = use<FeedForward, "ffn">(layer_norm(h{}, ffn_gain{}, ffn_bias{}));
  static constexpr auto y = h{} + ffn.y;
  using losses = headmix::losses_of<self, cross>;
  using observed = headmix::observed_of<self, cross>;
};

/// The vectors of subwords, times sqrt(width).
template <headmix::Expr Table, headmix::Selection Ids>
constexpr auto embedded(Table table, Ids ids) {
  return dropped(sqrt(headmix::value_of<Width>{}) * gather_rows(table, ids));
}

/// Subwords of a sentence -> its context, [tokens, Width].
/// @tparam Depth  number of blocks
template <class Kind, class Depth = Layers>
struct Encoder {
  struct x : selection<tokens, size<1>, Vocabulary> {};
  struct table : input<Vocabulary, Width> {};  ///< the decoder's W_e
  struct encoder_gain : Gain {};
  struct encoder_bias : Bias {};
  static constexpr auto blocks = headmix::repeat<Depth, EncoderBlock<Kind>, "encoder">(embedded(table{}, x{}));
  static constexpr auto y = layer_norm(blocks.y, encoder_gain{}, encoder_bias{});
  using losses = headmix::losses_of<blocks>;
  using observed = headmix::type_list<>;
};

/// Subwords so far and the context -> logits of the next subword, [tokens, Vocabulary].
template <class Kind, class Depth = Layers>
struct Logits {
  struct x : selection<tokens, size<1>, Vocabulary> {};
  using context = typename DecoderBlock<Kind>::context;
  struct W_e : param<Vocabulary, Width> {};
  struct decoder_gain : Gain {};
  struct decoder_bias : Bias {};
  static constexpr auto blocks = headmix::repeat<Depth, DecoderBlock<Kind>, "decoder">(embedded(W_e{}, x{}), context{});
  static constexpr auto y = layer_norm(blocks.y, decoder_gain{}, decoder_bias{}) % t(W_e{});
  using losses = headmix::losses_of<blocks>;
  using observed = headmix::type_list<>;
};

/// The loss of the training: cross entropy with label smoothing 0.1, the mean over target subwords.
template <class Kind, class Depth = Layers>
struct Loss {
  using logits = Logits<Kind, Depth>;
  using x = typename logits::x;
  using context = typename logits::context;
  struct target : selection<tokens, size<1>, Vocabulary> {};
  static constexpr auto y = mean(headmix::label_smoothed_cross_entropy<1, 10>(logits::y, target{}));
  using losses = typename logits::losses;
  using observed = headmix::type_list<>;
};

}  // namespace translation

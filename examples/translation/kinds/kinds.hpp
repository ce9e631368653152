#pragma once
// SPDX-License-Identifier: MIT
// The kinds of attention: of the encoder, of the decoder to itself, and of the decoder to the context.

#include <tuple>

#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "../model.hpp"
#include "../translation.hpp"
#include "../translator.hpp"

namespace translation {

/// Multi-head attention.
struct Dense {
  template <class... Options>
  using Attention = headmix::MultiHead<dynamic, dynamic, dynamic, output_dropout, Options...>;
  using Encoder = Attention<headmix::rope<>>;
  using Self = Attention<headmix::causal, headmix::rope<>>;
  using Cross = Attention<headmix::context_dim<dynamic>>;
  using Drawn = void;
  template <headmix::Expr Y>
  static constexpr auto scaled(Y y) {
    return y;
  }
  template <class L>
  static auto sizes(Sizes const& s) {
    return std::tuple(headmix::at<typename L::heads>(s.heads), headmix::at<typename L::head_dim>(s.head_dim));
  }
  static auto shared_sizes(Sizes const&) { return std::tuple(); }
};

/// Mixture of attention heads. The weights of a token's k experts sum to 1, so that k experts together are as large as
/// one head; the result is therefore multiplied by k.
struct Moa {
  using Router = headmix::SoftmaxTopK<dynamic, dynamic>;
  template <class... Options>
  using Attention = headmix::Moa<dynamic, dynamic, Router, output_dropout, Options...>;
  using Encoder = Attention<headmix::rope<>>;
  using Self = Attention<headmix::causal, headmix::rope<>>;
  using Cross = Attention<headmix::context_dim<dynamic>>;
  using Drawn = void;
  template <headmix::Expr Y>
  static constexpr auto scaled(Y y) {
    return headmix::value_of<Router::top_k>{} * y;
  }
  template <class L>
  static auto sizes(Sizes const& s) {
    return std::tuple(headmix::at<typename L::head_dim>(s.head_dim));
  }
  static auto shared_sizes(Sizes const& s) {
    return std::tuple(headmix::at<Router::experts>(s.experts), headmix::at<Router::top_k>(s.top_k));
  }
};

struct DrawnMae;
/// Mixture of attentive experts, MAE-7: eight experts of seven heads. Gates of the encoder see the sentence, those of
/// the decoder the subwords so far.
struct Mae {
  template <class... Options>
  using Attention = headmix::Mae<dynamic, 8, dynamic, headmix::gate_dim<64>, output_dropout, Options...>;
  using Encoder = Attention<headmix::rope<>>;
  using Self = Attention<headmix::causal, headmix::rope<>>;
  using Cross = Attention<headmix::context_dim<dynamic>, headmix::pool::prefix>;
  using Drawn = DrawnMae;
  template <headmix::Expr Y>
  static constexpr auto scaled(Y y) {
    return y;
  }
  template <class L>
  static auto sizes(Sizes const& s) {
    return std::tuple(headmix::at<typename L::head_dim>(s.head_dim));
  }
  static auto shared_sizes(Sizes const&) { return std::tuple(); }
};
/// One expert for each sequence and layer, drawn by the gates: F steps of block coordinate descent.
struct DrawnMae {
  using Encoder = Mae::Encoder::expert<headmix::choice::drawn>;
  using Self = Mae::Self::expert<headmix::choice::drawn>;
  using Cross = Mae::Cross::expert<headmix::choice::drawn>;
  template <headmix::Expr Y>
  static constexpr auto scaled(Y y) {
    return y;
  }
};

}  // namespace translation

#pragma once
// SPDX-License-Identifier: MIT
// Layers and networks for the tests of decoding.

#include "headmix/expr/norm.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/layer/smoe.hpp"

namespace headmix::test {

/// A layer with all operations that depend on earlier tokens.
struct AllKinds {
  struct x : input<tokens, size<8>> {};
  static constexpr auto moa = use<Moa<8, 4, SoftmaxTopK<4, 2>, causal, rope<>, kv_heads<2>, key_bias>, "moa">(x{});
  struct a : let<decltype(x{} + moa.y)> {};
  static constexpr auto moh = use<Moh<8, 4, TwoStage<1, 3, 1>, causal, alibi, probability_dropout<1, 4>>, "moh">(a{});
  static constexpr auto in_place = use<Moh<8, 4, TwoStage<1, 3, 1>, causal, dense_projections>, "in_place">(a{});
  struct b : let<decltype(a{} + moh.y + in_place.y)> {};
  static constexpr auto mae = use<Mae<8, 3, 4, causal, pool::window<5>, gate_dim<6>>, "mae">(b{});
  struct c : let<decltype(b{} + mae.y)> {};
  static constexpr auto dense = use<MultiHead<8, 2, 6, sliding_window<11>, soft_cap<7>, rope<>>, "dense">(c{});
  static constexpr auto y = c{} + dense.y;
  using losses = type_list<>;
  using observed = observed_of<moa, moh, in_place>;
};

/// Blocks of a language model; their number is given to the constructor.
struct DecodedBlock {
  struct x : input<tokens, size<8>> {};
  struct gain : param<size<8>> {
    using initializer = ones;
  };
  static constexpr auto attn = use<Mae<8, 2, 4, causal, gate_dim<4>, rope<>>, "attn">(rms_norm(x{}, gain{}));
  struct h : let<decltype(x{} + attn.y)> {};
  static constexpr auto ffn = use<Smoe<8, SoftmaxTopK<4, 2>, FeedForward<8>>, "ffn">(rms_norm(h{}, gain{}));
  static constexpr auto y = h{} + ffn.y;
  using losses = losses_of<attn, ffn>;
  using observed = observed_of<ffn>;
};
struct decoded_depth : size<dynamic> {};
struct DecodedNetwork {
  using x = DecodedBlock::x;
  static constexpr auto first = use<Moa<8, 4, SoftmaxTopK<4, 2>, causal>, "first">(x{});
  static constexpr auto blocks = repeat<decoded_depth, DecodedBlock, "blocks">(x{} + first.y);
  static constexpr auto y = blocks.y;
  using losses = losses_of<first, blocks>;
  using observed = observed_of<first, blocks>;
};

}  // namespace headmix::test

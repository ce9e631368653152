// expect first of 25 lines: headmix: multiply\(divide, ffn_gain\): columns of divide = 64 must equal columns of ffn_gain = 32|extents_fit<headmix::ops::multiply, 64L, headmix::rules::equal, 32L>
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/layer/feed_forward.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;
using Heads = Moh<64, 16, TwoStage<1, 3, 1>, causal, rope<>>;
using Ffn = Smoe<64, SoftmaxTopK<8, 2>, FeedForward<96>>;
struct Block {
  struct x : input<tokens, size<64>> {};
  struct attn_gain : param<size<64>> {
    using initializer = ones;
  };
#ifdef MUST_FAIL
  struct ffn_gain : param<size<32>> {
#else
  struct ffn_gain : param<size<64>> {
#endif
    using initializer = ones;
  };
  static constexpr auto attn = use<Heads, "attn">(rms_norm(x{}, attn_gain{}));
  struct h : let<decltype(x{} + attn.y)> {};
  static constexpr auto ffn = use<Ffn, "ffn">(rms_norm(h{}, ffn_gain{}));
  static constexpr auto y = h{} + ffn.y;
  using losses = losses_of<attn, ffn>;
  using observed = observed_of<attn, ffn>;
};
struct depth : size<dynamic> {};
struct Network {
  using x = Block::x;
  static constexpr auto blocks = repeat<depth, Block, "blocks", recompute>(x{});
  static constexpr auto y = blocks.y;
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
};
/// Uses of a refused value cause no further errors.
double step(view<float const> x, view<float const> dy) {
  Module<Network, Reference<float>> m(1, Reference<float>(), at<depth>(12));
  m.forward(x);
  m.backward(dy, {0.01, 0.001, 0.1});
  return m.loss<0>();
}

#pragma once
// SPDX-License-Identifier: MIT
// The equations of the language model: embedding, residual sublayers, next byte. A sublayer is a layer of the library
// (attention.hpp, mae.hpp, feed_forward.hpp).

#include "headmix/expr/linear.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/layer/use.hpp"

namespace lm {

using headmix::dynamic;

/// The residual stream, and the normalisation before each sublayer.
struct Stream {
  struct D : headmix::size<dynamic> {};
  struct x : headmix::input<headmix::tokens, D> {};
  struct norm_gain : headmix::param<D> {
    using initializer = headmix::ones;
  };
  struct norm_bias : headmix::param<D> {
    using initializer = headmix::zeros;
  };
  static constexpr auto normalised = layer_norm(x{}, norm_gain{}, norm_bias{});
};

/// The vector of a byte. Its position enters the queries and keys of attention by rope<>.
struct Embedding {
  struct V : headmix::size<256> {};

  struct x : headmix::selection<headmix::tokens, headmix::size<1>, V> {};
  struct W_e : headmix::param<V, Stream::D> {};

  static constexpr auto y = gather_rows(W_e{}, x{});

  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

/// The addend of layer L in the residual stream.
template <class L>
struct Residual {
  using x = Stream::x;
  static constexpr auto layer = headmix::use<L, "">(Stream::normalised);
  static constexpr auto y = x{} + layer.y;

  using losses = headmix::losses_of<layer>;
  using observed = headmix::observed_of<layer>;
  /// A leaf or a value of L in this sublayer.
  template <class E>
  static constexpr auto of_layer(E) {
    return typename decltype(layer)::template as<E>{};
  }
};

/// Layer L times a number, which makes up for the size of a mixture: its weights sum to 1, so k experts together are as
/// large as one head, where dense attention adds h heads. With AdamW, whose steps do not grow with the gradient,
/// experts would also learn k times slower.
template <class L>
struct Scaled {
  using x = typename L::x;
  struct scale : headmix::constant<headmix::size<1>> {};
  static constexpr auto y = scale{} * L::y;

  using losses = typename L::losses;
  using observed = typename L::observed;
};

/// The next byte; the output matrix is the embedding (tied).
struct NextByte {
  using x = Stream::x;
  struct W_e : headmix::input<Embedding::V, Stream::D> {};
  static constexpr auto logits = Stream::normalised % t(W_e{});

  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};
struct Logits : NextByte {
  static constexpr auto y = logits;
};
/// Mean cross entropy.
struct Loss : NextByte {
  struct target : headmix::selection<headmix::tokens, headmix::size<1>, Embedding::V> {};
  static constexpr auto y = mean(cross_entropy(logits, target{}));
};

}  // namespace lm

#pragma once
// SPDX-License-Identifier: MIT
// The layers of the language model that are not in the library, each a few equations. The attention layer is one of the
// library's: headmix::MultiHead, headmix::Moa, headmix::Moh or headmix::Mae. Feed-forward networks: networks.hpp.

#include "headmix/expr/linear.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"

namespace lm {

using headmix::dynamic;

/// A byte's vector plus its position's.
struct Embedding {
  struct D : headmix::size<dynamic> {};
  struct V : headmix::size<256> {};
  struct Context : headmix::size<dynamic> {};

  struct x : headmix::selection<headmix::tokens, headmix::size<1>, V> {};
  struct position : headmix::selection<headmix::tokens, headmix::size<1>, Context> {};
  struct W_e : headmix::param<V, D> {};
  struct W_p : headmix::param<Context, D> {};

  static constexpr auto y = gather_rows(W_e{}, x{}) + gather_rows(W_p{}, position{});

  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

/// The normalised residual stream that the attention, or the feed-forward network, reads.
struct PreNorm {
  struct D : headmix::size<dynamic> {};

  struct x : headmix::input<headmix::tokens, D> {};
  struct gain : headmix::param<D> {
    using initializer = headmix::ones;
  };
  struct bias : headmix::param<D> {
    using initializer = headmix::zeros;
  };

  static constexpr auto y = layer_norm(x{}, gain{}, bias{});

  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

/// Adds the attention's output to the residual stream. The gradient by the latter is that of the sum.
///
/// `scale` makes up for the size of a mixture: its weights sum to 1, so k experts together are as large as one head,
/// where dense attention adds h heads. With AdamW, whose steps do not grow with the gradient, they also learn k times
/// slower.
struct Sum {
  struct D : headmix::size<dynamic> {};

  struct x : headmix::constant<headmix::tokens, D> {};  // the residual stream
  struct a : headmix::input<headmix::tokens, D> {};     // the attention's output
  struct scale : headmix::constant<headmix::size<1>> {};

  static constexpr auto y = x{} + scale{} * a{};

  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

/// Mean cross entropy of the next byte; the output matrix is the embedding (tied).
struct Head {
  using D = PreNorm::D;
  using V = Embedding::V;

  struct x : headmix::input<headmix::tokens, D> {};
  struct target : headmix::selection<headmix::tokens, headmix::size<1>, V> {};
  struct W_e : headmix::input<V, D> {};
  struct gain : headmix::param<D> {
    using initializer = headmix::ones;
  };
  struct bias : headmix::param<D> {
    using initializer = headmix::zeros;
  };

  static constexpr auto z = layer_norm(x{}, gain{}, bias{}) % t(W_e{});
  static constexpr auto y = mean(cross_entropy(z, target{}));

  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

/// Probabilities of the next byte, with the head's weights.
struct Predict {
  using D = Head::D;
  using V = Head::V;

  struct x : headmix::input<headmix::tokens, D> {};
  struct W_e : headmix::input<V, D> {};
  struct gain : headmix::input<D> {};
  struct bias : headmix::input<D> {};

  static constexpr auto y = softmax(layer_norm(x{}, gain{}, bias{}) % t(W_e{}));

  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

}  // namespace lm

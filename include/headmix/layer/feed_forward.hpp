#pragma once
// SPDX-License-Identifier: MIT
// Feed-forward networks as experts: activations (SwiGLU, GELU, ReLU), weight types (real, ternary, packed), biases and
// dropout.

#include "headmix/expr/options.hpp"
#include "headmix/expr/quantize.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/layer/expert.hpp"

namespace headmix {

/// The hidden layer of a feed-forward network, from x W_up and, for gated activations, x W_gate. A custom activation
/// derives from `activation::policy`.
namespace activation {
struct swiglu;
struct policy : option_kind {
  using standard = swiglu;
  static constexpr char const *syntax =
                                  "activation::swiglu, activation::gelu, activation::gelu_tanh, activation::relu, or "
                                  "a custom one",
                              *meaning = "the hidden layer", *without = "activation::swiglu";
};
/// (x W_up) silu(x W_gate) (Shazeer 2020); W_gate is W_3 of MH-MoE.
struct swiglu : policy {
  static constexpr bool gated = true;
  template <Expr U, Expr V>
  static constexpr auto hidden(U up, V gate) {
    return up * silu(gate);
  }
};
struct gelu : policy {
  static constexpr bool gated = false;
  template <Expr U>
  static constexpr auto hidden(U up) {
    return headmix::gelu(up);
  }
};
/// gelu approximated by tanh (GPT-2, DiT).
struct gelu_tanh : policy {
  static constexpr bool gated = false;
  template <Expr U>
  static constexpr auto hidden(U up) {
    return headmix::gelu_tanh(up);
  }
};
struct relu : policy {
  static constexpr bool gated = false;
  template <Expr U>
  static constexpr auto hidden(U up) {
    return headmix::relu(up);
  }
};
}  // namespace activation

/// The weight type of a feed-forward network, and its products.
namespace weights {
struct real;
struct policy : option_kind {
  using standard = real;
  static constexpr char const *syntax = "weights::real, weights::ternary, weights::packed",
                              *meaning = "what the matrices are", *without = "weights::real";
};
/// Real weights.
struct real : policy {
  template <Extent Count, Extent In, Extent Out>
  struct matrices : param<Count, In, Out> {
    using initializer = fan_in_uniform;
  };
  /// x_{t} W_e for the chosen experts e of every row: [R * K, Out]
  template <Expr X, Expr W, Selection Chosen>
  static constexpr auto linear(X x, W w, Chosen index) {
    return expert_linear(x, w, index);
  }
  /// sum_i gate_{t,i} h_{t,i} W_i: [R, Out]
  template <Expr G, Expr H, Expr W, Selection Chosen>
  static constexpr auto sum(G gate, H h, W w, Chosen index) {
    return expert_linear_combine(round_to_storage(split_rows<cols<G>>(gate) * h), w, index);
  }
  /// x W, W the only matrix
  template <Expr X, Expr W>
  static constexpr auto product(X x, W w) {
    return x % w;
  }
};
/// Ternary weights, -1, 0 and 1 times one scale per expert, and 8-bit activations with one scale per row, both rounded
/// in every pass, with straight-through gradients (BitNet b1.58; no norm inside). The parameters are real.
struct ternary : policy {
  template <Extent Count, Extent In, Extent Out>
  using matrices = real::matrices<Count, In, Out>;
  template <Expr X, Expr W, Selection Chosen>
  static constexpr auto linear(X x, W w, Chosen index) {
    return real::linear(absmax_int8(x), absmean_ternary(w), index);
  }
  template <Expr G, Expr H, Expr W, Selection Chosen>
  static constexpr auto sum(G gate, H h, W w, Chosen index) {
    return real::sum(gate, absmax_int8(h), absmean_ternary(w), index);
  }
  template <Expr X, Expr W>
  static constexpr auto product(X x, W w) {
    return real::product(absmax_int8(x), absmean_ternary(w));
  }
};
/// Ternary weights packed in two bits each, with integer products: the results of `ternary` to rounding, for inference
/// on the CPU. copy_parameters() fills them from a trained layer.
struct packed : policy {
  template <Extent Count, Extent In, Extent Out>
  using matrices = packed_param<Count, In, Out>;
  template <Expr X, Expr W, Selection Chosen>
  static constexpr auto linear(X x, W w, Chosen index) {
    return packed_expert_linear<typename W::out>(x, w, index);
  }
  template <Expr G, Expr H, Expr W, Selection Chosen>
  static constexpr auto sum(G gate, H h, W w, Chosen index) {
    return combine(gate, packed_expert_linear<typename W::out>(h, w, index));
  }
  template <Expr X, Expr W>
  static constexpr auto product(X x, W w) {
    return packed_linear<typename W::out>(x, w);
  }
};
}  // namespace weights

/// Biases of the products of a feed-forward network, one of each for an expert; initially zero. They are real numbers
/// whatever the weights are, and the bias of the result is weighted like the expert.
struct feed_forward_bias : option_kind {
  static constexpr char const *syntax = "feed_forward_bias", *meaning = "adds b_up, b_gate (if gated) and b_down",
                              *without = "none";
};

namespace option {
struct no_hidden_dropout;
struct hidden_dropout : option_kind {
  using standard = no_hidden_dropout;
  static constexpr char const *syntax = "hidden_dropout<n, d>",
                              *meaning = "dropout of the hidden layer at the rate n / d", *without = "none";
};
struct no_hidden_dropout {
  /// The hidden layer a, unchanged.
  template <random_stream, Expr A>
  static constexpr A drop(A a) {
    return a;
  }
};
}  // namespace option

/// Dropout of the hidden layer of a feed-forward network at the rate Num / Den, between activation and W_down. A row
/// and its choices are numbered within the program, so experts divided among ranks (expert_parallel) refuse it.
template <Index Num, Index Den>
struct hidden_dropout : option::hidden_dropout {
  template <random_stream Stream, Expr A>
  static constexpr auto drop(A a) {
    return dropout<Num, Den, Stream>(a);
  }
};

/// The options of FeedForward.
using feed_forward_options = accepts<activation::policy, weights::policy, feed_forward_bias, option::hidden_dropout>;

/// An expert: hidden(x W_up [, x W_gate]) W_down. See feed_forward_options.
///
/// @tparam Hidden inner width d_moe, or `dynamic`
template <Index Hidden, class... Options>
struct FeedForward {
  using O = option_set<feed_forward_options, Options...>;
  using Activation = typename O::template get<activation::policy>;
  using Weights = typename O::template get<weights::policy>;
  using Dropout = typename O::template get<option::hidden_dropout>;
  static constexpr bool has_bias = O::template has<feed_forward_bias>;  ///< adds b_up, b_gate and b_down
  /// True if random values depend on a row's number.
  static constexpr bool draws_by_row = O::template has<option::hidden_dropout>;

  /// E experts for rows of width D, with W_up and W_gate [E, D, hidden_dim], W_down [E, hidden_dim, D], b_up and b_gate
  /// [E, hidden_dim], b_down [E, D].
  template <Extent E, Extent D, class Tag = void>
  struct experts {
    struct hidden_dim : size<Hidden> {};
    struct W_up : Weights::template matrices<E, D, hidden_dim> {};
    struct W_gate : Weights::template matrices<E, D, hidden_dim> {};
    struct W_down : Weights::template matrices<E, hidden_dim, D> {};
    struct b_up : bias_param<E, hidden_dim> {};
    struct b_gate : bias_param<E, hidden_dim> {};
    struct b_down : bias_param<E, D> {};

    /// x W_e + b_e of the chosen experts e.
    template <class B, Expr X, Expr W, Selection Chosen>
    static constexpr auto linear(X x, W w, Chosen index) {
      if constexpr (has_bias) {
        return Weights::linear(x, w, index) + expert_bias(B{}, index);
      } else {
        return Weights::linear(x, w, index);
      }
    }
    template <Expr X, Selection Chosen>
    static constexpr auto hidden(X x, Chosen index) {
      if constexpr (Activation::gated) {
        return Activation::hidden(linear<b_up>(x, W_up{}, index), linear<b_gate>(x, W_gate{}, index));
      } else {
        return Activation::hidden(linear<b_up>(x, W_up{}, index));
      }
    }
    template <Expr X, Expr G, Selection Chosen>
    static constexpr auto mixture(X x, G gate, Chosen index) {
      constexpr auto h = Dropout::template drop<random_stream::hidden_dropout>(hidden(x, index));
      constexpr auto y = Weights::sum(gate, h, W_down{}, index);
      if constexpr (has_bias) {
        return y + round_to_storage(scatter_cols(gate, index)) % b_down{};
      } else {
        return y;
      }
    }
  };

  /// One network that all rows of width D share.
  template <Extent D, class Tag = void>
  struct shared {
    struct hidden_dim : size<Hidden> {};
    struct W_up_s : Weights::template matrices<size<1>, D, hidden_dim> {};
    struct W_gate_s : Weights::template matrices<size<1>, D, hidden_dim> {};
    struct W_down_s : Weights::template matrices<size<1>, hidden_dim, D> {};
    struct b_up_s : bias_param<hidden_dim> {};
    struct b_gate_s : bias_param<hidden_dim> {};
    struct b_down_s : bias_param<D> {};

    template <Expr X>
    static constexpr auto hidden(X x) {
      constexpr auto up = Weights::product(x, W_up_s{}) + when<has_bias>(b_up_s{});
      if constexpr (Activation::gated) {
        return Activation::hidden(up, Weights::product(x, W_gate_s{}) + when<has_bias>(b_gate_s{}));
      } else {
        return Activation::hidden(up);
      }
    }
    template <Expr X>
    static constexpr auto of(X x) {
      constexpr auto h = Dropout::template drop<random_stream::shared_dropout>(hidden(x));
      return Weights::product(h, W_down_s{}) + when<has_bias>(b_down_s{});
    }
  };
};

}  // namespace headmix

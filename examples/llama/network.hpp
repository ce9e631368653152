#pragma once
// SPDX-License-Identifier: MIT
// A network of Llama's form. All sizes and all numbers of config.json are run-time values, so one type of each
// attention serves every model.

#include <type_traits>

#include "headmix/expr/linear.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"

namespace llama {

using headmix::dynamic;

struct width : headmix::size<dynamic> {};       ///< hidden_size
struct hidden : headmix::size<dynamic> {};      ///< intermediate_size
struct vocabulary : headmix::size<dynamic> {};  ///< vocab_size
struct depth : headmix::size<dynamic> {};       ///< num_hidden_layers

/// A number of config.json in three leaves of the backend's scalar: their sum is exact in float also where the scalar
/// is bfloat16, which alone would round rope_theta = 500000 to 499712.
template <class Parts>
using sum_of_parts = std::remove_cvref_t<decltype(row_sum(upcast(Parts{})))>;
struct eps : headmix::constant<headmix::size<3>> {};    ///< rms_norm_eps
struct theta : headmix::constant<headmix::size<3>> {};  ///< rope_theta

/// rope_scaling of the type llama3: numbers of the process, since it runs one model.
struct rope_scaling : headmix::rotary_form {
  static inline headmix::rotation numbers = {};
  static void apply(headmix::rotation& r) {
    r.trained = numbers.trained, r.factor = numbers.factor, r.low = numbers.low, r.high = numbers.high;
  }
};
struct rotary_embedding : headmix::option::position {
  template <headmix::Extent Heads, class Keys = void, headmix::Expr A>
  static constexpr auto rotate(A a) {
    return headmix::rotary<Heads, Keys, rope_scaling>(a, sum_of_parts<theta>{});
  }
};

using Dense =
    headmix::MultiHead<dynamic, dynamic, dynamic, headmix::causal, headmix::kv_heads<dynamic>, rotary_embedding>;
template <class Router>
using MohOf = headmix::Moh<dynamic, dynamic, Router, headmix::causal, headmix::kv_heads<dynamic>, rotary_embedding>;
/// The router of the paper's LLaMA3: no parameters; the gradient reaches all routed heads. In inference the choice is a
/// let, since it has many readers, whose types are spelled out otherwise.
struct LongestQueries : headmix::QueryNorm<dynamic, dynamic, dynamic> {
  using router = headmix::QueryNorm<dynamic, dynamic, dynamic>;
  template <headmix::Expr Q, class Tag = void>
  struct inference_route {
    struct active : headmix::let<std::remove_const_t<decltype(router::inference_route<Q, Tag>::index)>> {};
    static constexpr auto index = active{};
    static constexpr auto gate =
        headmix::ones_of<headmix::rows<Q>, headmix::plus<router::shared_heads, router::routed_top_k>>();
  };
};
using QueryNorm = MohOf<LongestQueries>;
/// The router of the paper's other models.
using TwoStage = MohOf<headmix::TwoStage<dynamic, dynamic, dynamic>>;

struct FeedForward {
  struct x : headmix::input<headmix::tokens, width> {};
  struct W_gate : headmix::param<width, hidden> {};
  struct W_up : headmix::param<width, hidden> {};
  struct W_down : headmix::param<hidden, width> {};
  static constexpr auto y = (silu(x{} % W_gate{}) * (x{} % W_up{})) % W_down{};
  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

/// The layer as programs without gradients compute it: MoH by queries without the heads that are not chosen.
template <class L>
struct Inferring : L {
  static constexpr auto result() {
    if constexpr (requires { L::y_inference; }) {
      return L::y_inference;
    } else {
      return L::y;
    }
  }
  static constexpr auto y = result();
};

/// Normalised inputs are lets: attention reads its input many times.
/// @tparam Infers  the attention computes active heads alone
template <class Attention, bool Infers>
struct Block {
  struct x : headmix::input<headmix::tokens, width> {};
  struct attn_gain : headmix::param<width> {};
  struct ffn_gain : headmix::param<width> {};
  struct attn_x : headmix::let<decltype(headmix::rms_norm<sum_of_parts<eps>>(x{}, attn_gain{}))> {};
  static constexpr auto attn =
      headmix::use<std::conditional_t<Infers, Inferring<Attention>, Attention>, "attn">(attn_x{});
  struct h : headmix::let<decltype(x{} + attn.y)> {};
  struct ffn_x : headmix::let<decltype(headmix::rms_norm<sum_of_parts<eps>>(h{}, ffn_gain{}))> {};
  static constexpr auto ffn = headmix::use<FeedForward, "ffn">(ffn_x{});
  static constexpr auto y = h{} + ffn.y;
  using losses = headmix::losses_of<attn, ffn>;
  using observed = headmix::observed_of<attn, ffn>;
};

/// From ids of tokens to logits [tokens, vocabulary], which are never rounded to bfloat16.
template <class Attention, bool Infers>
struct Network {
  using block = Block<Attention, Infers>;
  struct x : headmix::selection<headmix::tokens, headmix::size<1>, vocabulary> {};
  struct W_e : headmix::param<vocabulary, width> {};
  struct gain : headmix::param<width> {};
  struct W_lm : headmix::param<vocabulary, width> {};
  struct embedded : headmix::let<decltype(gather_rows(W_e{}, x{}))> {};
  static constexpr auto repeated() {
    if constexpr (Infers) {
      return headmix::repeat<depth, block, "blocks">(embedded{});
    } else {
      return headmix::repeat<depth, block, "blocks", headmix::recompute>(embedded{});
    }
  }
  static constexpr auto blocks = repeated();
  static constexpr auto y = upcast(headmix::rms_norm<sum_of_parts<eps>>(blocks.y, gain{}) % t(W_lm{}));
  using losses = headmix::losses_of<blocks>;
  using observed = headmix::type_list<>;
};

/// The mean cross entropy of the next tokens in nats.
template <class Attention>
struct Loss {
  using network = Network<Attention, false>;
  using x = typename network::x;
  struct target : headmix::selection<headmix::tokens, headmix::size<1>, vocabulary> {};
  static constexpr auto y = mean(cross_entropy(network::y, target{}));
  using losses = typename network::losses;
  using observed = headmix::type_list<>;
};

}  // namespace llama

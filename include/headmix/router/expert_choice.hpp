#pragma once
// SPDX-License-Identifier: MIT
// Selection of a single expert of MAE per sequence: given, drawn by the gate, drawn uniformly, or the most probable.

#include "headmix/expr/random.hpp"
#include "headmix/expr/select.hpp"

namespace headmix {

/// The expert of each sequence, Int [sequences, 1], for layers of single experts; `gate` is [sequences, C].
namespace choice {
/// An expert given by the caller.
struct given {
  template <Extent C>
  struct of {
    struct expert : selection<sequences, size<1>, C> {};
    template <Expr G>
    static constexpr auto chosen(G) {
      return expert{};
    }
  };
};
/// Drawn with the gate's probabilities: an F step. Without randomness the most probable expert.
struct drawn {
  template <Extent>
  struct of {
    template <Expr G>
    static constexpr auto chosen(G gate) {
      return arg_top_k<size<1>>(log(gate) + draw<draws::gumbel, random_stream::expert_sampling>(gate));
    }
  };
};
/// Drawn with equal probabilities.
struct uniform {
  template <Extent>
  struct of {
    template <Expr G>
    static constexpr auto chosen(G gate) {
      return arg_top_k<size<1>>(draw<draws::gumbel, random_stream::expert_sampling>(gate));
    }
  };
};
/// The most probable expert.
struct best {
  template <Extent>
  struct of {
    template <Expr G>
    static constexpr auto chosen(G gate) {
      return arg_top_k<size<1>>(gate);
    }
  };
};
}  // namespace choice

}  // namespace headmix

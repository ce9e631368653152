#pragma once
// SPDX-License-Identifier: MIT
// Which single expert of MAE a sequence has: given, drawn by the gate, drawn evenly, or the best.

#include "headmix/expr/random.hpp"
#include "headmix/expr/select.hpp"

namespace headmix {

/// Which expert a sequence has, Int [sequences, 1], where it has a single one; `gate` is [sequences, C].
namespace choice {
/// One that the caller gives.
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
/// Drawn by the gate: an F step. Without randomness the most probable one.
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
/// The most probable one.
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

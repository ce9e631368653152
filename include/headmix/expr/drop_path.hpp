#pragma once
// SPDX-License-Identifier: MIT
// Stochastic depth (Huang et al. 2016), per sequence: DropPath of vision transformers.

#include "headmix/expr/random.hpp"
#include "headmix/expr/sequence.hpp"

namespace headmix {

/// The branch a [Rows, C] of a residual, Rows `tokens` or `context_tokens`: 0 in a sequence with probability Num / Den,
/// else a Den / (Den - Num); a without randomness. All drop_paths of one layer and stream keep the same sequences: give
/// the second branch of a block `random_stream::user`. Sequences are numbered within a program's batch, so parts of a
/// divided batch draw the same numbers.
template <Index Num, Index Den, random_stream Stream = random_stream::drop_path, Expr A>
constexpr auto drop_path(A a) {
  return a * of_sequence<rows<A>>(draw<draws::keep<Num, Den>, Stream>(ones_of<sequences, size<1>>()));
}

}  // namespace headmix

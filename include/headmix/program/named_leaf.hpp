#pragma once
// SPDX-License-Identifier: MIT
// The leaves of a program by name: Program::named_leaves(), Program::bind("W_q", ...).

#include <string_view>

#include "headmix/core/config.hpp"

namespace headmix {

/// The role of a leaf. Selections, packed parameters and random keys are Int, the others are numbers of the backend.
enum class leaf_kind {
  input,             ///< an activation, with a gradient
  parameter,         ///< a learned weight, with a gradient
  buffer,            ///< state of a module
  constant,          ///< numbers without a gradient
  cache,             ///< numbers that operations read and write
  selection,         ///< indices, -1 for none
  packed_parameter,  ///< ternary weights
  random_key,        ///< the words of a `randomness`
};
namespace detail {
constexpr char const* text_of(leaf_kind k) {
  constexpr char const* words[] = {"input", "parameter", "buffer",           "constant",
                                   "cache", "selection", "packed parameter", "random key"};
  return words[static_cast<int>(k)];
}
}  // namespace detail

/// A leaf of a program; an instance of one in a repeated layer.
struct named_leaf {
  std::string_view name;       ///< as Module::parameters() has it: "W_q", "blocks.3.W_q"
  std::string_view qualified;  ///< of the leaf's type, where several leaves have one name
  leaf_kind kind;
  Index count, rows, cols;  ///< `dynamic` where the size is not known yet
  bool has_gradient;        ///< backward passes of the program add to one
  bool is_bound;
};

}  // namespace headmix

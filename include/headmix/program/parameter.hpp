#pragma once
// SPDX-License-Identifier: MIT
// parameter<T>: one named weight of a module, as an optimiser, a checkpoint or a printout sees it.
// The module owns the memory and the name; a parameter is a handle to both.

#include <string_view>

#include "headmix/core/view.hpp"

namespace headmix {

/// A weight and the gradient that backward passes add to; both contiguous, with the same count, rows and cols.
template <class T>
struct parameter {
  std::string_view name;
  view<T> value;
  view<T> gradient;
};

/// Ternary matrices [in, out] packed for inference (core/ternary.hpp): [matrices, 1, words].
struct packed_parameter {
  std::string_view name;
  view<Int> words;
  Index in, out;
};

}  // namespace headmix

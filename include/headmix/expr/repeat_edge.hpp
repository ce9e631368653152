#pragma once
// SPDX-License-Identifier: MIT
// The edges of the parts of a program that are repeated.

namespace headmix {

/// The kind of edge of a repeated part that a call is.
enum class repeat_edge {
  none,            ///< not an edge
  begin,           ///< brings in the value on which the first repetition works
  end,             ///< brings out the result of the last repetition
  total,           ///< adds a number of each repetition
  gradient_begin,  ///< brings in the gradient of the result
  gradient_end,    ///< brings out the gradient of the value brought in
  gradient_total   ///< adds a gradient of each repetition, by a value that all repetitions read
};

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// The edges of the parts of a program that are repeated.

namespace headmix {

/// What a call does at the edge of a repeated part.
enum class repeat_edge {
  none,            ///< it is no edge
  begin,           ///< brings the value in that the first time works on
  end,             ///< brings the value out that the last time made
  total,           ///< adds a number of each time
  gradient_begin,  ///< brings in the gradient by what came out
  gradient_end     ///< brings out the gradient by what went in
};

}  // namespace headmix

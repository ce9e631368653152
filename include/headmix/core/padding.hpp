#pragma once
// SPDX-License-Identifier: MIT
// Padding: the valid rows of padded sequences, for layers with the option `padded`.

#include <limits>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// The valid rows of padded sequences, from a mask [sequences, length], nonzero = valid. Valid tokens may be anywhere
/// in a sequence.
///
///   Padding p(mask);
///   auto y = m.forward(x, p);  // x and y [sequences * length, D]; rows of padding are not read, and are 0 in y
class Padding {
 public:
  /// From a mask [sequences, length]; one without sequences is an error.
  template <class T>
  explicit Padding(view<T> mask) : all_((checked(mask.rows) * mask.cols).value) {
    if (1 > mask.rows) fail("Padding: the mask has no sequences; expected at least one row");
    if (all_ > (std::numeric_limits<Int>::max)()) {
      fail("Padding: ", all_, " rows are more than the ", (std::numeric_limits<Int>::max)(), " that an Int can number");
    }
    offsets_.reserve(static_cast<std::size_t>(mask.rows) + 1);
    offsets_.push_back(0);
    for (Index b = 0; b < mask.rows; ++b) {
      for (Index t = 0; t < mask.cols; ++t) {
        if (mask(b, t) != 0) rows_.push_back(static_cast<Int>(b * mask.cols + t));
      }
      offsets_.push_back(static_cast<Int>(rows_.size()));
    }
  }

  /// The row numbers of the valid rows, ascending: Int [valid, 1].
  [[nodiscard]] view<Int const> valid_rows() const { return {rows_.data(), static_cast<Index>(rows_.size()), 1}; }
  /// The valid rows of each sequence, as ranges. Refers to this object.
  [[nodiscard]] segments sequences() const {
    return {offsets_.data(), static_cast<Index>(offsets_.size()) - 1, static_cast<Index>(rows_.size())};
  }
  /// The number of rows of the padded input.
  [[nodiscard]] Index rows() const { return all_; }

 private:
  std::vector<Int> rows_, offsets_;
  Index all_;
};

/// The sequences of an input: all rows (`segments`) or the valid rows (`Padding`, to which it refers).
struct batch {
  segments sequences;
  view<Int const> valid_rows;
  Index rows = 0;  ///< of the input, valid or padding
  bool has_padding = false;

  /// Sequences without padding.
  batch(segments s) : sequences(s), rows(s.rows) {}
  /// Sequences with padding; refers to it.
  batch(Padding const& p) : sequences(p.sequences()), valid_rows(p.valid_rows()), rows(p.rows()), has_padding(true) {}
};

}  // namespace headmix

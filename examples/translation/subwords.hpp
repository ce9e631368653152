#pragma once
// SPDX-License-Identifier: MIT
// Subwords: byte-pair encoding (Sennrich, Haddow and Birch 2016) over bytes, so that every text has an encoding.

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "translation.hpp"

namespace translation {

/// Id 0 is the end of a sentence, 1 + b is byte b, 257 + i is merge i of two earlier subwords. Merges stay within a
/// word: letters and digits, or one other character, with the space before it.
class Subwords {
 public:
  /// Merges the most frequent pair of adjacent subwords, again and again, up to `vocabulary` ids; fewer if no pair
  /// occurs twice. Of equally frequent pairs the one with the smaller ids.
  [[nodiscard]] static Subwords learn(std::vector<std::string> const& sentences, Index vocabulary);
  /// A file of write(). UsageError with one line if it is none.
  [[nodiscard]] static Subwords read(std::string const& path);
  void write(std::string const& path) const;

  [[nodiscard]] Ids encode(std::string_view sentence) const;
  /// The sentence of these ids; encode() reversed. end_id is skipped.
  [[nodiscard]] std::string decode(Ids const& ids) const;
  /// The number of ids.
  [[nodiscard]] Index size() const { return static_cast<Index>(texts_.size()); }

 private:
  Subwords();
  void add(Int left, Int right);
  [[nodiscard]] Ids encode_word(std::string_view word) const;

  std::vector<std::array<Int, 2>> merges_;
  std::map<std::array<Int, 2>, Int> ranks_;  ///< the id that a pair becomes
  std::vector<std::string> texts_;
};

}  // namespace translation

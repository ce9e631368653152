#pragma once
// SPDX-License-Identifier: MIT
// Ids of tokens: a text of numbers, or a file of them.

#include <string>
#include <string_view>
#include <vector>

#include "headmix/core/config.hpp"

namespace llama {

using headmix::Index, headmix::Int;

/// Whole numbers from 0 to vocabulary - 1 between white space or commas. An Error names `whose` and the number.
[[nodiscard]] std::vector<Int> parse_tokens(std::string_view text, std::string_view whose, Index vocabulary);
/// The ids of a file: text if its name ends with .txt, otherwise 32-bit numbers, little-endian.
[[nodiscard]] std::vector<Int> read_tokens(std::string const& path, Index vocabulary);

}  // namespace llama

#pragma once
// SPDX-License-Identifier: MIT
// BLEU (Papineni et al. 2002) of a corpus with one reference for each sentence, as sacreBLEU (Post 2018) counts it:
// the tokens of mteval-v13a, n-grams up to 4, exponential smoothing of precisions without a match, case kept.

#include <string>
#include <string_view>
#include <vector>

namespace translation {

/// Tokens of mteval-v13a.
[[nodiscard]] std::vector<std::string> tokens_13a(std::string_view text);

/// From 0 to 100.
[[nodiscard]] double bleu(std::vector<std::string> const& translations, std::vector<std::string> const& references);

}  // namespace translation

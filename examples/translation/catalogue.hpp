#pragma once
// SPDX-License-Identifier: MIT
// Message catalogues of GNU gettext, .mo files: pairs of an English message and its translation.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace translation {

/// A sentence and its translation.
using Pair = std::pair<std::string, std::string>;

/// The messages of a catalogue in the order of the file: without the header and without contexts, of plural forms the
/// first one. Either order of bytes.
/// @param name of the file, for errors: UsageError with one line if the bytes are no catalogue in UTF-8
[[nodiscard]] std::vector<Pair> read_catalogue(std::span<unsigned char const> bytes, std::string_view name);

/// A message as a sentence: without the marker of an accelerator key (&, _ or ~ before a letter or digit).
[[nodiscard]] std::string without_accelerator(std::string_view text);

}  // namespace translation

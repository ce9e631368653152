#pragma once
// SPDX-License-Identifier: MIT
// The options of headmix-translate.

#include <string>
#include <string_view>
#include <vector>

#include "translation.hpp"

namespace translation {

struct Options {
  std::string corpus, attention = "moa", save, from;
  Sizes sizes{.vocabulary = 4000};
  Index steps = 2000, batch = 1500, warmup = 400, longest = 64, test = 500;
  double lr = 2e-3;
  std::uint64_t seed = 1;
  Search search;
  bool check_decoding = false, help = false;
};

/// UsageError with one line if an option is unknown, or a value is not possible.
[[nodiscard]] Options parse_options(std::vector<std::string_view> const& arguments);
[[nodiscard]] std::string help_text();

/// The options that the parameters of a checkpoint depend on, as metadata.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> sizes_as_text(Options const& o);
/// Sets such an option.
void set_size(Options& o, std::string const& where, std::string const& key, std::string const& value);

}  // namespace translation

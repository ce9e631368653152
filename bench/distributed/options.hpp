#pragma once
// SPDX-License-Identifier: MIT
// The command line.

#include <string>
#include <vector>

#include "layers.hpp"

namespace bench {

struct Options {
  std::string machine;  ///< empty: measure
  std::string machines = HEADMIX_BENCH_MACHINES;
  Index ranks = 64;  ///< number of ranks of the machine
  bool bfloat16 = true;
  std::string layer = "all";
  Sizes sizes;
  Timing timing;
  bool quick = false;
};

/// @throws command_line::UsageError
[[nodiscard]] Options parse_options(std::vector<std::string> const& arguments);

}  // namespace bench

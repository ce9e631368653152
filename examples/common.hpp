#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the small examples: random numbers, and a check of derived gradients.

#include <cstdio>
#include <headmix/testing/gradcheck.hpp>
#include <vector>

namespace example {

/// Normal numbers times `scale`; the same on every platform.
inline std::vector<float> random_numbers(headmix::Index n, double scale = 1, std::uint64_t seed = 1) {
  std::vector<float> numbers(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(scale * headmix::Random(seed).normal(i));
  }
  return numbers;
}

/// Compares the derived gradients of y, for 7 tokens, with central differences in double, and prints the largest error.
bool gradients_agree(char const* name, headmix::Expr auto y) {
  auto const result = headmix::gradcheck(y, headmix::at<headmix::tokens>(7));
  std::printf("gradients of %s: largest error %.1e%s%s\n", name, result.error, result.ok() ? "" : ", at ",
              result.ok() ? "" : result.text.c_str());
  return result.ok();
}

}  // namespace example

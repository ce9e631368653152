#pragma once
// SPDX-License-Identifier: MIT
// Random numbers that the definitions are given: Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy
// as 1, 2, 3", section 3.3 and table 2) with the counter (block, purpose, step, module) that the pages of the library
// promise. No header of the library is included here.

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace headmix::definition {

/// Purposes, numbered as in a checkpoint's stream of draws.
enum class purpose : std::uint32_t {
  gating_noise = 5,
  expert_sampling = 6,
  output_dropout = 7,
  attention_dropout = 8,
  hidden_dropout = 61,
  shared_dropout = 62
};

struct Draws {
  bool on = false;
  std::uint64_t seed = 0;
  std::uint32_t step = 0;

  /// Block `n` of four words of a purpose.
  [[nodiscard]] std::array<std::uint32_t, 4> block(purpose of, std::uint64_t n) const {
    std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(n),
                                   static_cast<std::uint32_t>(n >> 32) | static_cast<std::uint32_t>(of) << 26, 0, step};
    auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      std::uint64_t const a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
      c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
           static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
      k0 += 0x9E3779B9, k1 += 0xBB67AE85;
    }
    return c;
  }
  /// Element i of a purpose, in [0, 1).
  [[nodiscard]] double uniform(purpose of, std::uint64_t i) const { return block(of, i / 4)[i % 4] * 0x1p-32; }
  /// Element i, standard normal by Box and Muller's cosine; 0 without randomness.
  [[nodiscard]] double normal(purpose of, std::uint64_t i) const {
    if (!on) return 0;
    auto const b = block(of, i / 2);
    std::size_t const k = i % 2 * 2;
    return std::sqrt(-2 * std::log((b[k] + 0.5) * 0x1p-32)) * std::cos(2 * std::numbers::pi * b[k + 1] * 0x1p-32);
  }
  /// Element i of the Gumbel distribution; 0 without randomness.
  [[nodiscard]] double gumbel(purpose of, std::uint64_t i) const {
    return on ? -std::log(-std::log((block(of, i / 4)[i % 4] + 0.5) * 0x1p-32)) : 0;
  }
  /// The factor of dropout of element i: 0, or 1 / (1 - rate); 1 without randomness.
  [[nodiscard]] double keep(purpose of, std::uint64_t i, double rate) const {
    if (!on || rate == 0) return 1;
    return uniform(of, i) < rate ? 0 : 1 / (1 - rate);
  }
  /// The factor of a probability, by the row of its query and the position of its key.
  [[nodiscard]] double keep_probability(std::uint64_t row, std::uint64_t key, double rate) const {
    return keep(purpose::attention_dropout, row << 26 | key, rate);
  }
};

}  // namespace headmix::definition

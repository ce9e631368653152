#pragma once
// SPDX-License-Identifier: MIT
// Philox4x32-10 (Salmon et al. 2011): a random number is a function of a key and a counter, so results depend on
// neither the thread count nor the order of evaluation, and are the same on every platform.

#include <cmath>
#include <numbers>

#include "headmix/core/config.hpp"

namespace headmix {

/// Four 32-bit words (std::array is not for device code).
struct philox_block {
  std::uint32_t word[4];
};

/// Four random 32-bit words from a 128-bit counter and a 64-bit key.
[[nodiscard]] HEADMIX_HD constexpr philox_block philox(philox_block counter, std::uint64_t key) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  auto& c = counter.word;
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const a = std::uint64_t{0xD2511F53u} * c[0];
    std::uint64_t const b = std::uint64_t{0xCD9E8D57u} * c[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

/// A stream of random numbers named by (seed, stream); element i does not depend on the elements before it.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  /// Word i of the stream.
  [[nodiscard]] constexpr std::uint32_t word(std::uint64_t i) const { return block(i / 4).word[i % 4]; }
  /// Element i, uniform on [0, 1).
  [[nodiscard]] constexpr double uniform(std::uint64_t i) const { return word(i) * 0x1p-32; }
  /// Element i, uniform on {0, ..., n - 1}.
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t i, std::uint64_t n) const {
    return (std::uint64_t{word(i)} * n) >> 32;
  }
  /// Element i, standard normal (Box-Muller).
  [[nodiscard]] double normal(std::uint64_t i) const {
    auto const b = block(i / 2);
    std::size_t const k = i % 2 * 2;
    double const radius = std::sqrt(-2 * std::log((b.word[k] + 0.5) * 0x1p-32));
    return radius * std::cos(2 * std::numbers::pi * b.word[k + 1] * 0x1p-32);
  }

 private:
  [[nodiscard]] constexpr philox_block block(std::uint64_t n) const {
    return philox({{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32),
                    static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)}},
                  seed_);
  }
  std::uint64_t seed_, stream_;
};

}  // namespace headmix

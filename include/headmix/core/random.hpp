#pragma once
// SPDX-License-Identifier: MIT
// Philox4x32-10 (Salmon et al. 2011): a random number is a function of a key and a counter, so results depend on
// neither the thread count nor the order of evaluation, and are the same on every platform.

#include <bit>
#include <cmath>
#include <numbers>
#include <string_view>

#include "headmix/core/config.hpp"
#include "headmix/core/digest.hpp"
#include "headmix/core/error.hpp"

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

/// The purposes of random numbers. The purpose is a part of Philox's counter, so different purposes never use the same
/// counter, whatever the seeds are. `user` and the numbers from it up to `hidden_dropout - 1` are for draws of custom
/// layers.
enum class random_stream : std::uint32_t {
  own,                  ///< of Random(seed, number), for programs
  parameters,           ///< initial values of parameters; number: the parameter
  buffers,              ///< initial values of buffers; number: the buffer
  stochastic_rounding,  ///< of optimisers; number: the step
  names,                ///< named_seed(); number: a hash of the name
  gating_noise,         ///< of routers; number here and below: step, module and use
  expert_sampling,      ///< of routers
  output_dropout,       ///< of layer results
  attention_dropout,    ///< of attention probabilities
  user,                 ///< of custom layers
  hidden_dropout = 61,  ///< of the hidden layer of experts
  shared_dropout,       ///< of the hidden layer of shared networks
  drop_path             ///< of the branches of whole sequences
};
/// Number of purposes.
inline constexpr std::uint32_t random_streams = 64;

/// Philox's counter of block `n`, below 2^58: 58 bits of n, 6 of the purpose, 64 of the number. Distinct arguments give
/// distinct counters.
[[nodiscard]] HEADMIX_HD constexpr philox_block random_counter(random_stream stream, std::uint64_t number,
                                                               std::uint64_t n) {
  return {{static_cast<std::uint32_t>(n),
           (static_cast<std::uint32_t>(n >> 32) & 0x3FFFFFFu) | static_cast<std::uint32_t>(stream) << 26,
           static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)}};
}
namespace detail {
/// True if every bit of a purpose, a number and a block maps to its own bit of the counter, and all bits are used.
constexpr bool random_counter_is_bijective() {
  philox_block seen = {};
  auto const is_new = [&seen](philox_block c) {
    int bits = 0;
    for (int i = 0; i < 4; ++i) {
      bits += std::popcount(c.word[i]) + 32 * std::popcount(seen.word[i] & c.word[i]);
      seen.word[i] |= c.word[i];
    }
    return bits == 1;
  };
  bool good = true;
  for (std::uint32_t s = 1; s < random_streams; s *= 2)
    good &= is_new(random_counter(static_cast<random_stream>(s), 0, 0));
  for (int b = 0; b < 64; ++b) good &= is_new(random_counter(random_stream::own, std::uint64_t{1} << b, 0));
  for (int b = 0; b < 58; ++b) good &= is_new(random_counter(random_stream::own, 0, std::uint64_t{1} << b));
  return good;
}
}  // namespace detail
static_assert(detail::random_counter_is_bijective() && static_cast<std::uint32_t>(random_stream::user) < random_streams,
              "headmix: different purposes, numbers and blocks are different counters");

/// The key of the random values of a program: they depend on it and on the position of an element. Six Ints, so that
/// the key can lie beside the data.
struct randomness {
  /// Upper bound of module and use numbers, each of which draws its own random numbers.
  static constexpr std::uint32_t modules = 1u << 16;

  Int word[6] = {};  ///< the seed's low and high word, step, use << 16 | module, first token, 1 if enabled

  randomness() = default;
  /// @param step  of the training; draws differ between steps
  /// @param module  number of the module in a model; draws differ between modules; an Error unless it is below 2^16
  /// @param first_token  number of the program's first token in the whole batch, if the batch is divided
  explicit constexpr randomness(std::uint64_t seed, std::uint32_t step = 0, std::uint32_t module = 0,
                                std::uint32_t first_token = 0)
      : word{static_cast<Int>(static_cast<std::uint32_t>(seed)),
             static_cast<Int>(static_cast<std::uint32_t>(seed >> 32)),
             static_cast<Int>(step),
             static_cast<Int>(module),
             static_cast<Int>(first_token),
             1} {
    if (module >= modules) fail("randomness: module: expected a number below ", modules, ", found ", module);
  }
  /// No randomness, for evaluation: noise is 0, dropout keeps all elements. Also the default value.
  HEADMIX_HD static constexpr randomness off() { return {}; }
  /// The key for use number `use` of a layer in a program, below `modules`; draws differ between uses.
  [[nodiscard]] constexpr randomness of_use(std::uint32_t use) const {
    randomness r = *this;
    r.word[3] = static_cast<Int>((static_cast<std::uint32_t>(word[3]) & (modules - 1)) | use << 16);
    return r;
  }
};

/// A stream of random numbers named by (seed, number, purpose); element i does not depend on the elements before it.
class Random {
 public:
  /// The stream of a seed, a number and a purpose. For one seed, streams of different numbers or purposes share no
  /// words.
  HEADMIX_HD explicit constexpr Random(std::uint64_t seed, std::uint64_t number = 0,
                                       random_stream stream = random_stream::own)
      : seed_(seed), number_(number), stream_(stream) {}

  /// Words 4 n .. 4 n + 3 of the stream, n below 2^58.
  [[nodiscard]] HEADMIX_HD constexpr philox_block block(std::uint64_t n) const {
    return philox(random_counter(stream_, number_, n), seed_);
  }
  /// Word i of the stream.
  [[nodiscard]] HEADMIX_HD constexpr std::uint32_t word(std::uint64_t i) const {
    // Not word[i % 4]: a device would keep the block in memory to index it.
    auto const b = block(i / 4);
    std::uint32_t const even = i & 2 ? b.word[2] : b.word[0], odd = i & 2 ? b.word[3] : b.word[1];
    return i & 1 ? odd : even;
  }
  /// Element i, uniform on [0, 1).
  [[nodiscard]] HEADMIX_HD constexpr double uniform(std::uint64_t i) const { return word(i) * 0x1p-32; }
  /// Element i, uniform on {0, ..., n - 1}.
  [[nodiscard]] HEADMIX_HD constexpr std::uint64_t below(std::uint64_t i, std::uint64_t n) const {
    return (std::uint64_t{word(i)} * n) >> 32;
  }
  /// Element i, standard normal (Box-Muller).
  [[nodiscard]] HEADMIX_HD double normal(std::uint64_t i) const {
    auto const b = block(i / 2);
    std::size_t const k = i % 2 * 2;
    double const radius = std::sqrt(-2 * std::log((b.word[k] + 0.5) * 0x1p-32));
    return radius * std::cos(2 * std::numbers::pi * b.word[k + 1] * 0x1p-32);
  }

 private:
  std::uint64_t seed_, number_;
  random_stream stream_;
};

/// The seed of a named part of a model. Modules of one seed are replicas: they start with the same parameters and draw
/// the same noise and dropout. Modules with different names differ:
/// `Module<Layer, Backend> m(named_seed(seed, "0.attn"))`.
[[nodiscard]] constexpr std::uint64_t named_seed(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = detail::fnv1a_basis;
  for (char const c : name) hash = detail::fnv1a(hash, static_cast<unsigned char>(c));
  auto const b = Random(seed, hash, random_stream::names).block(0);
  return std::uint64_t{b.word[0]} << 32 | b.word[1];
}

/// A program's random values of this purpose; `key` holds the words of a `randomness`. The number is step << 32 |
/// use << 16 | module.
[[nodiscard]] HEADMIX_HD inline Random random_stream_of(Int const* key, random_stream stream) {
  auto const word = [key](int n) { return std::uint64_t{static_cast<std::uint32_t>(key[n])}; };
  return Random(word(0) | word(1) << 32, word(2) << 32 | word(3), stream);
}
/// The number, in the whole batch, of row i of a value with `rows_per_token` rows per token.
[[nodiscard]] HEADMIX_HD inline std::uint64_t row_in_batch(Int const* key, Index i, Index rows_per_token) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(key[4])) * static_cast<std::uint64_t>(rows_per_token) +
         static_cast<std::uint64_t>(i);
}
/// False for randomness::off().
[[nodiscard]] HEADMIX_HD inline bool randomness_is_on(Int const* key) { return key[5] != 0; }

}  // namespace headmix

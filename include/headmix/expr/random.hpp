#pragma once
// SPDX-License-Identifier: MIT
// Random values as expressions: functions of a key and of the position of the element, computed when read. Forward and
// backward passes see the same value; it depends neither on the number of threads nor on how a batch is divided.

#include "headmix/core/random.hpp"
#include "headmix/expr/pointwise.hpp"

namespace headmix {

/// The leaf with the key of all random values of a program; bind it to the words of a `randomness`.
struct random_key : leaf<kind::integer, false, size<1>, size<6>> {};

namespace draws {
/// N(0, 1); 0 without randomness.
struct normal {
  static constexpr double off = 0;
  HEADMIX_HD static double value(Random const& random, std::uint64_t i) { return random.normal(i); }
};
/// The standard Gumbel distribution, -log(-log u); 0 without randomness. The k largest log w_i + g_i are a sample of
/// size k without replacement, each draw with probabilities proportional to w (Kool et al. 2019).
struct gumbel {
  static constexpr double off = 0;
  HEADMIX_HD static double value(Random const& random, std::uint64_t i) {
    return -std::log(-std::log((random.word(i) + 0.5) * 0x1p-32));
  }
};
/// 1 / (1 - rate) with probability 1 - rate, else 0, rate = Num / Den; 1 without randomness (Srivastava et al. 2014).
template <Index Num, Index Den>
struct keep {
  static_assert(0 <= Num && Num < Den, "headmix: a dropout rate is a fraction from 0 to below 1");
  static constexpr double off = 1;
  /// The probability of 0.
  static constexpr double rate = static_cast<double>(Num) / static_cast<double>(Den);
  HEADMIX_HD static double value(Random const& random, std::uint64_t i) {
    return random.uniform(i) < rate ? 0 : 1 / (1 - rate);
  }
};
}  // namespace draws

namespace ops {

/// Element (i, j) of [Rows, Cols] drawn from Distribution.
template <class Distribution, random_stream Stream, class Rows, class Cols>
struct draw : operation {
  using draws = Distribution;
  static_assert(
      Stream >= random_stream::gating_noise && static_cast<std::uint32_t>(Stream) < random_streams,
      "headmix: a layer draws for gating_noise or a purpose behind it in random_stream, of which user and the "
      "numbers behind it are for layers of your own");
  static constexpr random_stream stream = Stream;
  static constexpr detail::form form_of = detail::form::pointwise;
  static constexpr bool differentiable = false;
  template <class Key>
  using shape_of = shape<Rows, Cols>;
};

}  // namespace ops

/// Random values of the shape of `like`. Two draws of one layer and stream use the same numbers.
template <class Distribution, random_stream Stream, Expr Like>
constexpr auto draw(Like) {
  return detail::node<ops::draw<Distribution, Stream, rows<Like>, cols<Like>>, random_key>{};
}

/// a with every element zero with probability Num / Den, and the others scaled to the same expectation. Two dropouts of
/// one layer and stream use the same numbers: give the second one `random_stream::user`.
template <Index Num, Index Den, random_stream Stream = random_stream::output_dropout, Expr A>
constexpr auto dropout(A a) {
  return a * draw<draws::keep<Num, Den>, Stream>(a);
}

}  // namespace headmix

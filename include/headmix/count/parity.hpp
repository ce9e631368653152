#pragma once
// SPDX-License-Identifier: MIT
// The MhMoe of equal cost to a Smoe (Huang et al. 2024, equations 5 to 10), here for any k on either side and also for
// gated experts. Head and merge layers are compensated by narrower experts, and their parameters by fewer experts:
//
//   constexpr expert_sizes smoe = {.hidden = 2048, .experts = 8};
//   static_assert(parity_hidden(768, smoe, 3).nearest() == 512);
//   static_assert(parity_experts(768, smoe, 3, 512).nearest(8) == 96);  // 93 exactly
//
// As in the paper, biases and the router are left out; count.hpp counts a layer with them. For its models the paper
// rounds E to a multiple of 8, which is 3 % of the parameters either way. Two of its examples do not follow from its
// equation 6, whose inner sums occur in all h sub-tokens: 67 d^2 - 75/4 d should be 67 d^2 - 66 d, and 16 d^2 - 6 d
// should be 16 d^2 - 9 d.

#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// Feed-forward experts without biases.
struct expert_sizes {
  Index hidden;        ///< inner width d_moe
  Index experts;       ///< E
  Index top_k = 1;     ///< k
  Index matrices = 3;  ///< of an expert: 3 for SwiGLU, 2 without a gate, as in the paper's equations
};

/// An exact quotient of positive numbers.
struct ratio {
  Index numerator, denominator;

  /// The quotient.
  [[nodiscard]] constexpr double value() const {
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }
  /// The nearest multiple; of two equally near ones the larger.
  [[nodiscard]] constexpr Index nearest(Index multiple = 1) const {
    if (1 > multiple) fail("a number is rounded to multiples of 1 or more; found ", multiple);
    checked const step = checked(multiple) * denominator;
    return (checked(2) * numerator + step).value / (2 * step).value * multiple;
  }
};

namespace detail {
/// FLOPs of a linear layer for one row, width a to width b: a products and a - 1 sums for each of b numbers.
constexpr checked linear_flops(checked a, checked b) { return 2 * a * b - b; }
/// FLOPs of one row of width d through one expert, without the activation.
constexpr checked expert_flops(Index d, expert_sizes const& x) {
  return (checked(x.matrices) - 1) * linear_flops(d, x.hidden) + linear_flops(x.hidden, d);
}
constexpr ratio positive_ratio(checked numerator, checked denominator) {
  if (1 > denominator.value) fail("parity: all sizes must be positive");
  if (1 > numerator.value) fail("parity: the head and the merge layer alone cost as much as the experts");
  return {numerator.value, denominator.value};
}
}  // namespace detail

/// Products and sums of a token in a Smoe of width d: (7).
[[nodiscard]] constexpr Index smoe_flops(Index width, expert_sizes const& x) {
  return (x.top_k * detail::expert_flops(width, x)).value;
}
/// Products and sums of a token in an MhMoe of `split` sub-tokens with its head and merge layers: (6).
[[nodiscard]] constexpr Index mh_moe_flops(Index width, Index split, expert_sizes const& x) {
  if (1 > split || width % split != 0) fail(split, " sub-tokens do not divide a width of ", width);
  return (2 * detail::linear_flops(width, width) + checked(split) * x.top_k * detail::expert_flops(width / split, x))
      .value;
}

/// The inner width that gives an MhMoe of `top_k` choices as many products as a Smoe: (8), which is for equal k. With n
/// matrices in an expert it is (k_smoe d_smoe - 2 d / n) / k, for any number of sub-tokens.
[[nodiscard]] constexpr ratio parity_hidden(Index width, expert_sizes const& smoe, Index top_k) {
  return detail::positive_ratio(checked(smoe.matrices) * smoe.top_k * smoe.hidden - checked(2) * width,
                                checked(smoe.matrices) * top_k);
}
/// The number of experts of inner width `hidden` that gives an MhMoe as many parameters as a Smoe: (9), and (10) for
/// d_smoe = 4 d, k = 1 and h = 3. It is h (n d_smoe E_smoe - 2 d) / (n hidden).
[[nodiscard]] constexpr ratio parity_experts(Index width, expert_sizes const& smoe, Index split, Index hidden) {
  return detail::positive_ratio(split * (checked(smoe.matrices) * smoe.hidden * smoe.experts - checked(2) * width),
                                checked(smoe.matrices) * hidden);
}

}  // namespace headmix

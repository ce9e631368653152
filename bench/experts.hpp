#pragma once
// SPDX-License-Identifier: MIT
// Choices of experts as operands of the grouped kernels.

#include "common.hpp"

namespace bench {

/// Every row chooses `choices` different experts, all equally often on average.
struct Chosen {
  std::vector<Int> index, perm, offsets;
  Index rows, choices, experts;

  Chosen(Index rows_, Index choices_, Index experts_)
      : index(static_cast<std::size_t>(rows_ * choices_)),
        perm(index.size()),
        offsets(static_cast<std::size_t>(experts_ + 1)),
        rows(rows_),
        choices(choices_),
        experts(experts_) {
    headmix::Random const random(1);
    for (std::size_t i = 0; i < index.size(); ++i) {
      auto const k = static_cast<std::size_t>(choices), e = static_cast<std::size_t>(experts);
      index[i] = static_cast<Int>((random.below(i / k, e) + i % k) % e);
    }
    headmix::Reference<float>{}.sort_by_expert(order(), begins(), chosen(), headmix::uniform(1, rows));
  }
  [[nodiscard]] view<Int const> chosen() const { return {index.data(), rows, choices}; }
  [[nodiscard]] view<Int> order() { return {perm.data(), 1, rows * choices}; }
  [[nodiscard]] view<Int> begins() { return {offsets.data(), 1, experts + 1}; }
};

}  // namespace bench

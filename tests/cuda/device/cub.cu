// SPDX-License-Identifier: MIT
// Kernels that CUB could replace have CUB's results.
#include <doctest/doctest.h>

#include "cuda/cub_order.cuh"
#include "cuda/cub_reduce.cuh"
#include "cuda/device_array.hpp"
#include "headmix/backend/cuda/dispatch/experts.hpp"

using headmix::Index, headmix::Int, headmix::Sm80, headmix::view;
using headmix::testing::device_array;

TEST_CASE("cuda: slots by expert as by CUB") {
  Sm80::queue const queue;
  constexpr Index tokens = 4000, chosen = 5, slots = tokens * chosen;
  for (Int const experts : {1, 32, 1023, 1024}) {
    CAPTURE(experts);
    std::vector<Int> choices;
    for (Index s = 0; s < slots; ++s) {
      choices.push_back(static_cast<Int>(headmix::Random(3, 1).uniform(static_cast<std::uint64_t>(s)) * (experts + 1)) -
                        1);
    }
    device_array<Int, Sm80> const index(queue, choices), perm(queue, slots), begins(queue, experts + 1),
        cub_perm(queue, slots), cub_begins(queue, experts + 1), counts(queue, experts);
    view<Int const> const from = index.matrix(tokens, chosen);
    headmix::cuda_kernels::sort_by_expert(queue, perm.matrix(1, slots), begins.matrix(1, experts + 1), from,
                                          headmix::uniform(1, tokens));
    headmix::testing::order_by_cub by_cub(slots);
    by_cub(queue, cub_perm.matrix(1, slots), cub_begins.matrix(1, experts + 1), from);
    CHECK(perm.get() == cub_perm.get());
    CHECK(begins.get() == cub_begins.get());
    Sm80::memory temporary(1);
    headmix::testing::count_by_cub(queue, counts.data(), index.data(), slots, experts, temporary);
    std::vector<Int> const count = counts.get(), begin = begins.get();
    bool same = true;
    for (std::size_t e = 0; e < count.size(); ++e) same = same && count[e] == begin[e + 1] - begin[e];
    CHECK(same);
  }
}

namespace {

template <int shift, class Combine>
bool combines_as_cub() {
  Sm80::queue const queue;
  constexpr Index blocks = 3, n = blocks * headmix::cuda_kernels::team_threads;
  std::vector<float> numbers;  // whose sums are exact in any order
  for (int i = 0; i < n; ++i) numbers.push_back(static_cast<float>(i * 37 % 101 - 50));
  device_array<float, Sm80> const ours(queue, numbers), of_cub(queue, numbers);
  queue.launch(headmix::testing::combine_by_team<shift, Combine>{ours.data()}, blocks);
  queue.launch(headmix::testing::combine_by_cub<shift, Combine>{of_cub.data()}, blocks);
  return ours.get() == of_cub.get();
}

}  // namespace

TEST_CASE("cuda: reductions of warps and blocks as by CUB") {
  using headmix::cuda_kernels::plus, headmix::cuda_kernels::maximum_or_nan;
  CHECK(combines_as_cub<5, plus>());
  CHECK(combines_as_cub<5, maximum_or_nan>());
  CHECK(combines_as_cub<8, plus>());
  CHECK(combines_as_cub<8, maximum_or_nan>());
}

// SPDX-License-Identifier: MIT
// Passes on ranks allocate nothing after the first passes of a shape.
#include "../count_allocations.hpp"
#include "headmix/distributed/gradients.hpp"
#include "headmix/layer/data_parallel.hpp"
#include "on_ranks.hpp"

using namespace on_ranks;

namespace {

/// Allocations of all ranks in some passes, after warm-up passes.
template <class L>
long allocations_of_passes() {
  long counted = -1;
  run_ranks(2, [&](Local& ranks) {
    Module<L, Ranked> m(1, Ranked(ranks));
    GradientSums<double, Ranked> sums(m.parameters(), m.backend(), 256);
    auto const x = numbers(12 * 12, 1 + static_cast<double>(ranks.rank()));
    auto const pass = [&] {
      m.forward({x.data(), 12, 12});
      m.backward({x.data(), 12, 12}, {0.1, 0.1});
      sums.complete();
    };
    for (int i = 0; i < 5; ++i) pass();
    ranks.barrier();
    long const before = allocations;
    ranks.barrier();
    for (int i = 0; i < 5; ++i) pass();
    ranks.barrier();
    if (ranks.rank() == 0) counted = allocations - before;
    ranks.barrier();
  });
  return counted;
}

}  // namespace

TEST_CASE("passes on ranks allocate nothing") {
  using R = SoftmaxTopK<5, 2>;
  CHECK(allocations_of_passes<DataParallel<Smoe<12, R, FeedForward<10>, expert_parallel, overlapped_exchange>>>() == 0);
  CHECK(allocations_of_passes<Moa<12, 4, R, causal, expert_parallel>>() == 0);
}

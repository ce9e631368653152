// SPDX-License-Identifier: MIT
// The kernels of the CPU over bfloat16 where products are made of pairs, and of tiles, on any machine: what its
// instructions lack is emulated. They do what the reference does, on two threads to the same bits, with weights
// prepared and not.

#include <doctest/doctest.h>

#include "../backend/attention_cases.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/testing/backend_conformance.hpp"

namespace {

using namespace headmix;

static_assert(cpu::compiles_dot_products && cpu::compiles_tiles == HEADMIX_TEST_TILES);

std::uint64_t check_kernels(Cpu<bfloat16, thread_pool> backend) {
  auto const found = backend_conformance(backend, {.large = true});
  INFO(found.text());
  CHECK(found.ok());
  CHECK(found.checks > 1800);
  return found.digest;
}
TEST_CASE("kernels of dot products do what the reference does, on two threads to the same bits") {
  REQUIRE(cpu::has_dot_products());
  REQUIRE(cpu::has_tiles() == HEADMIX_TEST_TILES);
  thread_pool one(1), two(2);
  CHECK(check_kernels(Cpu<bfloat16, thread_pool>(one)) == check_kernels(Cpu<bfloat16, thread_pool>(two)));
}

/// Against double on the same operands. Results are rounded to 8 bits, 0.0011 of them on the mean; so are probabilities
/// and gradients by scores before they are summed.
template <AttentionMask M>
void check_attention(test::Case const& c) {
  CAPTURE(c.queries.back());
  CAPTURE(c.heads);
  thread_pool one(1), two(2);
  auto const expected = test::run<M, double, test::no_scores, bfloat16>(c, Reference<double>{});
  auto const found = test::run<M, bfloat16>(c, Cpu<bfloat16, thread_pool>(one));
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double const a = static_cast<double>(found[i]), b = expected[i];
    if (std::isinf(b) && a == b) continue;
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  CHECK(difference <= std::pow(0.004, 2) * norm);
  CHECK(test::run<M, bfloat16>(c, Cpu<bfloat16, thread_pool>(two)) == found);
}
TEST_CASE("attention by dot products equals the reference to a rounding") {
  for (test::Case const& c : test::cases()) {
    check_attention<causal>(c);
    check_attention<sliding_window<70>>(c);
    check_attention<test::scattered>(c);
  }
  // More keys than a tile has, in tiles of which some rows see nothing.
  test::Case c{{0, 20, 1121}, {0, 601, 1702}, 1, 3, 1, 4};
  check_attention<sliding_window<70>>(c);
  c.drops = true;
  check_attention<full>(c);
  c.chosen = false;
  check_attention<sliding_window<521>>(c);
}

}  // namespace

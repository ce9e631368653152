// SPDX-License-Identifier: MIT
// CPU kernels over bfloat16 with dot products of pairs, and with tiles, on any machine: missing instructions are
// emulated. They equal the reference up to rounding, bitwise equal on two threads, with and without prepared weights.

#include <doctest/doctest.h>

#include "../backend/attention_cases.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/layer/scores.hpp"
#include "headmix/testing/backend_conformance.hpp"

namespace {

using namespace headmix;

static_assert(cpu_kernels::compiles_dot_products && cpu_kernels::compiles_tiles == HEADMIX_TEST_TILES);

std::uint64_t check_kernels(Cpu<bfloat16, thread_pool> backend) {
  auto const found = backend_conformance(backend, {.large = true});
  INFO(found.text());
  CHECK(found.ok());
  CHECK(found.checks > 1800);
  return found.digest;
}
TEST_CASE("kernels of dot products do what the reference does, on two threads to the same bits") {
  REQUIRE(cpu_kernels::has_dot_products());
  REQUIRE(cpu_kernels::has_tiles() == HEADMIX_TEST_TILES);
  thread_pool one(1), two(2);
  CHECK(check_kernels(Cpu<bfloat16, thread_pool>(one)) == check_kernels(Cpu<bfloat16, thread_pool>(two)));
}

TEST_CASE("attention by dot products equals the reference to a rounding") {
  for (test::Case const& c : test::cases()) {
    test::check_bfloat16<causal>(c);
    test::check_bfloat16<sliding_window<70>>(c);
    test::check_bfloat16<test::scattered>(c);
  }
  // More keys than a tile, in tiles where some rows see no key.
  test::Case c{{0, 20, 1121}, {0, 601, 1702}, 1, 3, 1, 4};
  test::check_bfloat16<sliding_window<70>>(c);
  c.drops = true;
  test::check_bfloat16<full>(c);
  c.chosen = false;
  test::check_bfloat16<sliding_window<521>>(c);
}

/// A cap and a slope, both learned.
struct learned : score_map {
  struct slope : param<size<4>> {};
  struct cap : param<size<1>> {};
  static constexpr auto f(auto s) {
    return cap{} * tanh((s - slope{} * abs(query_position{} - key_position{})) / cap{});
  }
};
template <class... M>
using scores_after =
    test::scores_of<decltype(headmix::detail::map_score<size<4>, M...>(headmix::detail::score_before{}))>;
TEST_CASE("attention by dot products with score maps equals the reference to a rounding") {
  auto const cases = test::cases();
  for (std::size_t const i : {0, 3, 4, 6, 9, 11}) {
    test::check_bfloat16<causal, scores_after<learned>>(cases[i]);
    test::check_bfloat16<test::scattered, scores_after<alibi, soft_cap<2>>>(cases[i]);
  }
}

#if HEADMIX_TEST_TILES
struct counted {
  int* steps;
  cpu_kernels::detail::prefetch_request<float> step() const {
    ++*steps;
    return {};
  }
};
TEST_CASE("other work goes on between products of tiles") {
  namespace d = cpu_kernels::detail;
  // Blocks of sums of which the last ones are not whole, and neither is the last of 5 tiles of depth.
  constexpr Index rows = 90, width = cpu_kernels::register_block<float>::nr, cols = width - 3, depth = 145;
  std::vector<bfloat16> a(rows * depth), b(depth * cols);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = bfloat16(static_cast<float>(i % 31) - 15);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = bfloat16(static_cast<float>(i % 29) - 14);
  std::vector<d::pair> panel((depth + 1) / 2 * width);
  d::pack_pairs(panel.data(), width, view<bfloat16 const>(b.data(), depth, cols));
  d::pairs_a<d::strided_rows<bfloat16 const>> const a_rows{{a.data(), depth}};
  int steps = 0;
  std::vector<float> alone(rows * cols), beside(rows * cols);
  auto const multiply = [&](std::vector<float>& c, auto between) {
    d::tiles_in_use const outer;  // products inside do not release the tiles
    for (int twice = 0; twice < 2; ++twice)
      d::multiply_pair_panel(cpu_kernels::register_block<float>::vectors, rows, cols, 0, depth, a_rows, panel.data(),
                             width, d::no_rows{}, d::strided_rows<float>{c.data(), cols}, between);
  };
  multiply(alone, d::no_prefetch<float>{});
  multiply(beside, counted{&steps});
  CHECK(alone == beside);
  constexpr Index blocks = 3 * ((cols + d::tile_side - 1) / d::tile_side), tiles = 5,
                  some = cpu_kernels::tuning::tiles_between;
  CHECK(steps == 2 * blocks * ((tiles + some - 1) / some));
  for (Index i = 0; i < rows; i += rows - 1)
    for (Index j = 0; j < cols; j += cols - 1) {
      double sum = 0;
      for (Index k = 0; k < depth; ++k)
        sum += static_cast<double>(static_cast<float>(a[static_cast<std::size_t>(i * depth + k)])) *
               static_cast<double>(static_cast<float>(b[static_cast<std::size_t>(k * cols + j)]));
      CHECK(alone[static_cast<std::size_t>(i * cols + j)] == doctest::Approx(sum));
    }
}
#endif

}  // namespace

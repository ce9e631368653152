// SPDX-License-Identifier: MIT
// Sampled rows of attention and grouped products, emulated at small shapes.

#include "cuda/large_test.hpp"

#include "headmix/testing/emulated.hpp"

using namespace headmix;

TEST_CASE("cuda, emulated: sampled rows of grouped products") {
  Emulated::strict_memory const strict;
  SUBCASE("a matrix for each expert") { testing::test_large_products<Emulated>({256, 128, 64, 4, 8, false}); }
  SUBCASE("heads side by side") { testing::test_large_products<Emulated>({200, 96, 64, 2, 4, true}); }
}
TEST_CASE("cuda, emulated: sampled rows of attention") {
  Emulated::strict_memory const strict;
  SUBCASE("MoA") { testing::test_large_attention<causal, Emulated>({2, 96, 4, 1, 1, 128, false}); }
  SUBCASE("MoA, all keys") { testing::test_large_attention<full, Emulated>({2, 96, 4, 1, 1, 128, false}); }
  SUBCASE("multi-head") { testing::test_large_attention<causal, Emulated>({2, 160, 1, 4, 2, 64, false}); }
  SUBCASE("chosen heads") { testing::test_large_attention<causal, Emulated>({2, 160, 2, 4, 2, 64, true}); }
  SUBCASE("chosen heads, all keys") { testing::test_large_attention<full, Emulated>({2, 160, 2, 4, 4, 64, true}); }
}

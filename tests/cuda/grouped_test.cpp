// SPDX-License-Identifier: MIT
// The grouped products of the Cuda backend, emulated, and their host-side and lane computations.

#include "cuda/grouped_test.hpp"

#include <cstdint>
#include <limits>
#include <vector>

#include "headmix/testing/emulated.hpp"

using namespace headmix;

namespace {

/// Every chunk has a place of its own, the same chunk of eight rows lies in eight groups of banks, and a fragment's
/// lanes point at the rows of its four matrices wherever the part of the tile begins.
template <int cols>
bool layout_is_sound() {
  using layout = cuda_kernels::tile_layout<cols>;
  constexpr int rows = 64;
  std::vector<int> taken(rows * layout::chunks);
  for (int i = 0; i < rows; ++i)
    for (int c = 0; c < layout::chunks; ++c) {
      int const at = layout::offset(i, c);
      if (at % 8 != 0 || at / cols != i || taken[static_cast<std::size_t>(at / 8)]++ > 0) return false;
      for (int above = i / 8 * 8; above < i; ++above)
        if (layout::offset(above, c) / 8 % 8 == at / 8 % 8) return false;
    }
  for (int lane = 0; lane < 32; ++lane)
    for (int row = 0; row < rows - 16; row += 8)
      for (int col = 0; col < cols; col += 16) {
        int const lower = lane / 8 % 2, upper = lane / 16;
        for (int const part : {0, cols / 2}) {
          if (col < part || part % 16 != 0) continue;
          cuda_kernels::fragment_position<cols, true> const down(lane, 8, part);
          cuda_kernels::fragment_position<cols, false> const right(lane, 8, part);
          if (down.at(row - 8, col - part) != layout::offset(row + 8 * lower + lane % 8, col / 8 + upper)) return false;
          if (right.at(row - 8, col - part) != layout::offset(row + 8 * upper + lane % 8, col / 8 + lower))
            return false;
        }
      }
  return true;
}

}  // namespace

TEST_CASE("cuda: tiles lie in shared memory without bank conflicts") {
  CHECK(layout_is_sound<16>());
  CHECK(layout_is_sound<32>());
  CHECK(layout_is_sound<64>());
  CHECK(layout_is_sound<128>());
  CHECK(layout_is_sound<256>());
}
TEST_CASE("cuda: divisor") {
  Int const most = std::numeric_limits<Int>::max();
  for (Int const n : {1, 2, 3, 5, 6, 7, 12, 15, 16, 100, 641, 65535, 65537, (1 << 30) - 1, 1 << 30, most - 1, most}) {
    cuda_kernels::divisor const by(n);
    for (Int const quotient : {0, 1, 2, 1000, most / n - 1, most / n})
      for (Int const around : {-1, 0, 1, n - 1}) {
        std::int64_t const i = std::int64_t{quotient} * n + around;
        if (i >= 0 && i <= most) CHECK(static_cast<Int>(i) / by == static_cast<Int>(i) / n);
      }
  }
}

TEST_CASE_TEMPLATE("cuda, emulated: grouped products of any sizes and strides", T, float, double, bfloat16) {
  Emulated::strict_memory const strict;
  testing::test_plain_grouped_products<T, Emulated>();
}
TEST_CASE("cuda, emulated: grouped_gemm on tensor cores") {
  Emulated::strict_memory const strict;
  testing::test_aligned_grouped_gemm<Emulated>();
}
TEST_CASE("cuda, emulated: grouped_gemm on tensor cores, deep") {
  Emulated::strict_memory const strict;
  testing::test_deep_grouped_gemm<Emulated>();
}
TEST_CASE("cuda, emulated: grouped_gemm of rows that stay in shared memory") {
  Emulated::strict_memory const strict;
  testing::test_resident_rows<Emulated>();
}
TEST_CASE("cuda, emulated: grouped_sum on tensor cores") {
  Emulated::strict_memory const strict;
  testing::test_aligned_grouped_sum<Emulated>();
}
TEST_CASE("cuda, emulated: grouped products as one dense product") {
  Emulated::strict_memory const strict;
  testing::test_dense_grouped_sum<Emulated>();
  testing::test_dense_grouped_outer<Emulated>();
}
TEST_CASE("cuda, emulated: grouped products with blocks of one matrix") {
  Emulated::strict_memory const strict;
  testing::test_grouped_blocks<Emulated>();
}
TEST_CASE("cuda, emulated: grouped_outer on tensor cores") {
  Emulated::strict_memory const strict;
  testing::test_aligned_grouped_outer<Emulated>();
  testing::test_deep_grouped_outer<Emulated>();
}

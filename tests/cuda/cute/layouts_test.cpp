// SPDX-License-Identifier: MIT
// Operand layouts of warpgroup instructions, bit for bit against CuTe's: places of a tile's elements, matrix
// descriptors, and the accumulators of each thread. The emulated device reads tiles laid out by CuTe.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace {

alignas(1024) std::byte shared_memory[128 << 10];

}  // namespace

// CuTe asks the compiler of device code for addresses in shared memory; here they are told by this.
#define CUTE_CVTA_GENERIC_TO_SHARED_ACTIVATED 1
static std::size_t __cvta_generic_to_shared(void const* p) {
  return static_cast<std::size_t>(static_cast<std::byte const*>(p) - shared_memory);
}

#include <cute/atom/mma_atom.hpp>
#include <cute/tensor.hpp>

#include "headmix/backend/cuda/kernel/attention/warpgroups.hpp"
#include "headmix/testing/emulated_sm90.hpp"

using headmix::bfloat16, headmix::EmulatedSm90a, headmix::words;
using headmix::cuda_kernels::describe_matrix, headmix::cuda_kernels::matrix_descriptor,
    headmix::cuda_kernels::panel_offset;
using headmix::cuda_kernels::panel_row_bytes, headmix::cuda_kernels::pack;
namespace gmma = cute::SM90::GMMA;

namespace {

constexpr int eight_rows = 8 * panel_row_bytes;

/// A tile in shared memory, `at` bytes from its beginning: rows that run along the depth, as queries and keys.
template <int rows, int depth>
auto rows_along_depth(int at) {
  auto const layout = cute::tile_to_shape(gmma::Layout_K_SW128_Atom<cute::bfloat16_t>{},
                                          cute::Shape<cute::Int<rows>, cute::Int<depth>>{});
  return cute::make_tensor(cute::make_smem_ptr(reinterpret_cast<cute::bfloat16_t*>(shared_memory + at)), layout);
}
/// Rows that run across the depth, as values: element (column, row).
template <int cols, int depth>
auto rows_across_depth(int at) {
  auto const layout =
      cute::tile_to_shape(gmma::Layout_MN_SW128_Atom<cute::bfloat16_t>{},
                          cute::Shape<cute::Int<cols>, cute::Int<depth>>{}, cute::Step<cute::_2, cute::_1>{});
  return cute::make_tensor(cute::make_smem_ptr(reinterpret_cast<cute::bfloat16_t*>(shared_memory + at)), layout);
}
/// From the beginning of shared memory, in elements.
int place_of(cute::bfloat16_t const& element) {
  return static_cast<int>(__cvta_generic_to_shared(&element) / sizeof(element));
}

/// The products of attention: scores of 128 keys, and sums over them for heads of `width` columns.
using scores_of_keys = cute::SM90_64x128x16_F32BF16BF16_SS<gmma::Major::K, gmma::Major::K>;
template <int width>
using sums_of_values =
    std::conditional_t<width == 64, cute::SM90_64x64x16_F32BF16BF16_RS<gmma::Major::K, gmma::Major::MN>,
                       cute::SM90_64x128x16_F32BF16BF16_RS<gmma::Major::K, gmma::Major::MN>>;

template <class Atom>
auto left_descriptors(auto const& tile) {
  auto const thread = cute::make_tiled_mma(Atom{}).get_thread_slice(0);
  return thread.make_fragment_A(thread.partition_A(tile));
}
template <class Atom>
auto right_descriptors(auto const& tile) {
  auto const thread = cute::make_tiled_mma(Atom{}).get_thread_slice(0);
  return thread.make_fragment_B(thread.partition_B(tile));
}

template <int width>
void check_attention() {
  constexpr int rows = 128, keys = 128, panel_bytes = 128 * panel_row_bytes, at = 32 << 10;
  auto const queries = rows_along_depth<rows, width>(0);
  auto const key_tile = rows_along_depth<keys, width>(at);
  auto const value_tile = rows_across_depth<width, keys>(at);
  int wrong = 0;
  for (int r = 0; r < 128; ++r) {
    for (int c = 0; c < width; ++c) {
      int const place = panel_offset<128>(r, c / 8) + c % 8;
      if (place_of(queries(r, c)) != place) ++wrong;
      if (place_of(key_tile(r, c)) != place + at / 2) ++wrong;
      if (place_of(value_tile(c, r)) != place + at / 2) ++wrong;
    }
  }
  CHECK(wrong == 0);

  auto const left = left_descriptors<scores_of_keys>(queries);
  auto const right = right_descriptors<scores_of_keys>(key_tile);
  for (int k = 0; k < width / 16; ++k) {
    int const further = k / 4 * panel_bytes + k % 4 * 32;
    for (int group = 0; group < 2; ++group) {
      auto const ours = describe_matrix(static_cast<std::uint32_t>(group * 64 * panel_row_bytes), 16, eight_rows);
      CHECK(ours.after(further).bits == std::uint64_t{left(0, group, k)});
    }
    CHECK(describe_matrix(at, 16, eight_rows).after(further).bits == std::uint64_t{right(0, 0, k)});
  }
  auto const across = right_descriptors<sums_of_values<width>>(value_tile);
  // Where one panel is all there is, nothing reads the distance of panels.
  std::uint64_t const read = width == 64 ? ~(std::uint64_t{0x3FFF} << 16) : ~std::uint64_t{0};
  for (int k = 0; k < keys / 16; ++k) {
    CHECK((describe_matrix(at, panel_bytes, eight_rows).after(16 * panel_row_bytes * k).bits & read) ==
          (std::uint64_t{across(0, 0, k)} & read));
  }
}

/// The products of gradients of weights: slots are the depth of both operands.
using sums_of_slots = cute::SM90_64x128x16_F32BF16BF16_SS<gmma::Major::MN, gmma::Major::MN>;

/// A warpgroup on the emulated device.
struct warpgroup_probe {
  static constexpr char const* name = "probe";
  static constexpr int threads = 128, shared_bytes = 64 << 10;
  static constexpr bool cooperative = true, warpgroups = true;
  std::function<void(EmulatedSm90a&)> const* f;
  void operator()(EmulatedSm90a& device) const { (*f)(device); }
};
void run(std::function<void(EmulatedSm90a&)> const& f) { EmulatedSm90a::queue().launch(warpgroup_probe{&f}, 1); }

/// Operands whose product is row + 64 column, which is how CuTe numbers the sums of a product; exact in bfloat16.
constexpr int first_step = 3, second_step = 10;
float left_number(int row, int k) {
  return k == first_step ? static_cast<float>(row) : static_cast<float>(k == second_step);
}
float right_number(int col, int k) {
  return k == first_step ? 1.F : static_cast<float>(k == second_step ? 64 * col : 0);
}
template <int n>
int wrong_sums(int thread, float const (&sums)[n][4]) {
  int wrong = 0;
  for (int i = 0; i < 4 * n; ++i) {
    if (sums[i / 4][i % 4] != static_cast<float>(int(gmma::CLayout_64xN<8 * n>{}(thread, i)))) ++wrong;
  }
  return wrong;
}

/// A product of 16 steps of the depth of tiles that CuTe has laid out, by its descriptors.
template <class Atom, class Multiply>
int wrong_products(auto const& left, auto const& right, int step, Multiply const& multiply) {
  matrix_descriptor const of_left{std::uint64_t{left_descriptors<Atom>(left)(0, 0, step)}};
  matrix_descriptor const of_right{std::uint64_t{right_descriptors<Atom>(right)(0, 0, step)}};
  int wrong = 0;
  run([&](EmulatedSm90a& device) {
    auto const memory = device.shared<bfloat16>(0);
    int const thread = device.thread();
    for (int k = 0; k < 16; ++k) {
      if (thread < 64) memory[place_of(left(thread, 16 * step + k))] = bfloat16(left_number(thread, k));
      memory[place_of(right(thread, 16 * step + k))] = bfloat16(right_number(thread, k));
    }
    device.fence_proxy_async();
    device.sync();
    float sums[16][4] = {};
    device.wgmma_fence(sums);
    multiply(device, sums, of_left, of_right);
    device.wgmma_commit();
    device.wgmma_wait<0>(sums);
    wrong += wrong_sums(thread, sums);
  });
  return wrong;
}

}  // namespace

TEST_CASE("cute: the permutation of addresses") {
  for (std::uint32_t address = 0; address < 4096; ++address) {
    if (headmix::cuda_kernels::swizzle_128(address) != cute::Swizzle<3, 4, 3>{}(address)) FAIL(address);
  }
}

TEST_CASE("cute: tiles and descriptors of attention, 64 columns a head") { check_attention<64>(); }
TEST_CASE("cute: tiles and descriptors of attention, 128 columns a head") { check_attention<128>(); }

TEST_CASE("cute: tiles and descriptors of gradients of weights") {
  constexpr int rows = 256, columns = 128, slots = 64, panel_bytes = slots * panel_row_bytes, at = 32 << 10;
  auto const left_tile = rows_across_depth<rows, slots>(0);
  auto const right_tile = rows_across_depth<columns, slots>(at);
  int wrong = 0;
  for (int s = 0; s < slots; ++s) {
    for (int c = 0; c < rows; ++c) {
      int const place = panel_offset<slots>(s, c / 8) + c % 8;
      if (place_of(left_tile(c, s)) != place) ++wrong;
      if (c < columns && place_of(right_tile(c, s)) != place + at / 2) ++wrong;
    }
  }
  CHECK(wrong == 0);
  auto const left = left_descriptors<sums_of_slots>(left_tile);
  auto const right = right_descriptors<sums_of_slots>(right_tile);
  std::uint64_t const read = ~(std::uint64_t{0x3FFF} << 16);  // 64 rows are one panel
  for (int k = 0; k < slots / 16; ++k) {
    int const further = 16 * panel_row_bytes * k;
    for (int group = 0; group < rows / 64; ++group) {
      auto const ours = describe_matrix(static_cast<std::uint32_t>(group * panel_bytes), panel_bytes, eight_rows);
      CHECK((ours.after(further).bits & read) == (std::uint64_t{left(0, group, k)} & read));
    }
    CHECK(describe_matrix(at, panel_bytes, eight_rows).after(further).bits == std::uint64_t{right(0, 0, k)});
  }
}

TEST_CASE("cute: the emulated device multiplies tiles as CuTe lays them out") {
  // Columns 32 to 47 of queries and keys; slots 48 to 63.
  int wrong = wrong_products<scores_of_keys>(
      rows_along_depth<64, 64>(0), rows_along_depth<128, 64>(16 << 10), 2,
      [](EmulatedSm90a& device, auto&... operands) { device.wgmma_k_k(operands..., false); });
  CHECK(wrong == 0);
  wrong = wrong_products<sums_of_slots>(
      rows_across_depth<64, 64>(0), rows_across_depth<128, 64>(16 << 10), 3,
      [](EmulatedSm90a& device, auto&... operands) { device.wgmma_mn_mn(operands..., false); });
  CHECK(wrong == 0);
}

TEST_CASE("cute: the emulated device multiplies fragments as CuTe deals them out") {
  constexpr int at = 16 << 10, step = 1;  // rows 16 to 31
  auto const right = rows_across_depth<128, 64>(at);
  matrix_descriptor const of_right{std::uint64_t{right_descriptors<sums_of_values<128>>(right)(0, 0, step)}};
  int wrong = 0;
  run([&](EmulatedSm90a& device) {
    auto const memory = device.shared<bfloat16>(0);
    int const thread = device.thread();
    for (int k = 0; k < 16; ++k) {
      memory[place_of(right(thread, 16 * step + k))] = bfloat16(right_number(thread, k));
    }
    words<4> weights;
    for (int word = 0; word < 4; ++word) {
      auto const number = [&](int i) {
        int const element = gmma::ALayout_64x16{}(thread, 2 * word + i);  // row + 64 column
        return left_number(element % 64, element / 64);
      };
      weights.word[word] = pack(number(0), number(1));
    }
    device.fence_proxy_async();
    device.sync();
    float sums[16][4] = {};
    device.wgmma_fence(sums, weights);
    device.wgmma_k_mn(sums, weights, of_right, false);
    device.wgmma_commit();
    device.wgmma_wait<0>(sums, weights);
    wrong += wrong_sums(thread, sums);
  });
  CHECK(wrong == 0);
}

#pragma once
// SPDX-License-Identifier: MIT
// The tile registers of AMX: eight matrices of 16 rows and 64 bytes, and the product of two of bfloat16s that is added
// to one of floats. Linux gives them to a process that asks; HEADMIX_EMULATE_TILES has them made of arrays that say
// what was forgotten.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "headmix/backend/cpu/isa.hpp"
#include "headmix/backend/cpu_level.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"

#if defined(HEADMIX_EMULATE_TILES)
#include <array>
#include <bit>
#endif

namespace headmix::cpu::inline HEADMIX_ISA {

/// Whether this unit has products of tiles.
#if defined(HEADMIX_ISA_HAS_TILES)
inline constexpr bool compiles_tiles = true;
#else
inline constexpr bool compiles_tiles = false;
#endif

namespace detail {

/// Rows of a tile, and bytes of a row.
inline constexpr Index tile_height = 16, tile_bytes = 64;

#if defined(HEADMIX_EMULATE_TILES)

/// Loads, stores and products between a begin and an end; all tiles are whole.
struct tile_unit {
  static void begin() {
    if (state().on) fail("tiles: a thread that has them began again");
    state() = {true, {}, {}};
  }
  static void end() { state().on = false; }
  template <int T>
  static void zero() {
    at<T>(false) = {};
  }
  template <int T>
  static void load(void const* from, Index stride) {
    for (Index r = 0; r < tile_height; ++r)
      std::memcpy(at<T>(false)[r].data(), static_cast<std::byte const*>(from) + r * stride, tile_bytes);
  }
  template <int T>
  static void store(void* to, Index stride) {
    for (Index r = 0; r < tile_height; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * stride, at<T>(true)[r].data(), tile_bytes);
  }
  /// C += A B, pair by pair, each product with one rounding.
  template <int C, int A, int B>
  static void multiply() {
    auto& c = at<C>(true);
    auto const &a = at<A>(true), &b = at<B>(true);
    auto const number = [](std::uint32_t word) { return std::bit_cast<float>(word); };
    for (Index i = 0; i < tile_height; ++i)
      for (Index j = 0; j < tile_height; ++j) {
        float sum = number(c[i][j]);
        for (Index k = 0; k < tile_height; ++k) {
          sum += number(a[i][k] << 16) * number(b[k][j] << 16);
          sum += number(a[i][k] & 0xFFFF0000u) * number(b[k][j] & 0xFFFF0000u);
        }
        c[i][j] = std::bit_cast<std::uint32_t>(sum);
      }
  }

 private:
  using tile = std::array<std::array<std::uint32_t, tile_height>, tile_height>;
  struct registers {
    bool on = false;
    std::array<bool, 8> written;
    std::array<tile, 8> tiles;
  };
  static registers& state() {
    static thread_local registers all{};
    return all;
  }
  template <int T>
  static tile& at(bool read) {
    registers& all = state();
    if (!all.on) fail("tiles: a thread used tile ", T, " without a begin");
    if (read && !all.written[T]) fail("tiles: tile ", T, " was read before it was written");
    all.written[T] = true;
    return all.tiles[T];
  }
};

#elif defined(HEADMIX_ISA_HAS_TILES)

/// Loads, stores and products between a begin and an end; all tiles are whole. The registers are named by hand, so no
/// compiler keeps anything in them.
struct tile_unit {
  static void begin() {
    struct alignas(64) configuration {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static constexpr configuration all;
    asm volatile("ldtilecfg %0" : : "m"(all));
  }
  static void end() { asm volatile("tilerelease" : : : "memory"); }
  template <int T>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  static void load(void const* from, Index stride) {
    asm volatile("{tileloadd (%1,%2,1), %%tmm%c0|tileloadd %%tmm%c0, [%1+%2*1]}"
                 :
                 : "i"(T), "r"(from), "r"(stride)
                 : "memory");
  }
  template <int T>
  static void store(void* to, Index stride) {
    asm volatile("{tilestored %%tmm%c0, (%1,%2,1)|tilestored [%1+%2*1], %%tmm%c0}"
                 :
                 : "i"(T), "r"(to), "r"(stride)
                 : "memory");
  }
  /// C += A B
  template <int C, int A, int B>
  static void multiply() {
    asm volatile("{tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0|tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2}"
                 :
                 : "i"(C), "i"(A), "i"(B));
  }
};

#endif

}  // namespace detail

/// Whether products of bfloat16s are made of tiles: the unit has them, and so has the process, which asks once.
[[nodiscard]] inline bool has_tiles() {
#if defined(HEADMIX_ISA_HAS_TILES) && !defined(HEADMIX_EMULATE_TILES)
  static bool const granted = headmix::detail::grant_tiles();
  return granted;
#else
  return compiles_tiles;
#endif
}

}  // namespace headmix::cpu::inline HEADMIX_ISA

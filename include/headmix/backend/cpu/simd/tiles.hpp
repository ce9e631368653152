#pragma once
// SPDX-License-Identifier: MIT
// The tile registers of AMX: eight matrices of 16 rows of 64 bytes. A product of two tiles is added to a third one:
// bfloat16s to floats, int8 to int32. On Linux, a process must request them. HEADMIX_EMULATE_TILES emulates them with
// arrays and fails on missing configurations and unwritten tiles.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "headmix/backend/cpu/simd/isa.hpp"
#include "headmix/backend/cpu_level.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"

#if defined(HEADMIX_EMULATE_TILES)
#include <array>
#include <bit>
#endif

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// True if this unit has products of tiles.
#if defined(HEADMIX_ISA_HAS_TILES)
inline constexpr bool compiles_tiles = true;
#else
inline constexpr bool compiles_tiles = false;
#endif

namespace detail {

/// Rows of a tile, and bytes of a row.
inline constexpr Index tile_height = 16, tile_bytes = 64;

#if defined(HEADMIX_EMULATE_TILES)

/// Loads, stores and products of whole tiles between begin() and end(), emulated.
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
      std::memcpy(at<T>(false).words[r], static_cast<std::byte const*>(from) + r * stride, tile_bytes);
  }
  template <int T>
  static void store(void* to, Index stride) {
    for (Index r = 0; r < tile_height; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * stride, at<T>(true).words[r], tile_bytes);
  }
  /// C += A B of bfloat16s, pair by pair, each product rounded once
  template <int C, int A, int B>
  static void multiply() {
    auto& c = at<C>(true).words;
    auto const &a = at<A>(true).words, &b = at<B>(true).words;
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
  /// C += A B of signed bytes, modulo 2^32
  template <int C, int A, int B>
  static void multiply_bytes() {
    auto& c = at<C>(true).words;
    auto const &a = at<A>(true).words, &b = at<B>(true).words;
    auto const number = [](std::uint32_t word, int byte) {
      return static_cast<std::int32_t>(static_cast<std::int8_t>(word >> (8 * byte) & 0xFF));
    };
    for (Index i = 0; i < tile_height; ++i)
      for (Index j = 0; j < tile_height; ++j)
        for (Index k = 0; k < tile_height; ++k)
          for (int n = 0; n < 4; ++n) c[i][j] += static_cast<std::uint32_t>(number(a[i][k], n) * number(b[k][j], n));
  }

 private:
  struct tile {
    std::uint32_t words[tile_height][tile_height];
  };
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

/// Loads, stores and products of whole tiles between begin() and end(). Assembly names the registers, which no compiler
/// allocates.
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
    asm volatile("{tilezero %%tmm%c0|tilezero tmm%c0}" : : "i"(T));
  }
  template <int T>
  static void load(void const* from, Index stride) {
    asm volatile("{tileloadd (%1,%2,1), %%tmm%c0|tileloadd tmm%c0, [%1+%2*1]}"
                 :
                 : "i"(T), "r"(from), "r"(stride)
                 : "memory");
  }
  template <int T>
  static void store(void* to, Index stride) {
    asm volatile("{tilestored %%tmm%c0, (%1,%2,1)|tilestored [%1+%2*1], tmm%c0}"
                 :
                 : "i"(T), "r"(to), "r"(stride)
                 : "memory");
  }
  /// C += A B of bfloat16s
  template <int C, int A, int B>
  static void multiply() {
    asm volatile("{tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0|tdpbf16ps tmm%c0, tmm%c1, tmm%c2}"
                 :
                 : "i"(C), "i"(A), "i"(B));
  }
  /// C += A B of signed bytes
  template <int C, int A, int B>
  static void multiply_bytes() {
    asm volatile("{tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0|tdpbssd tmm%c0, tmm%c1, tmm%c2}" : : "i"(C), "i"(A), "i"(B));
  }
};

#endif

}  // namespace detail

/// True if products of bfloat16s use tiles: the unit has the instructions, and the system grants them to the process.
[[nodiscard]] inline bool has_tiles() {
#if defined(HEADMIX_ISA_HAS_TILES) && !defined(HEADMIX_EMULATE_TILES)
  static bool const granted = headmix::detail::grant_tiles();
  return granted;
#else
  return compiles_tiles;
#endif
}

/// True if products of int8 use tiles: the unit and the processor have the instructions.
[[nodiscard]] inline bool has_byte_tiles() {
#if defined(HEADMIX_EMULATE_TILES)
  return true;
#elif defined(HEADMIX_ISA_HAS_TILES) && (defined(__AMX_INT8__) || defined(__AMXINT8__))
  static bool const granted = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned byte_tiles = 1u << 25;
    return has_tiles() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & byte_tiles) != 0;
  }();
  return granted;
#else
  return false;
#endif
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

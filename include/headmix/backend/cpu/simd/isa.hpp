#pragma once
// SPDX-License-Identifier: MIT
// The instruction set of this unit, in the names of all code that depends on it. Otherwise, units with different flags
// would define functions of one name with different code, of which the linker keeps any: blocks of 16 columns would
// meet panels of 64.
//
// `Cpu` and headmix::cpu_kernels are in an inline namespace of that name, isa_sse2 or isa_avx512_fma_vnni for instance,
// which source code need not spell. Types with a backend, such as Module<L, Cpu<float>>, differ with it. Pass views and
// numbers, not modules, between units of different flags: the linker does not find a function that takes a module of
// another layout.
//
// Code without vectors keeps one name, and with it the instructions and the rounding of the unit that the linker takes
// it from: Reference, Random, the standard library, inline functions of a program. A program that must also run on
// machines without an instruction set keeps units that use it in a library. Flags beyond those below do not change a
// name.

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define HEADMIX_ISA_VECTORS isa_avx512
#elif defined(__AVX512F__)
#define HEADMIX_ISA_VECTORS isa_avx512f
#elif defined(__AVX2__)
#define HEADMIX_ISA_VECTORS isa_avx2
#elif defined(__AVX__)
#define HEADMIX_ISA_VECTORS isa_avx
#elif defined(__SSE4_1__)
#define HEADMIX_ISA_VECTORS isa_sse4_1
#elif defined(__SSE3__)
#define HEADMIX_ISA_VECTORS isa_sse3
#elif defined(__SSE2__)
#define HEADMIX_ISA_VECTORS isa_sse2
#elif defined(__ARM_FEATURE_SVE)
#define HEADMIX_ISA_VECTORS isa_sve
#elif defined(__ARM_NEON)
#define HEADMIX_ISA_VECTORS isa_neon
#else
#define HEADMIX_ISA_VECTORS isa_generic
#endif

#if defined(__FMA__)
#define HEADMIX_ISA_FMA _fma
#else
#define HEADMIX_ISA_FMA
#endif

#if defined(__AVX512VNNI__)
#define HEADMIX_ISA_DOTS _vnni
#else
#define HEADMIX_ISA_DOTS
#endif

// Products of pairs of bfloat16s (products/dot_products.hpp) and of tiles (tiles.hpp). HEADMIX_EMULATE_DOTS and
// HEADMIX_EMULATE_TILES emulate their instructions, so that every machine can test the code that uses them.
#if defined(HEADMIX_EMULATE_TILES)
#define HEADMIX_ISA_BFLOAT16 _emulated_tiles
#define HEADMIX_ISA_HAS_DOTS
#define HEADMIX_ISA_HAS_TILES
#elif defined(HEADMIX_EMULATE_DOTS)
#define HEADMIX_ISA_BFLOAT16 _emulated_dots
#define HEADMIX_ISA_HAS_DOTS
#elif defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define HEADMIX_ISA_HAS_DOTS
#define HEADMIX_ISA_HAS_DOT_INSTRUCTION
#if (defined(__AMX_TILE__) && defined(__AMX_BF16__)) || (defined(__AMXTILE__) && defined(__AMXBF16__))
#define HEADMIX_ISA_HAS_TILES
#define HEADMIX_ISA_BFLOAT16 _bf16_amx
#else
#define HEADMIX_ISA_BFLOAT16 _bf16
#endif
#else
#define HEADMIX_ISA_BFLOAT16
#endif

// The highest cpu_level that headmix::compiled has kernels for.
#ifndef HEADMIX_HIGHEST_CPU_LEVEL
#define HEADMIX_HIGHEST_CPU_LEVEL baseline
#endif

// With tables of kernels (cpu/kernels.hpp), Cpu has another layout and a choice of levels.
#define HEADMIX_ISA_TABLES_EXPANDED(level) _compiled_##level
#define HEADMIX_ISA_TABLES(level) HEADMIX_ISA_TABLES_EXPANDED(level)
#if defined(HEADMIX_COMPILED)
#define HEADMIX_ISA_TABLE HEADMIX_ISA_TABLES(HEADMIX_HIGHEST_CPU_LEVEL)
#else
#define HEADMIX_ISA_TABLE
#endif

#define HEADMIX_ISA_JOIN_EXPANDED(a, b, c, d, e) a##b##c##d##e
#define HEADMIX_ISA_JOIN(a, b, c, d, e) HEADMIX_ISA_JOIN_EXPANDED(a, b, c, d, e)
#define HEADMIX_ISA \
  HEADMIX_ISA_JOIN(HEADMIX_ISA_VECTORS, HEADMIX_ISA_FMA, HEADMIX_ISA_DOTS, HEADMIX_ISA_BFLOAT16, HEADMIX_ISA_TABLE)

#pragma once
// SPDX-License-Identifier: MIT
// The sizes that kernels of the CPU were tuned to, each with its unit and its reason. Bytes are those of float, with
// AVX-512 where that matters, for 48 KiB of first-level and 2 MiB of second-level cache per core. Results depend on
// these sizes, as the order of sums does, and never on the number of threads: tasks are cut by shape alone. What a
// change is worth, bench/kernel says.

#include "headmix/backend/cpu/simd/simd.hpp"

namespace headmix::cpu::inline HEADMIX_ISA::tuning {

// The register block: a block of c in registers while the depth of a product runs.

/// Rows of c. Times the vectors below, and with those of b and an element of a, all but one of 16 (AVX, SSE: 12 + 2 +
/// 1) and 29 of 32 registers (AVX-512: 24 + 4 + 1).
inline constexpr int block_rows = 6;
/// Registers in a row of c.
inline constexpr int block_vectors = vector_bytes == 64 ? 4 : 2;
/// Rows of a panel of b: 128 KiB of the second-level cache, and c is read and written once per so many multiply-adds.
/// A deeper product has panels of fewer rows where that cache may have 512 KiB: a and c take their part, and rows of
/// weights a power of 2 apart share places.
inline constexpr Index panel_depth = 512, deep_panel_depth = vector_bytes == 64 ? 512 : 256;

/// Depth of a product, and slots of a sum of outer products, whose sums run in their own type: those of deeper ones are
/// added in double, part by part, which takes an addition for so many.
inline constexpr Index product_depth = 32768;

// Dense products.

/// Multiply-adds. A product of fewer takes a few microseconds, as does waking another thread.
inline constexpr Index parallel_threshold = Index{1} << 17;
/// Tasks. A product of fewer is cut into smaller ones, so that 2 or 4 threads end at about the same time.
inline constexpr Index enough_tasks = 8;
/// Rows and columns of c in a task, and those of smaller ones: multiples of the register block. A task packs its panels
/// of b itself, so more rows cost fewer copies.
inline constexpr Index gemm_rows = 192, gemm_cols = 256, gemm_some_rows = 96, gemm_few_rows = 48, gemm_some_cols = 128,
                       gemm_few_cols = 64;
/// Rows and columns of the tiles that are copied to the stack where strides or types differ: three of them
/// (27 KiB) fit into the first-level cache.
inline constexpr Index strided_tile = 48;
/// Rows, columns and depth of the tiles that narrower numbers are widened in: a tile of c (48 KiB) and one of a (48
/// KiB) beside a panel of b.
inline constexpr Index widened_rows = 96, widened_cols = 128, widened_depth = 128;
/// Depth of a panel of pairs of bfloat16s (128 KiB), and rows whose sums lie on the stack where a product is deeper
/// (48 KiB).
inline constexpr Index pairs_depth = 2 * panel_depth, pairs_rows = 192;
/// Tiles of depth of a block of sums, 16 products, after which other work goes on for a while: they take 128 cycles,
/// and the work, a row of a tile of scores, about as many instructions as the processor looks ahead.
inline constexpr Index tiles_between = 2;
/// Elements of rows that are copied for products of tiles, and of rounded floats (288 KiB): panels of b are packed once
/// for so many.
inline constexpr Index tile_copy = 144 * 1024;
/// Depth of an a whose columns are copied to pairs, for so many rows: 96 KiB.
inline constexpr Index pairs_columns = 256;
/// Register blocks down, and columns, of an a that is copied to strips: 96 KiB on the stack.
inline constexpr Index strip_blocks = 32, strip_depth = 128;
/// Rows that a task of weight_panels copies one after the other.
inline constexpr Index weight_rows = 32;

// Products with experts.

/// Slots of an expert that read its weights once, at most, and at least before tasks are counted: where fewer than
/// enough_blocks remain, blocks are halved. Two lists of so many addresses lie on the stack.
inline constexpr Index product_slots = 1152, least_product_slots = 288, enough_blocks = 16;
/// Columns of a task, at least, where the slots alone give fewer than enough_tasks: a register block's.
inline constexpr Index product_cols = 64;
/// Rows of a gathered block: 16 register blocks, so that the copies of 512 columns take 192 KiB.
inline constexpr Index gathered_rows = 96;
/// Rows that a task sets to zero.
inline constexpr Index zero_rows = 1024;
/// Slots of an expert that are multiplied by one copy of its unpacked ternary weights, at most.
inline constexpr Index ternary_slots = 384;

/// Slots whose outer products are summed at once, and rows of dw that they go to: strips (396 KiB) and a panel of dy
/// (96 KiB) share the second-level cache.
inline constexpr Index outer_slots = 384, outer_rows = 44 * block_rows;
/// The rows of dw where experts share the strips: half, since the panels of many experts pass through the cache too.
inline constexpr Index shared_outer_rows = 22 * block_rows;
/// The fewest rows and columns of dw that a task is cut down to, and the number of tasks below which more than
/// outer_most_cols columns are cut: wide tasks read x once for many columns.
inline constexpr Index outer_least_rows = 48, outer_least_cols = 64, outer_most_cols = 512, enough_outer_tasks = 32;

/// Rows and columns of y that a task of grouped_sum makes: 512 KiB, which stay in the second-level cache while it walks
/// through the experts. Deep products (sum_deep rows of weights and more) read more weights for each of them, so more
/// rows shall share those.
inline constexpr Index sum_rows = 1024, sum_cols = 128, sum_deep = 256;
/// Bytes of weights in panels from which on those of some columns are packed at a time.
inline constexpr Index sum_panel_bytes = Index{4} << 20;
/// Those of shallow products, and of the smaller tasks where there are few.
inline constexpr Index sum_shallow_rows = 512, sum_wide_cols = 256, sum_some_rows = 192, sum_few_rows = 96,
                       sum_few_cols = 64;
/// Successive rows with the same expert that are worth a product of their own: 8 register blocks.
inline constexpr Index alike_rows = 48;

// Attention.

/// Query rows of a block, a multiple of block_rows, and keys of a tile. Wide tiles rescale the output less often; their
/// scores (192 KiB) stay in the second-level cache.
inline constexpr Index attention_rows = 96, attention_keys = 512;
/// Query rows of a decoder's step, of all heads: of fewer, every tile of keys is a task of its own, for two kilobytes
/// of memory per row.
inline constexpr Index split_rows = 1024;
/// Those of the backward pass, which holds two tiles at once (384 KiB) and sums over the rows of one.
inline constexpr Index gradient_rows = 192, gradient_keys = 256;
/// Positions of a task of the gradient of the bias: its sums (48 KiB) are added to once for every head and sequence.
inline constexpr Index bias_positions = 48;
/// Parts that the gradient is cut into: enough for 16 threads. Each may sum d_k and d_v in a copy of its own.
inline constexpr Index gradient_parts = 16;
/// Rows of values that a task copies to panels.
inline constexpr Index value_rows = 64;

// Rows: maps, sums, softmax, rounding.

/// Elements that are worth a task of their own: a few microseconds of reading from memory.
inline constexpr Index task_elements = 16384;
/// Registers of 64 bytes whose sums are under way at once: an addition takes about 4 cycles.
inline constexpr Index sums_at_once = 4;
/// The same in columns of a task of column sums.
inline constexpr Index column_sums = 2;
/// Columns of a task of scatter_rows: whole cache lines, so that no two tasks write to the same one.
inline constexpr Index scatter_cols = 64;
/// Matrices whose means are taken at once, and parts of each: their sums (2 KiB) lie on the stack.
inline constexpr Index mean_matrices = 16, mean_parts = 16;
/// Rows and columns of a task of window_mean. A task starts its sums anew, which takes one window for so many rows.
inline constexpr Index window_rows = 256, window_cols = 64;

// Distances of prefetching, in rows: as many as lie in the time that memory takes to answer.

/// Of columns to strips, each some cache lines.
inline constexpr Index strip_ahead = 4;
/// Of rows to a panel, which is a register block wide.
inline constexpr Index panel_ahead = 16;
/// The same in the course of a product of at least copy_rows rows, which copies a row every few multiply-adds.
inline constexpr Index copy_ahead = 4, copy_rows = 24 * block_rows;
/// Of heads to a block of attention.
inline constexpr Index head_ahead = 8;
/// Of stored probabilities, up to 16 cache lines each.
inline constexpr Index stored_ahead = 4;

}  // namespace headmix::cpu::inline HEADMIX_ISA::tuning

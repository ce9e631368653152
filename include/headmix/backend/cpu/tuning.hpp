#pragma once
// SPDX-License-Identifier: MIT
// The tuned sizes of the kernels of the CPU, each with its unit and its reason. Bytes are those of float with AVX-512,
// for 48 KiB of L1 and 2 MiB of L2 cache per core. Results depend on these sizes, as the order of sums does, and never
// on the number of threads: tasks are cut by shape alone. bench/kernel measures a change.

#include "headmix/backend/cpu/simd/simd.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::tuning {

// The micro-kernel: mr x nr numbers of c in registers, and panels of b of kc rows.

#ifdef __aarch64__
/// An element of a is a lane of a register, of as many elements of its row: the product takes no instruction to repeat
/// it, as fmla multiplies by a lane.
inline constexpr bool a_in_lanes = true;
/// Rows of c: mr nr_vectors sums, mr registers of a and nr_vectors of b take 24 of 32. With mr = 6, 31 or more, g++ 12
/// keeps sums in memory: 1.5 times the instructions.
inline constexpr int mr = 4;
/// Registers in a row of c: nr columns.
inline constexpr int nr_vectors = 4;
#else
inline constexpr bool a_in_lanes = false;
/// Rows of c: mr nr_vectors sums, nr_vectors of b and an element of a take 15 of 16 registers (AVX, SSE: 12 + 2 + 1) or
/// 29 of 32 (AVX-512: 24 + 4 + 1).
inline constexpr int mr = 6;
/// Registers in a row of c: nr columns.
inline constexpr int nr_vectors = vector_bytes == 64 ? 4 : 2;
#endif
/// Rows of a panel of b: 128 KiB of the L2 cache; c is read and written once per kc multiply-adds. A deeper product has
/// panels of deep_kc rows, less than kc where the L2 cache may have 512 KiB: a and c take a part of it, and rows of
/// weights a power of 2 apart share cache sets.
inline constexpr Index kc = 512, deep_kc = vector_bytes == 64 ? 512 : 256;

/// The largest depth of a product, or slots of a sum of outer products, that is summed in the accumulator type. Deeper
/// products add parts of this depth in double.
inline constexpr Index product_depth = 32768;

// Dense products.

/// Multiply-adds of the smallest product that runs on several threads: below, it takes a few microseconds, as does
/// waking another thread.
inline constexpr Index parallel_threshold = Index{1} << 17;
/// A product of fewer tasks is cut into smaller ones, so that 2 or 4 threads end at about the same time.
inline constexpr Index enough_tasks = 8;
/// Rows (mc) and columns (nc) of c in a task, and of smaller tasks: multiples of mr and nr. Each task packs its panels
/// of b, so more rows cost fewer copies.
inline constexpr Index mc = 192, nc = 256, medium_mc = 96, small_mc = 48, medium_nc = 128, small_nc = 64;
/// Rows and columns of the tiles on the stack where strides or types differ: three tiles (27 KiB) fit into the L1
/// cache.
inline constexpr Index strided_tile = 48;
/// Rows, columns and depth of the tiles of widened numbers: a tile of c (48 KiB) and one of a (48 KiB) beside a panel
/// of b.
inline constexpr Index widened_rows = 96, widened_cols = 128, widened_depth = 128;
/// Depth of a panel of pairs of bfloat16s (128 KiB), and rows of sums on the stack (48 KiB) where a product is deeper.
inline constexpr Index pairs_depth = 2 * kc, pairs_rows = 192;
/// Tiles of depth, 16 products and 128 cycles, between two steps of other work. A step, a row of a tile of scores, has
/// about as many instructions as the reorder buffer.
inline constexpr Index tiles_between = 2;
/// Elements of the copied rows of a for tiles and for rounded floats (288 KiB): panels of b are packed once for them.
inline constexpr Index tile_copy = 144 * 1024;
/// Depth of a packed in pairs from its columns, for pairs_rows rows: 96 KiB.
inline constexpr Index pairs_columns = 256;
/// Micro-panels and columns of packed a: 96 KiB on the stack.
inline constexpr Index packed_a_panels = 32, packed_a_depth = 128;
/// Rows of weights in a task of packed_b.
inline constexpr Index packed_b_rows = 32;

// Products with experts.

/// The most slots of an expert in a block, which reads the weights once; blocks are halved, down to
/// least_product_slots, while they are fewer than enough_blocks. Two lists of product_slots addresses lie on the stack.
inline constexpr Index product_slots = 1152, least_product_slots = 288, enough_blocks = 16;
/// The fewest columns of a task, nr, where the slots alone make fewer than enough_tasks.
inline constexpr Index product_cols = 64;
/// Rows of a gathered block: 16 mr; copies of 512 columns take 192 KiB.
inline constexpr Index gathered_rows = 96;
/// Rows in a task that sets them to zero.
inline constexpr Index zero_rows = 1024;
/// The most slots of an expert that share one unpacking of its ternary weights.
inline constexpr Index ternary_slots = 384;

/// Slots whose outer products are summed at once, and rows of dw: packed x^T (396 KiB) and a panel of dy (96 KiB) share
/// the L2 cache.
inline constexpr Index outer_slots = 384, outer_rows = 44 * mr;
/// Rows of dw where experts share packed x^T: half, as the panels of many experts pass through the cache, too.
inline constexpr Index shared_outer_rows = 22 * mr;
/// The fewest rows and columns of dw in a task, and the number of tasks below which more than outer_most_cols columns
/// are cut: wide tasks read x once for many columns.
inline constexpr Index outer_least_rows = 48, outer_least_cols = 64, outer_most_cols = 512, enough_outer_tasks = 32;

/// Rows and columns of y in a task of grouped_sum: 512 KiB, which stay in the L2 cache for all experts. Deep products
/// (sum_deep rows of weights and more) read more weights for each element, so more rows share them.
inline constexpr Index sum_rows = 1024, sum_cols = 128, sum_deep = 256;
/// Bytes of packed weights from which on the columns are packed in several parts.
inline constexpr Index sum_panel_bytes = Index{4} << 20;
/// Rows and columns of y in a task of shallow products, and of smaller tasks where tasks are few.
inline constexpr Index sum_shallow_rows = 512, sum_wide_cols = 256, sum_medium_rows = 192, sum_small_rows = 96,
                       sum_small_cols = 64;
/// The fewest successive rows with the same expert that are worth a joined product: 8 mr.
inline constexpr Index min_joined_rows = 48;

// Attention.

/// Query rows of a block, a multiple of mr, and keys of a tile. Wide tiles rescale the output less often; their scores
/// (192 KiB) stay in the L2 cache.
inline constexpr Index attention_rows = 96, attention_keys = 512;
/// The most query rows of a decoder's step, of all heads, for which every tile of keys is a task, with two kilobytes of
/// memory per row.
inline constexpr Index split_rows = 1024;
/// Query rows and keys of a tile of the backward pass, which holds two tiles (384 KiB) and sums over the rows of one.
inline constexpr Index gradient_rows = 192, gradient_keys = 256;
/// Positions in a task of the gradient of the bias: its sums (48 KiB) are updated once for every head and sequence.
inline constexpr Index bias_positions = 48;
/// Parts of the gradient: enough for 16 threads. Each may sum d_k and d_v in a copy of its own.
inline constexpr Index gradient_parts = 16;
/// Rows of values in a task that packs them.
inline constexpr Index value_rows = 64;

// Rows: maps, sums, softmax, rounding.

/// Elements of a task: a few microseconds of reads from memory.
inline constexpr Index task_elements = 16384;
/// Independent sums of 64 bytes in a loop: an addition takes about 4 cycles.
inline constexpr Index sums_at_once = 4;
/// Vectors of 64 bytes across a task of column sums.
inline constexpr Index column_sums = 2;
/// Columns of a task of scatter_rows: whole cache lines, so that no two tasks write to the same one.
inline constexpr Index scatter_cols = 64;
/// Matrices whose means are computed at once, and parts of each: their sums (2 KiB) lie on the stack.
inline constexpr Index mean_matrices = 16, mean_parts = 16;
/// Rows and columns of a task of window_mean, which sums one window anew for these rows.
inline constexpr Index window_rows = 256, window_cols = 64;

// Distances of prefetches, in rows: about the latency of memory.

/// Columns of a, each some cache lines, as they are packed.
inline constexpr Index pack_a_prefetch = 4;
/// Rows of b, each nr elements, as they are packed.
inline constexpr Index pack_b_prefetch = 16;
/// Rows of b as they are packed in the course of a product of at least copy_rows rows, a row every few
/// multiply-adds.
inline constexpr Index copy_prefetch = 4, copy_rows = 24 * mr;
/// Heads as they are gathered to a block of attention.
inline constexpr Index head_prefetch = 8;
/// Rows of stored probabilities, up to 16 cache lines each.
inline constexpr Index stored_prefetch = 4;

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::tuning

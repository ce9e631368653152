#pragma once
// SPDX-License-Identifier: MIT
// The sizes that the CUDA kernels were tuned to, each with its unit and its reason. Sizes that an instruction's shape
// fixes (m16n8k16, m64nNk16, a warp of 32, a warpgroup of 128) stay in the kernels. The order of sums depends on these
// sizes, so results do; selection is by shape alone, never by the device's number of multiprocessors. bench/gpu
// measures a change.

#include "headmix/core/config.hpp"

namespace headmix::cuda_kernels::tuning {

// All architectures.

/// Threads of a block of kernels with a thread for each element, vector or slot.
inline constexpr int element_threads = 256;
/// Threads of a block of kernels with a team of threads for each row (kernel/rows/collective.hpp).
inline constexpr int team_threads = 256;
/// Elements of a row from which on the team is the whole block, and elements of each lane of smaller teams: a short row
/// leaves no lane idle.
inline constexpr Index block_team_elements = 1024, lane_elements = 4;
/// Elements that a thread of a map computes together: their loads are in flight together.
inline constexpr int map_elements = 4;

/// Lanes for a row of each_row (dispatch/rows.hpp). With fewer than many_rows rows, a lane for each column: a
/// step then takes the time of one element. With more, a lane for every lane_columns columns, min_lanes at least: most
/// steps have fewer columns than the widest, and lanes would idle.
struct each_row_lanes {
  Index many_rows, min_lanes, lane_columns;
};
inline constexpr each_row_lanes each_row{.many_rows = 8192, .min_lanes = 4, .lane_columns = 8};

/// Column sums: blocks that fill a large device, and rows of a chunk below which a second launch costs more.
struct column_sum_chunks {
  int threads;
  Index blocks, min_rows;
};
inline constexpr column_sum_chunks column_sums{.threads = 256, .blocks = 1024, .min_rows = 64};

/// Parts of all matrices whose absolute values absmean_ternary sums at once, and elements of a thread in flight.
inline constexpr Index absmean_parts = 4096;
inline constexpr int quantize_elements = 4;
/// Heads that a thread of rotary rotates at a time: all loads before the stores.
inline constexpr int rotary_heads = 4;
/// Window means: columns of a block, and rows after which a thread restarts its sum, which costs one window.
struct window_mean_tile {
  int threads, rows;
};
inline constexpr window_mean_tile window_mean{.threads = 128, .rows = 64};
/// Columns of a block of cached window means.
inline constexpr int cached_mean_threads = 128;

/// Scatter-add of rows: columns of a warp, and rows of a per row of y from which on a block shares a list.
struct scatter_tile {
  int threads, columns;
  Index long_list;
};
inline constexpr scatter_tile scatter_rows{.threads = 256, .columns = 128, .long_list = 64};

/// Radix sort of slots: bits of a digit (the counters of 8 warps take 32 KiB), chunks, which are blocks of the first
/// and last launch, and chunks of a lane in the scan.
struct radix_sort {
  int threads, max_bits;
  Index max_chunks;
  int lane_chunks;
};
inline constexpr radix_sort sort_slots{.threads = 256, .max_bits = 10, .max_chunks = 128, .lane_chunks = 4};

/// Dense products without cuBLAS. Products of few elements and great depth, such as a router's gradient, are split over
/// the depth until they have `blocks` blocks, into parts of at least min_depth; max_depth bounds the sum of a part.
struct split_k {
  Index blocks, min_depth, max_depth;
};
inline constexpr split_k gemm_split{.blocks = 512, .min_depth = 256, .max_depth = 1 << 18};
/// The tile of a block of products without tensor cores: size x size elements, 4 x 4 of each of 256 threads, and a step
/// of the depth.
struct plain_product_tile {
  int threads, size, depth;
};
inline constexpr plain_product_tile plain_product{.threads = 256, .size = 64, .depth = 16};

/// Grouped products as dense ones: a scattered element, written and read, costs about as much as element_cost
/// multiply-adds of a dense product. A dense gradient of weights may take gradient_work times the multiply-adds of the
/// grouped one, narrow_gradient_work times with at most narrow_side rows or columns, where grouped kernels are slower.
struct dense_experts {
  Index element_cost, gradient_work, narrow_gradient_work, narrow_side;
};
inline constexpr dense_experts dense{
    .element_cost = 512, .gradient_work = 2, .narrow_gradient_work = 4, .narrow_side = 64};
/// Columns of y whose products of all slots are in scratch memory at a time: enough for an efficient launch; few where
/// the sum is a dense product and only unaligned rows need them.
inline constexpr Index slot_sum_columns = 1024, dense_slot_sum_columns = 32;

/// Splits of the slots of an expert's gradient: tiles that fill a large device, slots of a split that are worth a
/// block, and splits at most.
struct slot_splits {
  Index tiles, min_slots, max_splits;
};
inline constexpr slot_splits outer_splits{.tiles = 256, .min_slots = 512, .max_splits = 16};

// Attention, all architectures.

/// Bytes of keys and values (or rows and gradients) of the heads whose tiles are interleaved: they stay in the L2
/// cache.
inline constexpr Index interleaved_bytes = Index{16} << 20;
/// Output columns of a block without tensor cores; half as many in double, which takes twice the registers.
inline constexpr int plain_columns = 128, plain_double_columns = 64;
/// Lanes of a row of attention_clear and of the statistics: 128 bytes of a row together. Blocks of attention_clear,
/// each with a grid-stride loop over the slots without a head.
inline constexpr int row_lanes = 8, clear_threads = 256, statistics_threads = 128;
inline constexpr Index clear_blocks = 256;
/// Splits of the rows of d_k and d_v: warps that fill a large device, splits at most, and tiles of rows of a split at
/// least. Where all blocks have equal work, the fewest splits that leave at most a tenth of Hopper's 132
/// multiprocessors idle, on every device.
struct row_splits {
  Index warps, max_splits, min_tiles, multiprocessors;
};
inline constexpr row_splits key_gradient_splits{.warps = 4096, .max_splits = 8, .min_tiles = 4, .multiprocessors = 132};
/// Decoding: keys of a part, and rows of all heads up to which each part has its own block (flash-decoding); threads of
/// the merge, one for a column.
struct decoding_split {
  Index part_keys, split_rows;
  int merge_threads;
};
inline constexpr decoding_split decoding{.part_keys = 256, .split_rows = 1024, .merge_threads = 64};
/// Threads of the block that adds the sums of an operand of score maps.
inline constexpr int operand_sum_threads = 256;

// Compute capability 8.0 on: mma.sync, ldmatrix, cp.async. Shared memory of a block is at most 99 KiB on 8.6, 8.9 and
// 12.0, of a multiprocessor 164 KiB on 8.0.
namespace sm80 {

/// Attention: m fragments of 16 rows of a warp, keys of a tile, and tiles of keys and values in flight.
struct attention_tile {
  int m, keys, stages;
};
template <int head_dim>
inline constexpr attention_tile attention = {};
/// 128 accumulators of scores and outputs, 51 KiB.
template <>
inline constexpr attention_tile attention<64> = {.m = 2, .keys = 64, .stages = 2};
/// 176 accumulators of 255 registers, 59 KiB.
template <>
inline constexpr attention_tile attention<128> = {.m = 2, .keys = 48, .stages = 1};

/// d_k and d_v: pairs of warps with 32 keys each, and rows of a tile.
struct key_gradient_tile {
  int pairs, rows;
};
/// d_q: m fragments of 16 rows of a warp, keys of a tile, and groups of four warps that share its keys.
struct query_gradient_tile {
  int m, keys, groups;
};
/// `narrow`: for 99 KiB of shared memory.
template <int head_dim, bool narrow>
inline constexpr key_gradient_tile key_gradient = {};
template <bool narrow>
inline constexpr key_gradient_tile key_gradient<64, narrow> = {.pairs = 2, .rows = 64};
/// 149 KiB.
template <>
inline constexpr key_gradient_tile key_gradient<128, false> = {.pairs = 4, .rows = 64};
template <>
inline constexpr key_gradient_tile key_gradient<128, true> = {.pairs = 2, .rows = 32};
template <int head_dim, bool narrow, bool score_map>
inline constexpr query_gradient_tile query_gradient = {};
/// With a score map half the keys: its slopes take as many registers as the scores.
template <bool narrow, bool score_map>
inline constexpr query_gradient_tile query_gradient<64, narrow, score_map> = {
    .m = 2, .keys = score_map ? 32 : 64, .groups = 1};
template <bool score_map>
inline constexpr query_gradient_tile query_gradient<128, false, score_map> = {.m = 2, .keys = 64, .groups = 2};
template <bool score_map>
inline constexpr query_gradient_tile query_gradient<128, true, score_map> = {.m = 1, .keys = 64, .groups = 2};

/// Sums of the operands of score maps: scores, their gradients and all derivatives are in registers.
struct operand_sums_tile {
  int m, keys;
};
inline constexpr operand_sums_tile operand_sums{.m = 1, .keys = 32};

/// Products with experts: slots of a tile, a step of the depth and steps in flight; 72 and 80 KiB, so two blocks fit in
/// a multiprocessor.
struct grouped_gemm_tile {
  int rows, depth, stages;
};
template <int columns>
inline constexpr grouped_gemm_tile grouped_gemm = {};
template <>
inline constexpr grouped_gemm_tile grouped_gemm<64> = {.rows = 128, .depth = 64, .stages = 3};
template <>
inline constexpr grouped_gemm_tile grouped_gemm<128> = {.rows = 128, .depth = 32, .stages = 5};
/// Columns of a tile: narrow_columns where y has no more.
inline constexpr int gemm_columns = 128, narrow_gemm_columns = 64;

/// Products with experts of small depth: rows of max_steps steps of the depth stay in shared memory, 80 KiB with the
/// stages of weights. A block has several tiles of columns once there are `blocks` blocks.
struct resident_tile {
  int rows, columns, depth, max_steps, stages;
  Index blocks;
};
inline constexpr resident_tile resident{
    .rows = 128, .columns = 128, .depth = 64, .max_steps = 2, .stages = 3, .blocks = 1024};

/// Gradients of experts' weights: rows and columns of a tile, narrow ones where the matrix has no more, a step of slots
/// and steps in flight; 64 KiB.
struct grouped_outer_tile {
  int rows, columns, narrow, depth, stages;
};
inline constexpr grouped_outer_tile grouped_outer{.rows = 128, .columns = 128, .narrow = 64, .depth = 32, .stages = 4};
/// Threads of a block that adds the splits of a gradient.
inline constexpr int outer_sum_threads = 128;

/// The router: rows of a block, 16 for each warp, a step of the depth and steps in flight; 72 KiB with 128 experts.
struct route_tile {
  int warps, depth, stages;
};
inline constexpr route_tile route{.warps = 4, .depth = 64, .stages = 3};

}  // namespace sm80

// Hopper: wgmma, TMA, 227 KiB of shared memory of a block. One block of three warpgroups on a multiprocessor.
namespace sm90a {

/// setmaxnreg: registers of a thread of the warpgroup that loads, and of the two that multiply. A launch gives 168 to
/// each of 384 threads.
struct warpgroup_registers {
  int producer, consumer;

  /// True if the consumers have the registers that the producer releases.
  [[nodiscard]] constexpr bool fit() const { return producer + 2 * consumer == 3 * 168; }
};

/// Attention: keys of a tile, tiles of keys and of values in the ring, and the growth of a row's maximum, in powers of
/// 2, up to which its sums are not rescaled: exponentials are at most 2^8. 160 KiB with heads of 128.
struct attention_tile {
  int keys, stages;
  float rescale_threshold;
  warpgroup_registers registers;
};
inline constexpr attention_tile attention{
    .keys = 128, .stages = 2, .rescale_threshold = 8.f, .registers = {.producer = 40, .consumer = 232}};
/// d_q, in the ring of attention: sums, scores and their gradients are 192 accumulators.
inline constexpr warpgroup_registers query_gradient_registers{.producer = 24, .consumer = 240};
/// d_k and d_v: rows of a tile, tiles in the ring, and tiles whose copies are in flight when the next begins. 192 KiB.
struct key_gradient_tile {
  int rows, stages, in_flight;
  warpgroup_registers registers;
};
inline constexpr key_gradient_tile key_gradient{
    .rows = 64, .stages = 4, .in_flight = 2, .registers = {.producer = 40, .consumer = 232}};

/// Products with experts: slots of a tile, 128 for each consumer; steps of 64 of the depth in the ring, and steps whose
/// copies are in flight when the next begins. Columns of a tile: narrow_columns where y has no more. 192 KiB. Offsets
/// of experts that shared memory holds. Producers hold the addresses of their rows.
struct grouped_gemm_tile {
  int rows, columns, narrow_columns, stages, in_flight, shared_offsets;
  warpgroup_registers registers;
};
inline constexpr grouped_gemm_tile grouped_gemm{.rows = 256,
                                                .columns = 128,
                                                .narrow_columns = 64,
                                                .stages = 4,
                                                .in_flight = 2,
                                                .shared_offsets = 1024,
                                                .registers = {.producer = 72, .consumer = 216}};
/// Products with experts of small depth: steps of the depth of the resident rows (128 KiB), stages of weights (80 KiB),
/// threads that gather, and items of each multiprocessor, for balance.
struct resident_tile {
  int max_steps, stages, gather_threads;
  Index items;
};
inline constexpr resident_tile resident{.max_steps = 4, .stages = 5, .gather_threads = 64, .items = 3};

/// Gradients of experts' weights: the longer and the shorter side of a tile, a step of slots, steps in the ring (192
/// KiB), and steps whose copies are in flight when the next begins. Matrices with a side up to min_side, or with both
/// up to `side`, have no full tile and are left to mma.sync.
struct grouped_outer_tile {
  int long_side, side, depth, stages, in_flight;
  Index min_side;
  warpgroup_registers registers;
};
inline constexpr grouped_outer_tile grouped_outer{.long_side = 256,
                                                  .side = 128,
                                                  .depth = 64,
                                                  .stages = 4,
                                                  .in_flight = 2,
                                                  .min_side = 64,
                                                  .registers = {.producer = 88, .consumer = 208}};

/// The router in clusters, which share the depth of deep products: blocks of a cluster (8 at most on every device), the
/// depth from which on there is one, and steps in flight with up to 64 experts, 64 KiB: 2048 rows take 128 blocks, so a
/// multiprocessor has one, whose copies alone hide the latency of memory.
struct route_clusters {
  int blocks, stages;
  Index min_depth;
};
inline constexpr route_clusters route{.blocks = 4, .stages = 4, .min_depth = 1024};

static_assert(attention.registers.fit() && query_gradient_registers.fit() && key_gradient.registers.fit() &&
                  grouped_gemm.registers.fit() && grouped_outer.registers.fit(),
              "headmix: consumers have the registers that the producer releases");

}  // namespace sm90a

}  // namespace headmix::cuda_kernels::tuning

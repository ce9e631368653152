#pragma once
// SPDX-License-Identifier: MIT
// How long a launch takes, from what its compiled kernel and its operands say. A model, no measurement.
//
// A kernel on tensor cores does nearly all of its work in its main loop, which the compiled code has
// (tests/cuda/gates/main_loop.hpp): for each HMMA so many instructions, clocks of the shared memory and bytes copied.
// Its multiply-adds, which the operands have, are so many HMMAs. So each unit of a multiprocessor has its time:
//
//   tensor   HMMAs x 1 clock / the share of the peak that mma.sync reaches
//   shared   HMMAs x clocks of the shared memory for each, 128 bytes a clock
//   issue    HMMAs x instructions for each / 4 schedulers
//
// A kernel for warpgroups has HGMMAs, which four warps issue together and which read shared memory themselves, and
// other warps than theirs bring what they read: bytes of the shared memory and of copies follow from its tiles.
//
// of clocks on all multiprocessors, and a last wave of blocks that does not fill the device counts as a full one. For
// the whole device there is
//
//   L2       bytes that the main loop copies and bytes that are written / the rate of the second-level cache
//   DRAM     bytes of the operands, each once / the rate of a copy
//   scalar   multiply-adds without tensor cores / their rate where operands come from shared memory (64 a clock)
//
// Nothing is faster than the longest of these, the bound, unless operands are still in the cache. They overlap, but not
// wholly: the model adds a part, `exposed`, of the shorter ones to the longest one, first within a multiprocessor, then
// between multiprocessor and memory. It is the part with which attention's forward kernel takes the published time of
// FlashAttention-2, whose structure it has; of kernels for warpgroups, of which some only bring what others multiply,
// that with which attention takes FlashAttention-3's. A launch adds `launch_us`.

#include <algorithm>
#include <cmath>
#include <string>

#include "../../tests/cuda/gates/main_loop.hpp"

namespace gpu_model {

/// A GPU, by the numbers of the design notes: ceilings that were measured or published, none of them by this project.
struct gpu {
  char const* name;
  int multiprocessors;
  double clock_ghz;       ///< at which the published peak of 989 TFLOP/s holds
  double mma_share;       ///< of the peak, that mma.sync reaches
  double wgmma_share;     ///< that wgmma reaches: 855 TFLOP/s, the fastest product that was published
  double l2_tbytes;       ///< per second
  double copy_tbytes;     ///< per second, read and written
  int shared_memory;      ///< bytes of a multiprocessor
  double exposed = 0.25;  ///< see above; gives 368 TFLOP/s on an H100, heads of 128, all keys: published are 370
  double warpgroups_exposed = 0.09;  ///< the same of kernels for warpgroups; gives 650: published are 648
  double library_tflops = 680;       ///< of a dense product of cuBLAS, if a copy of its operands does not take longer
  double launch_us = 3;  ///< of one kernel to the work of the next, an assumption; bench/gpu/ceilings.cu measures it

  /// TFLOP/s in bfloat16: 4096 a clock on a multiprocessor, that is an HMMA.
  [[nodiscard]] double peak_tflops() const { return multiprocessors * clock_ghz * 4.096; }
};
inline constexpr gpu h100{"H100 SXM", 132, 1.83, 0.62, 0.86, 5.5, 3.0, 228 << 10};
inline constexpr gpu h200{"H200", 132, 1.83, 0.62, 0.86, 5.5, 4.3, 228 << 10};

/// Multiply-adds of an HMMA, m16n8k16.
inline constexpr double macs_of_hmma = 16 * 8 * 16;

/// What a launch has to do, by its operands.
struct work {
  double macs = 0;                            ///< on tensor cores, by the main loop
  double scalar_macs = 0;                     ///< by other kernels
  double bytes_read = 0, bytes_written = 0;   ///< of global memory, every operand once
  double blocks = 0;                          ///< that have something to do
  double macs_of_hgmma = 0;                   ///< 0: the products are HMMAs
  double shared_bytes = 0, copied_bytes = 0;  ///< with HGMMAs: of the shared memory, and of copies to it
  double other_instructions = 0;              ///< of warps, outside of the main loop
  bool library = false;                       ///< a product of cuBLAS
  bool known = true;                          ///< false: a launch and nothing more
};

/// What the compiled kernel of a launch is.
struct compiled {
  loop_counts loop;            ///< of one warp; no HMMA: none
  double resident_blocks = 1;  ///< of a multiprocessor
};

/// The times of one launch in microseconds.
struct estimate {
  double tensor = 0, shared = 0, issue = 0, scalar = 0, l2 = 0, dram = 0;
  double bound = 0;     ///< nothing is faster; without the launch
  double expected = 0;  ///< with the launch
  char const* limit = "launch";
};

[[nodiscard]] inline estimate estimate_of(gpu const& g, work const& w, compiled const& k) {
  estimate e;
  double const us_of_clocks = 1e-3 / (g.multiprocessors * g.clock_ghz);  // on all multiprocessors together
  double copied = 0;
  if (w.library) {
    e.tensor = 2e-6 * w.macs / g.library_tflops;
  } else if (k.loop.products > 0 && w.macs > 0 && w.blocks > 0) {
    // So many blocks at a time; where there are few, those of the multiprocessor with the most of them.
    double const together = (std::min)(k.resident_blocks, std::ceil(w.blocks / g.multiprocessors));
    double const waves = w.blocks / (together * g.multiprocessors), idle = std::ceil(waves) / waves;
    double const hmmas = w.macs / macs_of_hmma;
    double const us = hmmas * idle * us_of_clocks;
    if (w.macs_of_hgmma > 0) {
      e.tensor = us / g.wgmma_share;
      e.shared = w.shared_bytes / 128 * idle * us_of_clocks;
      // Four warps, four schedulers.
      double const loop = w.macs / w.macs_of_hgmma * k.loop.per_product(k.loop.instructions);
      e.issue = (loop + w.other_instructions / 4) * idle * us_of_clocks;
      copied = w.copied_bytes;
    } else {
      e.tensor = us / g.mma_share;
      e.shared = us * k.loop.per_product(k.loop.shared_clocks);
      e.issue = us * k.loop.per_product(k.loop.instructions) / 4;
      copied = hmmas * k.loop.per_product(k.loop.copied);
    }
  }
  e.scalar = w.scalar_macs / 64 * us_of_clocks;
  e.l2 = 1e-6 * ((std::max)(copied, w.bytes_read) + w.bytes_written) / g.l2_tbytes;
  e.dram = 1e-6 * (w.bytes_read + w.bytes_written) / g.copy_tbytes;

  struct {
    char const* name;
    double us;
  } const units[] = {{"tensor", e.tensor}, {"shared memory", e.shared},
                     {"issue", e.issue},   {"scalar", e.scalar},
                     {"DRAM", e.dram},     {"L2", e.l2}};
  for (auto const& unit : units) {
    if (unit.us > e.bound) e.bound = unit.us, e.limit = unit.name;
  }
  if (e.bound < g.launch_us) e.limit = "launch";
  double const most = (std::max)({e.tensor, e.shared, e.issue, e.scalar});
  double const exposed = w.macs_of_hgmma > 0 ? g.warpgroups_exposed : g.exposed;
  double const chip = most + exposed * (e.tensor + e.shared + e.issue + e.scalar - most);
  double const memory = (std::max)(e.l2, e.dram);
  // What a library reaches is published as a whole.
  double const overlap = w.library ? 0 : exposed * (std::min)(chip, memory);
  e.expected = (std::max)(chip, memory) + overlap + g.launch_us;
  return e;
}

// ---- the yardstick ----

/// Dense attention of as many active heads, by published rates: products by cuBLAS, attention by cuDNN on an H200.
struct dense_block {
  double library_tflops;
  double product_gflop;                    ///< forward; backward has twice as many
  double attention_gflop;                  ///< forward, as the mask leaves it; backward has 2.5 times as many
  double forward_tflops, backward_tflops;  ///< of attention

  [[nodiscard]] double forward_us() const {
    return 1e3 * (product_gflop / library_tflops + attention_gflop / forward_tflops);
  }
  [[nodiscard]] double backward_us() const {
    return 1e3 * (2 * product_gflop / library_tflops + 2.5 * attention_gflop / backward_tflops);
  }
};

}  // namespace gpu_model

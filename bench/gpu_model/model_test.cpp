// SPDX-License-Identifier: MIT
// The model's formulae against numbers that were found by hand.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "model.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace gpu_model;
using doctest::Approx;

namespace {

/// 10 multiprocessors at 1 GHz: a million HMMAs take 100 us for each clock.
constexpr gpu device{"made up", 10, 1, 0.5, 0.8, 1, 0.5, 100 << 10};

/// For each of 100 HMMAs: 5 instructions, 1.5 clocks of the shared memory, 64 bytes copied.
compiled kernel_of_known_counts() {
  compiled k;
  k.loop.products = 100;
  k.loop.instructions = 500;
  k.loop.shared_clocks = 150;
  k.loop.copied = 6400;
  k.resident_blocks = 2;
  return k;
}
work a_million_hmmas() {
  work w;
  w.macs = 1e6 * 2048;
  w.blocks = 200;
  w.bytes_read = 20e6;
  w.bytes_written = 5e6;
  return w;
}

}  // namespace

TEST_CASE("a kernel on tensor cores") {
  estimate const e = estimate_of(device, a_million_hmmas(), kernel_of_known_counts());
  CHECK(e.tensor == Approx(200));  // 1 / 0.5 clocks
  CHECK(e.shared == Approx(150));
  CHECK(e.issue == Approx(125));  // 5 / 4 clocks
  CHECK(e.l2 == Approx(69));      // 64 MB copied and 5 MB written, at 1 TB/s
  CHECK(e.dram == Approx(50));    // 25 MB at 0.5 TB/s
  CHECK(e.bound == Approx(200));
  CHECK(e.limit == std::string("tensor"));
  // Within a multiprocessor 200 + (150 + 125) / 4, with the memory 69 / 4 more, and 3 for the launch.
  CHECK(e.expected == Approx(268.75 + 17.25 + 3));
}

TEST_CASE("a kernel for warpgroups") {
  work w = a_million_hmmas();
  w.macs_of_hgmma = 64 * 128 * 16;  // 15,625 of them
  w.shared_bytes = 64e6;            // half a million clocks
  w.copied_bytes = 16e6;
  compiled k;
  k.loop.products = 16;
  k.loop.instructions = 512;  // 32 for each
  estimate const e = estimate_of(device, w, k);
  CHECK(e.tensor == Approx(125));  // 1 / 0.8 clocks of 2048 multiply-adds
  CHECK(e.shared == Approx(50));
  CHECK(e.issue == Approx(50));
  CHECK(e.l2 == Approx(25));  // 20 MB read, which is more than what is copied, and 5 MB written
  CHECK(e.dram == Approx(50));
  CHECK(e.expected == Approx(134 + 0.09 * 50 + 3));  // within a multiprocessor 125 + 0.09 x 100
}

TEST_CASE("the last wave of blocks counts as a full one") {
  work w = a_million_hmmas();
  compiled const k = kernel_of_known_counts();
  w.blocks = 21;  // of 20 at a time: two waves
  CHECK(estimate_of(device, w, k).tensor == Approx(200 * 40.0 / 21));
  w.blocks = 11;  // two on one multiprocessor, which works twice as long as the average of 1.1
  CHECK(estimate_of(device, w, k).tensor == Approx(200 * 20.0 / 11));
  w.blocks = 5;  // half of the device
  CHECK(estimate_of(device, w, k).tensor == Approx(400));
}

TEST_CASE("other launches") {
  SUBCASE("of bytes") {
    work w;
    w.bytes_read = 30e6;
    w.bytes_written = 20e6;
    estimate const e = estimate_of(device, w, {});
    CHECK(e.limit == std::string("DRAM"));
    CHECK(e.bound == Approx(100));
    CHECK(e.expected == Approx(103));
  }
  SUBCASE("of nothing") {
    estimate const e = estimate_of(device, {}, {});
    CHECK(e.limit == std::string("launch"));
    CHECK(e.bound == 0);
    CHECK(e.expected == Approx(3));
  }
  SUBCASE("of multiply-adds without tensor cores, 64 a clock") {
    work w;
    w.scalar_macs = 64e6;
    CHECK(estimate_of(device, w, {}).bound == Approx(100));
  }
  SUBCASE("of cuBLAS, by its rate or by its operands") {
    work w;
    w.library = true;
    w.macs = 34e9;  // 68 GFLOP at 680 TFLOP/s
    CHECK(estimate_of(device, w, {}).expected == Approx(103));
    w.bytes_read = 100e6;
    CHECK(estimate_of(device, w, {}).limit == std::string("DRAM"));
    CHECK(estimate_of(device, w, {}).expected == Approx(203));
  }
}

TEST_CASE("numbers of the design notes") {
  CHECK(h100.peak_tflops() == Approx(989).epsilon(0.001));
  dense_block const all_keys{680, 137.4, 137.4, 633, 504}, causal{680, 137.4, 68.7, 484, 370};
  CHECK(all_keys.forward_us() == Approx(419).epsilon(0.001));
  CHECK(causal.forward_us() == Approx(344).epsilon(0.001));
  CHECK(all_keys.backward_us() == Approx(1086).epsilon(0.001));
  CHECK(causal.backward_us() == Approx(869).epsilon(0.001));
}

TEST_CASE("attention of FlashAttention-3's structure takes its published time") {
  // Our kernel for heads of 128: 583 instructions for 16 HGMMAs, 64 rows x 128 keys; 128 keys and values arrive for 128
  // rows.
  compiled k;
  k.loop.products = 16;
  k.loop.instructions = 583;
  work w;
  w.blocks = 132 * 100;
  w.macs = 1e12;
  double const rounds = w.macs / (2. * 64 * 128 * 128);
  w.macs_of_hgmma = 64 * 128 * 16;
  w.copied_bytes = rounds / 2 * (2 * 128 * 128 * 2);
  w.shared_bytes = rounds * (8 * (64 + 128) * 32 + 8 * 128 * 32) + w.copied_bytes;
  double const tflops = 2e-6 * w.macs / (estimate_of(h100, w, k).expected - h100.launch_us);
  CHECK(tflops == Approx(648).epsilon(0.02));
}

TEST_CASE("attention of FlashAttention-2's structure takes its published time") {
  // Our kernel for heads of 128: 64 LDSM and 12 copies of 4 clocks each. A step of 48 keys copies 24 KB for 128 rows,
  // by four warps.
  compiled k;
  k.loop.products = 192;
  k.loop.instructions = 1004;
  k.loop.shared_clocks = 304;
  k.loop.copied = 48 * 128 * 2 * 2 / 4;
  k.resident_blocks = 2;
  work w;
  w.blocks = 264 * 100;  // whole waves
  w.macs = 1e12;
  double const tflops = 2e-6 * w.macs / (estimate_of(h100, w, k).expected - h100.launch_us);
  CHECK(tflops == Approx(370).epsilon(0.02));
}

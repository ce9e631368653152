// SPDX-License-Identifier: MIT
// The emulation of Hopper's instructions: a product through a ring is right, and planted faults are found.

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "cuda/emulated_probe.hpp"
#include "cuda/ring_product.hpp"
#include "headmix/testing/emulated_sm90.hpp"

using namespace headmix;
using namespace headmix::test;
using headmix::testing::error_of_ring_product, headmix::testing::ring_fault, headmix::testing::ring_tolerance;

namespace {

template <ring_fault fault>
std::string error_of_ring(int tiles = 5) {
  return error_of([&] { error_of_ring_product<EmulatedSm90a, fault>(tiles); });
}

using warpgroup_body = std::function<void(EmulatedSm90a&)>;

template <int threads_, int cluster_ = 1>
struct warpgroup_probe {
  static constexpr char const* name = "probe";
  static constexpr int threads = threads_, shared_bytes = 16384, cluster = cluster_;
  static constexpr bool cooperative = true, warpgroups = true;
  warpgroup_body const* f;
  void operator()(EmulatedSm90a& device) const { (*f)(device); }
};
/// check_found on the emulated Hopper device.
template <int threads = 128, int cluster = 1>
void check_found_by_warpgroups(std::function<void(EmulatedSm90a&, bool)> const& f, std::string const& part) {
  auto const with = [&](bool planted) {
    warpgroup_body const g = [&](EmulatedSm90a& d) { f(d, planted); };
    return error_of([&] { EmulatedSm90a::queue().launch(warpgroup_probe<threads, cluster>{&g}, cluster); });
  };
  CHECK(with(false) == "");
  check_has(with(true), part);
  CHECK(with(false) == "");
}

}  // namespace

TEST_CASE("cuda, emulated: a product of warpgroups through a ring") {
  for (int tiles = 1; tiles < 8; ++tiles) CHECK(error_of_ring_product<EmulatedSm90a>(tiles) < ring_tolerance);
}

TEST_CASE("cuda, emulated: faults of a ring are found") {
  using enum ring_fault;
  check_has(error_of_ring<barriers_not_fenced>(), "which thread 0 has made, with no fence_proxy_async between");
  check_has(error_of_ring<rows_not_fenced>(), "with no fence_proxy_async between");
  check_has(error_of_ring<rows_not_fenced>(), "multiplies byte ");
  check_has(error_of_ring<full_wrong_parity>(), "while a copy of thread 0 to it is on its way");
  check_has(error_of_ring<empty_wrong_parity>(), "deadlock:");
  check_has(error_of_ring<empty_wrong_parity>(), "lacks 4 of 4 arrivals");
  check_has(error_of_ring<empty_not_waited>(), "arrives at the barrier at byte 57344, where all 1 of this phase");
  check_has(error_of_ring<early_release>(), "while products of warpgroup 1 read it");
  check_has(error_of_ring<no_swizzle>(), "as part of a tile with 128-byte swizzle; it was copied without");
  check_has(error_of_ring<descriptor_mode>(), "right operand with swizzle mode 0, expected 1, 128 bytes");
  check_has(error_of_ring<wrong_stage>(),
            "races: it multiplies byte 32768 of shared memory, which a copy of a tile has");
  check_has(error_of_ring<no_product_fence>(), "sums that no wgmma_fence has named");
  check_has(error_of_ring<sums_touched>(), "changes sums of a product that is on its way");
  check_has(error_of_ring<sums_not_waited>(), "waits for sums of a product that may still be on its way");
  check_has(error_of_ring<left_changed>(), "changes a left operand of a product that is on its way");
  check_has(error_of_ring<too_few_bytes>(), "lacks ");
  check_has(error_of_ring<too_many_arrivals>(), "where all 1 of this phase have come");
  check_has(error_of_ring<named_count>(), "calls sync_named(1) for ");
  check_has(error_of_ring<too_many_registers>(), "wants 480 registers");
  check_has(error_of_ring<ends_early>(1), "ends while products of its warpgroup are on their way");
  // Rows that are others of the same tile: no error, another result.
  CHECK(error_of_ring_product<EmulatedSm90a, descriptor_stride>() > 0.1);
}

TEST_CASE("cuda, emulated: barriers of some threads order what these do") {
  auto const pass_on = [](EmulatedSm90a& d, bool planted, auto const& meet) {
    auto const x = d.shared<int>(64);
    if (d.warp() == 0) x[d.lane()] = d.lane();
    if (!planted || d.warp() != 2) meet();
    if (d.warp() == 2) {
      int const other = x[31 - d.lane()];
      if (other != 31 - d.lane()) throw Error("wrong");
    }
  };
  check_found_by_warpgroups(
      [&](EmulatedSm90a& d, bool planted) {
        pass_on(d, planted, [&] {
          if (d.warp() == 0) d.arrive_named<64>(2);
          if (d.warp() == 2) d.sync_named<64>(2);
        });
      },
      "races: it reads byte ");
  check_found_by_warpgroups(
      [&](EmulatedSm90a& d, bool planted) {
        auto const barrier = d.shared<std::uint64_t>(0);
        if (d.thread() == 0) d.mbarrier_init(barrier, 32);
        d.sync();
        pass_on(d, planted, [&] {
          if (d.warp() == 0) d.arrive(barrier);
          if (d.warp() == 2) d.mbarrier_wait(barrier, 0);
        });
      },
      "races: it reads byte ");
  // A write behind the reads of several warps.
  check_found_by_warpgroups(
      [](EmulatedSm90a& d, bool planted) {
        auto const x = d.shared<int>(64);
        auto const barrier = d.shared<std::uint64_t>(0);
        if (d.thread() == 0) {
          d.mbarrier_init(barrier, 3);
          x[0] = 7;
        }
        d.sync();
        if (d.warp() < 3) {
          int const seven = x[0];
          d.sync_warp();
          if (d.lane() == 0 && seven == 7 && !(planted && d.warp() == 1)) d.arrive(barrier);
          if (d.lane() == 0 && planted && d.warp() == 0) d.arrive(barrier);
        } else if (d.lane() == 0) {
          d.mbarrier_wait(barrier, 0);
          x[0] = 8;
        }
      },
      "races: it writes byte 64 of shared memory, which threads of several warps have read");
  check_found_by_warpgroups(
      [](EmulatedSm90a& d, bool planted) {
        auto const barrier = d.shared<std::uint64_t>(0);
        if (d.thread() == 0) d.mbarrier_init(barrier, 128);
        if (!planted) d.sync();
        d.arrive(barrier);
      },
      "races: it ");
}

TEST_CASE("cuda, emulated: wrong uses of barriers are found") {
  check_found_by_warpgroups(
      [](EmulatedSm90a& d, bool planted) {
        if (d.warp() == 0) d.sync_named<64>(3);
        if (d.warp() == 1 && planted) d.sync_named<96>(3);
        if (d.warp() == 1 && !planted) d.sync_named<64>(3);
      },
      "calls sync_named(3) for 96 threads, thread 0 for 64");
  check_found_by_warpgroups(
      [](EmulatedSm90a& d, bool planted) {
        if (d.warp() == 0) d.arrive_named<64>(3);
        if (d.warp() == 0 && planted) d.arrive_named<64>(3);
        if (d.warp() == 1) d.sync_named<64>(3);
      },
      "comes to the named barrier 3 twice");
  check_found_by_warpgroups(
      [](EmulatedSm90a& d, bool planted) {
        if (d.warp() == 0) d.arrive_named<64>(3);
        if (d.warp() == 1 && !planted) d.sync_named<64>(3);
      },
      "comes to the named barrier 3 for 64 threads, of whom 32 have come when the block ends");
  check_found_by_warpgroups([](EmulatedSm90a& d, bool planted) { d.sync_named<128>(planted ? 16 : 15); },
                            "calls sync_named(16), expected 1 to 15");
  check_found_by_warpgroups(
      [](EmulatedSm90a& d, bool planted) {
        auto const barrier = d.shared<std::uint64_t>(8);
        if (d.thread() == 0) d.mbarrier_init(barrier, 128);
        d.sync();
        d.arrive(planted && d.thread() == 9 ? barrier + 1 : barrier);
      },
      "thread 9 arrives at byte 16 of shared memory, where nobody has made a barrier");
  check_found_by_warpgroups(
      [](EmulatedSm90a& d, bool planted) {
        if (d.thread() == 0) d.mbarrier_init(d.shared<std::uint64_t>(8), 1);
        d.sync();
        d.shared<int>(16)[d.thread()] = 1;
        if (planted) d.shared<int>(12)[0] = 1;
      },
      "where a barrier is");
  check_found_by_warpgroups(
      [](EmulatedSm90a& d, bool planted) {
        auto const barrier = d.shared<std::uint64_t>(8);
        if (d.thread() == 0) d.mbarrier_init(barrier, 1);
        d.sync();
        if (d.thread() == 1) d.arrive(barrier);
        if (d.thread() == 1 && planted) d.arrive(barrier);
        if (d.warp() == 2) d.mbarrier_wait(barrier, 0);
      },
      "for parity 0; the barrier at byte 8, phase 2, lacks 1 of 1 arrivals");
  // Registers that there are not: nobody gives any.
  check_found_by_warpgroups<384>(
      [](EmulatedSm90a& d, bool planted) {
        if (d.warpgroup() > 0) {
          d.setmaxnreg_inc<232>();
        } else if (!planted) {
          d.setmaxnreg_dec<40>();
        }
      },
      "wait at setmaxnreg_inc<232>");
  // All that are given, 168 for each thread of the launch, are too few: 80 + 2 * 216 is more than 3 * 168.
  check_found_by_warpgroups<384>(
      [](EmulatedSm90a& d, bool planted) {
        if (d.warpgroup() > 0) {
          d.setmaxnreg_inc<216>();
        } else if (planted) {
          d.setmaxnreg_dec<80>();
        } else {
          d.setmaxnreg_dec<72>();
        }
      },
      "wait at setmaxnreg_inc<216>");
}

namespace {

/// A block of a cluster copies half of a matrix to both, 2 x 8 rows, and says what it has then.
struct cluster_copy {
  static constexpr char const* name = "cluster_copy";
  static constexpr int threads = 128, cluster = 2, half_bytes = 8 * 128, shared_bytes = 2 * half_bytes + 8;
  static constexpr bool cooperative = true, warpgroups = true;
  view<bfloat16> y;  ///< 16 rows of 64 for each block
  EmulatedSm90a::tensor_map from;

  void operator()(EmulatedSm90a& d) const {
    auto const tile = d.shared<bfloat16>(0);
    auto const barrier = d.shared<std::uint64_t>(2 * half_bytes);
    if (d.thread() == 0) {
      d.mbarrier_init(barrier, 1);
      d.fence_proxy_async();
    }
    d.sync_cluster();
    if (d.thread() == 0) {
      d.arrive_expect_tx(barrier, 2 * half_bytes);
      d.tma_load_multicast(tile + d.rank() * half_bytes / 2, from, 8 * d.rank(), 0, barrier);
    }
    d.mbarrier_wait(barrier, 0);
    for (int i = d.thread(); i < 16 * 64; i += threads) {
      int const row = i / 64, col = i % 64, at = row * 64 + (col / 8 ^ row % 8) * 8 + col % 8;
      d.store(&y(static_cast<Index>(d.block()) * 16 + row, col), bfloat16(tile[at]));
    }
    d.sync_cluster();
  }
};

}  // namespace

TEST_CASE("cuda, emulated: blocks of a cluster copy to each other") {
  array_of<bfloat16> const a(16 * 64), y(4 * 16 * 64);
  for (std::size_t i = 0; i < 16 * 64; ++i) a[i] = bfloat16(static_cast<float>(i % 251));
  EmulatedSm90a::queue const queue;
  queue.launch(cluster_copy{{y.data(), 64, 64}, queue.map_tensor({a.data(), 16, 64}, 8)}, 4);
  for (std::size_t i = 0; i < 4 * 16 * 64; ++i) CHECK(float(y[i]) == float(a[i % (16 * 64)]));
  check_has(error_of([&] {
              queue.launch(cluster_copy{{y.data(), 64, 64}, {}}, 3);
            }),
            "expected clusters of 2 blocks, found 3 blocks");
}

TEST_CASE("cuda, emulated: faults of a cluster are found") {
  auto const check_found_in_cluster = check_found_by_warpgroups<128, 2>;
  auto const fill = [](EmulatedSm90a& d, float value) {
    for (int i = 0; i < 4; ++i) d.shared<float>(0)[4 * d.thread() + i] = value;
  };
  // sync and sync_named are a block's own, and do not order what the other one does.
  check_found_in_cluster(
      [](EmulatedSm90a& d, bool planted) {
        if (d.rank() == 0 || planted) d.sync();
        if (d.rank() == 1) d.sync_named<128>(1);
        if (d.rank() == 1 && planted && d.warp() == 0) d.sync();
      },
      "wait at sync_named(0)");
  check_found_in_cluster(
      [](EmulatedSm90a& d, bool planted) {
        auto const barrier = d.shared<std::uint64_t>(8);
        if (d.thread() == 0) d.mbarrier_init(barrier, 1);
        if (!planted) d.sync_cluster();
        if (d.rank() == 1 && d.thread() == 0) d.arrive_at(barrier, 0);
        d.sync_cluster();
      },
      "block 1: thread 0 races: it reads byte 8 of shared memory");
  check_found_in_cluster(
      [](EmulatedSm90a& d, bool planted) {
        auto const barrier = d.shared<std::uint64_t>(8);
        if (d.thread() == 0) d.mbarrier_init(barrier, 1);
        d.sync_cluster();
        if (d.rank() == 0) d.mbarrier_wait(barrier, 0);
        if (d.rank() == 1 && d.thread() == 0 && !planted) d.arrive_at(barrier, 0);
        d.sync_cluster();
      },
      "wait at the barrier at byte 8 for parity 0");
  check_found_in_cluster(
      [](EmulatedSm90a& d, bool planted) {
        auto const barrier = d.shared<std::uint64_t>(8);
        if (d.thread() == 0) d.mbarrier_init(barrier, 1);
        d.sync_cluster();
        if (d.rank() == 1) d.sync();  // it goes on later
        if (d.rank() == 1 && d.thread() == 0) d.arrive_at(barrier, 0);
        if (!planted) d.sync_cluster();
      },
      "block 1: thread 0 arrives at a barrier of block 0, which has ended");
  check_found_in_cluster(
      [&](EmulatedSm90a& d, bool planted) {
        fill(d, 1);
        if (!planted) d.sync_cluster();
        if (d.rank() == 1) (void)d.load16_at(d.shared<float>(16 * d.thread()), 0);
        d.sync_cluster();
      },
      "block 1: thread 0 races: it reads byte 0 of shared memory, which thread 0 has written");
  check_found_in_cluster(
      [&](EmulatedSm90a& d, bool planted) {
        fill(d, 1);
        d.sync_cluster();
        if (d.rank() == 1) (void)d.load16_at(d.shared<float>(16 * d.thread()), 0);
        if (!planted) d.sync_cluster();
        fill(d, 2);
        d.sync_cluster();
      },
      "has read, with no barrier between");
  check_found_in_cluster(
      [&](EmulatedSm90a& d, bool planted) {
        fill(d, 1);
        d.sync_cluster();
        if (d.rank() == 1) d.sync();  // it goes on later
        if (d.rank() == 1) (void)d.load16_at(d.shared<float>(16 * d.thread()), 0);
        if (!planted) d.sync_cluster();
      },
      "reads shared memory of block 0, which has ended");
  array_of<bfloat16> const a(16 * 64);
  auto const map = EmulatedSm90a::queue().map_tensor({a.data(), 16, 64}, 8);
  auto const copy = [&](bool fenced, bool touched, bool ends, std::string const& part) {
    check_found_in_cluster(
        [&](EmulatedSm90a& d, bool planted) {
          auto const barrier = d.shared<std::uint64_t>(2048);
          if (d.thread() == 0) d.mbarrier_init(barrier, 1);
          if (d.thread() == 0 && !(fenced && planted)) d.fence_proxy_async();
          d.sync_cluster();
          if (d.thread() == 0) {
            d.arrive_expect_tx(barrier, 2048);
            d.tma_load_multicast(d.shared<bfloat16>(1024 * d.rank()), map, 0, 0, barrier);
          }
          if (touched && planted && d.rank() == 1 && d.thread() == 1) d.shared<int>(0)[0] = 1;  // block 0 copies there
          bool const leaves = ends && planted && d.rank() == 1;
          if (!leaves) d.mbarrier_wait(barrier, 0);
          if (!(ends && planted)) d.sync_cluster();
        },
        part);
  };
  copy(true, false, false, "which thread 0 has made, with no fence_proxy_async between");
  copy(false, true, false, "to it is on its way");
  copy(false, false, true, "copies a tile to block 1, which has ended");
}

TEST_CASE("cuda, emulated: maps of matrices that TMA does not copy are refused") {
  array_of<bfloat16> const a(4096);
  EmulatedSm90a::queue const queue;
  auto const error = [&](view<bfloat16 const> v, int rows) {
    return error_of([&] { (void)queue.map_tensor(v, rows); });
  };
  view<bfloat16 const> const good{a.data(), 16, 64};
  CHECK(error(good, 256) == "");
  check_has(error(good, 257), "expected 1 to 256 rows of a tile");
  check_has(error({a.data() + 1, 16, 64}, 8), "its address is not a multiple of 16");
  check_has(error({a.data(), 16, 60}, 8), "expected a multiple of 16 bytes");
  check_has(error({a.data(), 0, 64}, 8), "expected 1 to 2^32 rows");
}

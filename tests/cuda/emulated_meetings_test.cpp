// SPDX-License-Identifier: MIT
// The emulated device finds planted faults in barriers and warp functions, and invalid launches.

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "cuda/emulated_probe.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {

struct big_probe : probe<32, 0, false> {
  char bytes[32768];
};

}  // namespace

TEST_CASE("cuda, emulated: deadlocks are found") {
  check_found<64>(
      [](Emulated& d, bool planted) {
        if (planted && d.thread() == 5) return;
        d.sync();
      },
      {"block 0: deadlock: thread 0 and 62 others wait at sync, thread 5 has ended"});
  check_found<64>(
      [](Emulated& d, bool planted) {
        if (!planted || d.thread() < 32) d.sync();
      },
      {"deadlock: thread 0 and 31 others wait at sync, thread 32 and 31 others have ended"});
  check_found<64>(
      [](Emulated& d, bool planted) {
        if (planted && d.thread() == 40) {
          d.sync();
        } else {
          d.sync_warp();
          d.sync();
        }
        if (!planted || d.thread() == 40) d.sync_warp();
      },
      {"deadlock: thread 0 and 32 others wait at sync, thread 32 and 30 others wait at sync_warp"}, 1);
  check_found<32>(
      [](Emulated& d, bool planted) {
        if (!planted || d.lane() < 16) (void)d.shuffle_xor(1.f, 1);
      },
      {"deadlock: thread 0 and 15 others wait at shuffle_xor, thread 16 and 15 others have ended"});
  check_found<32>(
      [](Emulated& d, bool planted) {
        float c[4] = {};
        if (!planted || d.lane() != 3) d.mma_m16n8k16(c, {}, {});
      },
      {"deadlock: thread 0 and 30 others wait at mma_m16n8k16, thread 3 has ended"});
}

TEST_CASE("cuda, emulated: lanes that do different things together are found") {
  check_found<64>(
      [](Emulated& d, bool planted) {
        if (planted && d.thread() == 40) {
          (void)d.ballot(true);
        } else {
          (void)d.shuffle_xor(1.f, 1);
        }
        if (!planted || d.thread() == 40) {
          if (planted) {
            (void)d.shuffle_xor(1.f, 1);
          } else {
            (void)d.ballot(true);
          }
        }
      },
      {"thread 40 calls ballot while thread 32 of its warp waits at shuffle_xor of 4 bytes"});
  check_found<32>(
      [](Emulated& d, bool planted) {
        if (planted && d.lane() == 1) {
          (void)d.shuffle(1.0, 1);
        } else {
          (void)d.shuffle(1.f, 1);
        }
      },
      {"thread 1 calls shuffle of 8 bytes while thread 0 of its warp waits at shuffle of 4 bytes"});
  check_found<32>(
      [](Emulated& d, bool planted) {
        d.store16(d.shared<float>(16 * d.lane()), {});
        d.sync_warp();
        auto const row = d.shared<bfloat16>(16 * d.lane());
        (void)(planted && d.lane() > 4 ? d.ldmatrix_x4_trans(row) : d.ldmatrix_x4(row));
      },
      {"thread 0 calls ldmatrix_x4 while thread 31 of its warp waits at ldmatrix_x4_trans"});
}

TEST_CASE("cuda, emulated: threads of a block at different barriers are found") {
  check_found<64>(
      [](Emulated& d, bool planted) {
        int own[1] = {1};
        if (planted && d.thread() == 40) {
          d.sync();
        } else {
          d.block_exclusive_sum<64>(own);
        }
      },
      {"thread 40 calls sync while thread 0 waits at block_exclusive_sum"});
  check_found<64>(
      [](Emulated& d, bool planted) {
        int own[1] = {1};
        if (planted) {
          d.block_exclusive_sum<32>(own);
        } else {
          d.block_exclusive_sum<64>(own);
        }
      },
      {"thread 0 calls block_exclusive_sum for 32 threads in a block of 64"});
}

TEST_CASE("cuda, emulated: threads that may not meet cannot") {
  auto const error = [](body const& f) { return error_of([&] { run_alone(f); }); };
  check_has(error([](Emulated& d) { d.sync(); }), "thread 0 calls sync in a kernel that is not cooperative");
  check_has(error([](Emulated& d) { (void)d.ballot(true); }), "calls ballot in a kernel that is not");
  check_has(error([](Emulated& d) { (void)d.shared<float>(0); }), "calls shared in a kernel that is not");
  check_has(error([](Emulated& d) { d.cp_async_commit(); }), "calls cp_async_commit in a kernel that is not");
}

TEST_CASE("cuda, emulated: blocks that no device can run are refused") {
  auto const nothing = [](Emulated&) {};
  run<1024, 227 * 1024>(nothing);
  check_has(error_of([&] { run<48>(nothing); }),
            "kernel probe: expected a multiple of 32 up to 1024 threads of a block, found 48");
  check_has(error_of([&] { run<1056>(nothing); }), "found 1056");
  check_has(error_of([&] { run<0>(nothing); }), "found 0");
  check_has(error_of([&] { run<32, 227 * 1024 + 1>(nothing); }),
            "takes 232449 bytes of shared memory, a block of this device has 232448");
  check_has(error_of([&] { run(nothing, -1); }), "expected 0 to 2147483647 blocks, found -1");
  big_probe const big{};
  check_has(error_of([&] { Emulated::queue().launch(big, 1); }),
            "expected at most 32764 bytes of operands, found 32776");
}

TEST_CASE("cuda, emulated: an error of the kernel itself leaves a usable queue") {
  Emulated::queue const queue;
  array_of<float> x(256);
  auto const run_with = [&, x = x.data()](bool planted) {
    body const f = [=](Emulated& d) {
      auto s = d.shared<float>(16 * d.thread());
      d.cp_async16(s, x, true);
      d.cp_async_commit();
      d.sync();
      if (planted && d.thread() == 3) throw std::out_of_range("three");
      (void)d.ballot(true);
      d.cp_async_wait<0>();
      if (d.block() == 1) d.store(x + 8 + d.thread(), s[0] + 1.f);
    };
    queue.launch(probe<64, 1024, true>{&f}, 2);
  };
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(run_with(true), std::out_of_range);
    x[71] = 0;
    run_with(false);
    CHECK(x[71] == 1);
  }
}

TEST_CASE("cuda, emulated: threads of the host launch at the same time") {
  std::vector<std::thread> threads;
  std::vector<int> sums(3, 0);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    threads.emplace_back([&sum = sums[i]] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        Emulated::memory const memory(128);
        run([y = memory.as<int>()](Emulated& d) {
          d.store(y + d.thread(), d.thread());
          d.sync();
          int const other = d.load(y + (d.thread() ^ 1));
          d.sync();
          d.store(y + d.thread(), other);
        });
        for (int t = 0; t < 32; ++t) sum += memory.as<int>()[t] == (t ^ 1) ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int sum : sums) CHECK(sum == 640);
}

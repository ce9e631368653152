// SPDX-License-Identifier: MIT
// The emulated device finds planted faults in accesses to shared memory.

#include <doctest/doctest.h>

#include <cstdint>

#include "cuda/emulated_probe.hpp"

using namespace headmix;
using namespace headmix::test;

TEST_CASE("cuda, emulated: accesses outside shared memory are found") {
  check_found<32, 256>([](Emulated& d, bool planted) { d.shared<float>(0)[d.thread() + (planted ? 33 : 32)] = 1.f; },
                       {"block 0: thread 31 writes 4 bytes at byte 256 of shared memory, which has 256"});
  check_found<32, 256>(
      [](Emulated& d, bool planted) {
        if (d.thread() == 3) *(d.shared<float>(4) - (planted ? 2 : 1)) = 1.f;
      },
      {"thread 3 writes 4 bytes at byte -4 of shared memory"});
  check_found<32, 250>(
      [](Emulated& d, bool planted) {
        if (d.thread() == 3) d.store16(d.shared<float>(planted ? 240 : 224), {});
      },
      {"thread 3 writes 16 bytes at byte 240 of shared memory, which has 250"});
  check_found<32, 256>(
      [](Emulated& d, bool planted) {
        if (d.thread() == 3) d.cp_async16(d.shared<float>(planted ? 256 : 240), nullptr, false);
      },
      {"thread 3 writes 16 bytes at byte 256 of shared memory"});
}

TEST_CASE("cuda, emulated: accesses of shared memory that fit no address are found") {
  check_found([](Emulated& d, bool planted) { d.store16(d.shared<float>(16 * d.thread() + (planted ? 8 : 0)), {}); },
              {"thread 0 writes 16 bytes at byte 8 of shared memory, not a multiple of 16"});
  check_found([](Emulated& d, bool planted) { d.shared<float>(planted ? 2 : 0)[d.thread()] = 1.f; },
              {"thread 0 writes 4 bytes at byte 2 of shared memory, not a multiple of 4"});
  check_found(
      [](Emulated& d, bool planted) {
        d.store16(d.shared<float>(16 * d.thread()), {});
        d.sync();
        (void)d.ldmatrix_x4(d.shared<bfloat16>(planted && d.lane() == 7 ? 34 : 32));
      },
      {"thread 7 reads 16 bytes at byte 34 of shared memory, not a multiple of 16"});
}

TEST_CASE("cuda, emulated: reads of shared memory that nobody has written are found") {
  check_found(
      [](Emulated& d, bool planted) {
        auto s = d.shared<float>(128);
        if (!planted || d.thread() != 5) s[d.thread()] = 1.f;
        float const x = s[d.thread()];
        (void)x;
      },
      {"thread 5 reads byte 148 of shared memory, which nobody has written"});
  // What another block or an earlier launch left there does not count.
  check_found(
      [](Emulated& d, bool planted) {
        auto s = d.shared<float>(0);
        if (!planted || d.block() == 0) s[d.thread()] = 1.f;
        float const x = s[d.thread()];
        (void)x;
      },
      {"block 1: thread 0 reads byte 0 of shared memory, which nobody has written"}, 2);
  check_found(
      [](Emulated& d, bool planted) {
        if (!planted || d.thread() != 9) d.store16(d.shared<float>(16 * d.thread()), {});
        d.sync();
        (void)d.ldmatrix_x4(d.shared<bfloat16>(16 * d.lane()));
      },
      {"thread 9 reads byte 144 of shared memory, which nobody has written"});
}

TEST_CASE("cuda, emulated: races in shared memory are found") {
  SUBCASE("write after write") {
    check_found<64>(
        [](Emulated& d, bool planted) { d.shared<std::int16_t>(0)[planted ? d.thread() / 2 : d.thread()] = 1; },
        {"thread 1 races: it writes byte 0 of shared memory, which thread 0 has written, with no barrier between"});
  }
  SUBCASE("read after write, which another warp did") {
    check_found<64>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          if (d.warp() == 0) s[d.thread()] = 1.f;
          d.sync_warp();  // is not enough
          if (!planted) d.sync();
          float const x = s[d.lane()];
          (void)x;
        },
        {"block 0: thread 63 races: it reads byte 124 of shared memory, which thread 31 has written, with no barrier "
         "between"});
  }
  SUBCASE("write after read") {
    check_found<64>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          s[d.thread()] = 1.f;
          d.sync();
          float const x = d.thread() == 63 ? static_cast<float>(s[3]) : 0;  // the last to come is the first to go on
          if (!planted) d.sync();
          if (d.thread() == 3) s[3] = x;
        },
        {"thread 3 races: it writes byte 12 of shared memory, which thread 63 has read, with no barrier between"});
  }
  SUBCASE("write after several have read") {
    check_found<96>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          if (d.thread() == 7) s[3] = 1.f;
          d.sync();
          float const x = s[3];
          if (!planted) d.sync();
          if (d.thread() == 50) s[3] = x;
        },
        {"thread 50 races: it writes byte 12 of shared memory, which threads of several warps have read"});
    check_found<32>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          if (d.thread() == 7) s[3] = 1.f;
          d.sync_warp();
          float const x = s[3];
          if (!planted) d.sync_warp();
          if (d.thread() == 30) s[3] = x;
        },
        {"thread 30 races: it writes byte 12 of shared memory, which several lanes of warp 0 have read"});
  }
  SUBCASE("in a warp, whose barrier orders its lanes") {
    check_found<64>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(128 * d.warp());
          s[d.lane()] = 1.f;
          d.sync_warp();
          float const x = s[d.lane() ^ 1];
          if (!planted || d.warp() == 0) d.sync_warp();
          s[d.lane()] = x;
        },
        {"thread 33 races: it reads byte 128 of shared memory, which thread 32 has written, with no barrier between"});
  }
  SUBCASE("shuffles and ballots order no memory") {
    check_found<32>(
        [](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          s[d.lane()] = 1.f;
          if (planted) {
            (void)d.ballot(true);
            (void)d.shuffle_xor(1.f, 1);
          } else {
            d.sync_warp();
          }
          float const x = s[d.lane() ^ 1];
          (void)x;
        },
        {"thread 30 races: it reads byte 124 of shared memory, which thread 31 has written"});
  }
  SUBCASE("a matrix goes to the whole warp, whoever names its rows") {
    check_found<32>(
        [](Emulated& d, bool planted) {
          d.store16(d.shared<bfloat16>(16 * d.lane()), {});
          if (!planted) d.sync_warp();
          (void)d.ldmatrix_x4(d.shared<bfloat16>(16 * d.lane()));
        },
        {"races: it reads byte 0 of shared memory, which thread 0 has written"});
    check_found<32>(
        [](Emulated& d, bool planted) {
          d.store16(d.shared<bfloat16>(16 * d.lane()), {});
          d.sync_warp();
          (void)d.ldmatrix_x4(d.shared<bfloat16>(16 * d.lane()));
          if (!planted) d.sync_warp();
          d.store16(d.shared<bfloat16>(16 * d.lane()), {});
        },
        {"races: it writes byte 480 of shared memory, which several lanes of warp 0 have read"});
  }
  SUBCASE("neighbours in a word do not race") {
    run<32>([](Emulated& d) {
      auto s = d.shared<std::uint8_t>(0);
      s[d.thread()] = 1;
      std::uint8_t const x = s[d.thread()];
      (void)x;
    });
  }
}

TEST_CASE("cuda, emulated: wrong use of asynchronous copies is found") {
  array_of<float> x(256);
  auto const* const source = x.data();
  SUBCASE("read before the wait") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(16 * d.thread());
          d.cp_async16(s, source + 4 * d.thread(), true);
          d.cp_async_commit();
          if (planted && d.thread() == 2) d.cp_async_wait<1>();
          if (!planted || d.thread() != 2) d.cp_async_wait<0>();
          float const v = s[1];
          (void)v;
        },
        {"thread 2 reads byte 32 of shared memory while a copy of thread 2 to it is on its way"});
  }
  SUBCASE("no commit, so that the wait is for nothing") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(16 * d.thread());
          d.cp_async16(s, source, true);
          if (!planted) d.cp_async_commit();
          d.cp_async_wait<0>();
          float const v = s[1];
          (void)v;
        },
        {"thread 0 reads byte 0 of shared memory while a copy of thread 0 to it is on its way"});
  }
  SUBCASE("write before the wait") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(16 * d.thread());
          d.cp_async16(s, source, true);
          d.cp_async_commit();
          if (planted) s[0] = 1.f;
          d.cp_async_wait<0>();
          s[0] = 1.f;
        },
        {"thread 0 writes byte 0 of shared memory while a copy of thread 0 to it is on its way"});
  }
  SUBCASE("read by others without a barrier behind the wait") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          d.cp_async16(s + 4 * d.thread(), source, true);
          d.cp_async_commit();
          if (planted) d.sync();
          d.cp_async_wait<0>();
          if (!planted) d.sync();
          if (d.thread() == 30) {
            float const v = s[0];
            (void)v;
          }
        },
        {"thread 30 races: it reads byte 0 of shared memory, which thread 0 has written, with no barrier between"});
  }
  SUBCASE("copied over what others still read") {
    check_found(
        [=](Emulated& d, bool planted) {
          auto s = d.shared<float>(0);
          d.store16(s + 4 * d.thread(), {});
          d.sync();
          float const v = d.thread() == 31 ? static_cast<float>(s[0]) : 0;
          (void)v;
          if (!planted) d.sync();
          d.cp_async16(s + 4 * d.thread(), source, true);
        },
        {"thread 0 races: it writes byte 0 of shared memory, which thread 31 has read, with no barrier between"});
  }
  SUBCASE("an unfit source") {
    check_found(
        [=](Emulated& d, bool planted) {
          d.cp_async16(d.shared<float>(16 * d.thread()), source + (planted ? 1 : 0), d.thread() != 0);
        },
        {"thread 0 copies 16 bytes from 0x", "not a multiple of 16"});
  }
  SUBCASE("a source outside of memory") {
    check_found(
        [=](Emulated& d, bool planted) {
          d.cp_async16(d.shared<float>(16 * d.thread()), source + 256, planted && d.thread() == 6);
        },
        {"thread 6 reads 16 bytes at byte 1024 of memory (0x", "which has 1024"});
  }
  SUBCASE("a source that is written meanwhile") {
    check_found(
        [=, y = x.data()](Emulated& d, bool planted) {
          d.cp_async16(d.shared<float>(16 * d.thread()), source + 4 * d.thread(), true);
          d.cp_async_commit();
          d.sync();
          if (planted && d.thread() == 0) d.store(y + 17, 1.f);
          d.cp_async_wait<0>();
        },
        {"thread 4 races: it reads byte 68 of the memory at 0x",
         "which thread 0 has written, with no barrier between"});
  }
}

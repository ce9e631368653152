// SPDX-License-Identifier: MIT
// The emulated device finds planted faults in accesses to global memory.

#include <doctest/doctest.h>

#include "cuda/emulated_probe.hpp"

using namespace headmix;
using namespace headmix::test;

TEST_CASE("cuda, emulated: races in global memory are found") {
  array_of<float> x(256);
  auto* const y = x.data();
  SUBCASE("within a block") {
    check_found<64>(
        [=](Emulated& d, bool planted) {
          d.store(y + d.thread(), 1.f);
          if (!planted) d.sync();
          float const v = d.load(y + (d.thread() + 32) % 64);
          if (!planted) d.sync();
          d.store(y + d.thread(), v);
        },
        {"thread 32 races: it writes byte 128 of the memory at 0x",
         "of 1024 bytes, which thread 0 has read, with no barrier between"});
  }
  SUBCASE("between blocks, whatever their barriers") {
    check_found<32>(
        [=](Emulated& d, bool planted) {
          d.sync();
          if (d.thread() == 7) d.store(y + (planted ? 3 : d.block()), 1.f);
          d.sync();
        },
        {"block 1: thread 7 races: it writes byte 12 of the memory",
         "which thread 7 of block 0 has written in this launch"},
        3);
    check_found<32>(
        [=](Emulated& d, bool planted) {
          if (planted && d.block() == 2) d.store(y + d.thread(), 1.f);
          if (d.block() == 1) (void)d.load(y + d.thread());
        },
        {"block 2: thread 0 races: it writes byte 0 of the memory",
         "which thread 0 of block 1 has read in this launch"},
        3);
  }
  SUBCASE("a block that reads what several have read") {
    check_found<32>(
        [=](Emulated& d, bool planted) {
          (void)d.load(y + 1);
          d.sync();
          if (planted && d.block() == 1 && d.thread() == 5) d.store(y + 1, 1.f);
        },
        {"block 1: thread 5 races: it writes byte 4 of the memory", "which several blocks have read in this launch"},
        2);
  }
  SUBCASE("of 16 bytes with a part of them") {
    check_found<32>(
        [=](Emulated& d, bool planted) {
          if (d.thread() == 1) d.store16(y, {});
          if (d.thread() == 2) d.store(y + (planted ? 3 : 4), 1.f);
        },
        {"thread 2 races: it writes byte 12 of the memory at 0x"});
  }
  SUBCASE("of threads that do not meet") {
    CHECK(error_of([&] { run_alone<64>([=](Emulated& d) { d.store(y + d.block() * 64 + d.thread(), 1.f); }, 2); }) ==
          "");
    check_has(error_of([&] { run_alone<64>([=](Emulated& d) { d.store(y + d.thread() / 2, 1.f); }); }),
              "kernel probe, block 0: thread 1 races: it writes byte 0 of the memory");
    check_has(error_of([&] { run_alone<64>([=](Emulated& d) { d.store(y + d.thread(), 1.f); }, 2); }),
              "kernel probe, block 1: thread 0 races: it writes byte 0 of the memory");
  }
  SUBCASE("not of launches") {
    for (int i = 0; i < 2; ++i) run_alone<32>([=](Emulated& d) { d.store(y + d.thread(), d.load(y + d.thread())); });
  }
  SUBCASE("over the border of a shadow page") {
    array_of<float> big(4096);
    run_alone<32>([z = big.data()](Emulated& d) {
      for (int i = d.thread(); i < 1024; i += 32) d.store16(z + 4 * i, {});
    });
  }
}

TEST_CASE("cuda, emulated: accesses outside of memory are found") {
  array_of<float> x(61);
  auto* const y = x.data();
  check_found([=](Emulated& d, bool planted) { (void)d.load(y + d.thread() + (planted ? 30 : 29)); },
              {"thread 31 reads 4 bytes at byte 244 of memory (0x", "), which has 244"});
  check_found([=](Emulated& d, bool planted) { d.store(y + d.thread() - (planted ? 1 : 0), 1.f); },
              {"thread 0 writes 4 bytes at 0x", ", 4 bytes before the memory at 0x"});
  check_found(
      [=](Emulated& d, bool planted) {
        if (d.thread() == 3) (void)d.load16(y + (planted ? 60 : 56));
      },
      {"thread 3 reads 16 bytes at byte 240 of memory (0x", "), which has 244"});
  check_found(
      [=](Emulated& d, bool planted) {
        if (d.thread() == 3) d.store16(y + (planted ? 60 : 56), {});
      },
      {"thread 3 writes 16 bytes at byte 240 of memory (0x", "), which has 244"});
}

TEST_CASE("cuda, emulated: strict_memory finds memory of the host") {
  float host = 1;
  array_of<float> x(1);
  auto const error = [](float* p) {
    return error_of([=] {
      run_alone([=](Emulated& d) {
        if (d.thread() == 0) d.store(p, d.load(p));
      });
    });
  };
  CHECK(error(&host) == "");
  {
    Emulated::strict_memory const strict;
    CHECK(error(x.data()) == "");
    check_has(error(&host), "kernel probe, block 0: thread 0 reads 4 bytes at 0x");
    check_has(error(&host), ", in no memory of the device");
    check_has(error(nullptr), "reads 4 bytes at 0x0, in no memory");
    Emulated::queue const queue;
    CHECK(error(reinterpret_cast<float*>(queue.workspace().data())) == "");
  }
  CHECK(error(&host) == "");
}

TEST_CASE("cuda, emulated: unfit addresses of global memory are found") {
  array_of<float> x(64);
  auto* const y = x.data();
  check_found([=](Emulated& d, bool planted) { (void)d.load16(y + (planted && d.thread() == 4 ? 2 : 4)); },
              {"thread 4 reads 16 bytes at 0x", "8, not a multiple of 16"});
  check_found(
      [=](Emulated& d, bool planted) {
        if (d.thread() == 4) d.store16(y + (planted ? 1 : 0), {});
      },
      {"thread 4 writes 16 bytes at 0x", "4, not a multiple of 16"});
  check_found(
      [=](Emulated& d, bool planted) {
        (void)d.load(reinterpret_cast<float const*>(reinterpret_cast<std::uintptr_t>(y) + (planted ? 2u : 0u)));
      },
      {"thread 0 reads 4 bytes at 0x", "2, not a multiple of 4"});
}

// SPDX-License-Identifier: MIT
// The address planner and its memory.

#include "headmix/core/arena.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "../error_of.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/core/random.hpp"

using namespace headmix;

TEST_CASE("planner: blocks lie side by side, each aligned") {
  OffsetPlanner<4> p;
  CHECK(p.acquire(0, 1) == 0);
  CHECK(p.acquire(1, 65) == 64);
  CHECK(p.acquire(2, 64) == 192);
  CHECK(p.peak() == 256);
}
TEST_CASE("planner: the lowest gap that is large enough is used again") {
  OffsetPlanner<5> p;
  p.acquire(0, 64);
  p.acquire(1, 128);
  p.acquire(2, 64);
  p.release(1);
  CHECK(p.acquire(3, 192) == 256);
  CHECK(p.acquire(4, 100) == 64);
  CHECK(p.peak() == 448);
}
TEST_CASE("planner: neighbouring gaps become one") {
  OffsetPlanner<4> p;
  p.acquire(0, 64);
  p.acquire(1, 64);
  p.acquire(2, 64);
  p.release(0);
  p.release(1);
  CHECK(p.acquire(3, 128) == 0);
  CHECK(p.peak() == 192);
}
TEST_CASE("planner: releasing what is not live changes nothing") {
  OffsetPlanner<3> p;
  p.acquire(0, 64);
  p.release(7);
  p.release(0);
  p.release(0);
  CHECK(p.acquire(1, 64) == 0);
  CHECK(p.acquire(2, 64) == 64);
}
TEST_CASE("planner: a block that is handed on keeps its place until the new owner is released") {
  OffsetPlanner<4> p;
  p.acquire(0, 64);
  p.acquire(1, 128);
  p.hand_on(0, 2);
  p.release(0);  // released before
  CHECK(p.acquire(3, 64) == 192);
  p.release(2);
  CHECK(p.acquire(0, 64) == 0);
  CHECK(p.peak() == 256);
}
TEST_CASE("planner: no two live blocks ever overlap, and the peak covers them all") {
  struct block {
    std::size_t id, begin, end;
  };
  OffsetPlanner<64> p;
  std::vector<block> live;
  Random const random(5);
  std::size_t highest = 0;
  for (std::uint64_t step = 0; step < 2000; ++step) {
    if (live.size() == 64 || (!live.empty() && random.below(2 * step, 2) == 0)) {
      auto const k = static_cast<std::ptrdiff_t>(random.below(2 * step + 1, live.size()));
      p.release(live[static_cast<std::size_t>(k)].id);
      live.erase(live.begin() + k);
    } else {
      std::size_t const bytes = random.below(2 * step + 1, 1000), begin = p.acquire(step, bytes);
      CHECK(begin % alignment == 0);
      for (auto const& b : live) {
        bool const apart = begin + bytes <= b.begin || b.end <= begin;
        CHECK(apart);
      }
      live.push_back({step, begin, begin + bytes});
      highest = begin + bytes > highest ? begin + bytes : highest;
    }
  }
  CHECK(p.peak() >= highest);
  CHECK(p.peak() < highest + alignment);
}
TEST_CASE("planner: runs in a constant expression") {
  constexpr auto peak = [] {
    OffsetPlanner<2> p;
    p.acquire(0, 100);
    p.release(0);
    p.acquire(1, 60);
    return p.peak();
  }();
  static_assert(peak == 128);
  CHECK(aligned(0) == 0);
  CHECK(aligned(1) == 64);
  CHECK(aligned(64) == 64);
}
TEST_CASE("buffer: more bytes than can be counted are refused") {
  for (std::size_t const bytes : {~std::size_t{0}, ~std::size_t{0} / 2 + 2, ~std::size_t{0} - 4096}) {
    CHECK(test::says(test::error_of([&] { AlignedBuffer const b(bytes); }), "sizes are too large"));
  }
}
TEST_CASE("buffer: is aligned, zeroed, and moves without copying") {
  for (std::size_t const bytes : {std::size_t{1000}, std::size_t{5} << 20}) {  // the second uses huge pages
    CAPTURE(bytes);
    AlignedBuffer a(bytes);
    CHECK(a.bytes().size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(a.bytes().data()) % alignment == 0);
    bool zero = true;
    for (auto const b : a.bytes()) zero = zero && b == std::byte{0};
    CHECK(zero);
    a.as<float>(64)[1] = 3;
    CHECK(a.as<float>()[17] == 3);
    auto* const data = a.bytes().data();
    AlignedBuffer b(std::move(a));
    CHECK(b.bytes().data() == data);
    AlignedBuffer c;
    CHECK(c.bytes().empty());
    c = std::move(b);
    CHECK(c.bytes().data() == data);
  }
  CHECK(AlignedBuffer(0).bytes().empty());
}

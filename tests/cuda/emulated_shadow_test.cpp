// SPDX-License-Identifier: MIT
// The emulator's shadow memory against the definition of a race.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "headmix/core/random.hpp"
#include "headmix/testing/emulated.hpp"

using namespace headmix;

namespace {

using namespace cuda_kernels::emulator;

/// Remembers every access of a launch to 8 bytes, and compares with all of them.
struct all_accesses {
  struct one {
    int byte, who, warp;
    bool write;
    int block, barrier, meeting;  // how many of them there were before; meetings of the warp
  };

  static bool ordered(one const& a, one const& b) {
    if (a.block != b.block) return false;
    if (a.barrier != b.barrier || (a.who == b.who && a.who < lanes_of_warp)) return true;
    return a.warp == b.warp && a.meeting != b.meeting;
  }
  finding::what enter(one const& next, bool global) {
    bool written = false, after_write = false, after_read = false;
    for (one const& before : past) {
      if (before.byte != next.byte || (!global && before.block != next.block)) continue;
      written = written || before.write;
      if (ordered(before, next)) continue;
      after_write = after_write || before.write;
      after_read = after_read || (!before.write && next.write);
    }
    past.push_back(next);
    if (!global && !next.write && !written) return finding::uninitialised;
    return after_write ? finding::after_write : after_read ? finding::after_read : finding::nothing;
  }

  std::vector<one> past;
};

/// Random accesses by four threads of two warps; returns how many were right.
template <bool global, class Shadow>
int count_right(Shadow& shadow, std::uint64_t seed) {
  epochs times;
  int right = 0, block = 0, barrier = 0, meeting[2] = {0, 0};
  all_accesses all;
  times.begin_launch();
  times.begin_block();
  for (std::uint64_t step = 0; step < 4000; ++step) {
    auto const random = Random(seed).block(step);
    switch (random.word[0] % 32) {
      case 0:
        times.begin_launch();
        all.past.clear();
        [[fallthrough]];
      case 1:
        times.begin_block(), ++block;
        break;
      case 2:
      case 3:
        times.pass_barrier(), ++barrier;
        break;
      case 4:
      case 5:
      case 6:
      case 7: {
        int const w = static_cast<int>(random.word[1] % 2);
        times.pass_warp_barrier(w), ++meeting[w];
        break;
      }
      default: {
        int const warp = static_cast<int>(random.word[1] % 2);
        bool const write = random.word[2] % 4 == 0;
        int const thread = 32 * warp + static_cast<int>(random.word[1] / 2 % 2);
        int const who = !write && random.word[1] / 4 % 8 == 0 ? lanes_of_warp + warp : thread;
        int const count = 1 << random.word[3] % 4;
        int const first = static_cast<int>(random.word[3] / 4) % 8 / count * count;
        auto const found =
            access_check<global>(times, who, warp).access(shadow, static_cast<std::size_t>(first), count, write);
        finding expected;
        for (int i = 0; i < count && expected.problem == finding::nothing; ++i) {
          expected = {all.enter({first + i, who, warp, write, block, barrier, meeting[warp]}, global), i, {}};
        }
        right +=
            found.problem == expected.problem && (found.problem == finding::nothing || found.byte == expected.byte);
        if (found.problem != finding::nothing || expected.problem != finding::nothing) {
          times.begin_launch(), times.begin_block(), ++block;  // as an error ends a launch
          all.past.clear();
        }
        continue;
      }
    }
    ++right;
  }
  return right;
}

}  // namespace

TEST_CASE("cuda, emulated: what the shadow finds is what the definition of a race says") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    shared_shadow shared;
    shared.reserve(16);
    CHECK(count_right<false>(shared, seed) == 4000);
    global_shadow global;
    CHECK(count_right<true>(global.page_of(4096), seed) == 4000);
  }
}

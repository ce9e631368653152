#pragma once
// SPDX-License-Identifier: MIT
// Facts on which the emulator and a GPU must agree bit by bit: the element of each thread after every instruction that
// distributes a tile over a warp. One kernel executes all of them and writes their results.

#include <vector>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::testing {

/// One warp. The input is 4 tiles of 8 x 8 different small integers, so that products are exact in any order.
struct calibration {
  static constexpr int threads = 32;
  static constexpr bool cooperative = true;
  static constexpr int tile_numbers = 256;
  static constexpr int shared_bytes = 2 * tile_numbers * 2;
  /// Words that a thread writes: two loads of four, two products of four, a copy, exchanges, sums.
  static constexpr int words_per_thread = 4 + 4 + 4 + 4 + 4 + 6 + 4;

  bfloat16 const* input;
  std::uint32_t* output;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    int const lane = device.lane();
    auto const tiles = device.template shared<bfloat16>(0);
    auto const copied = device.template shared<bfloat16>(tile_numbers * 2);
    device.cp_async16(tiles + lane * 8, input + lane * 8, true);
    device.cp_async_commit();
    device.cp_async16(copied + lane * 8, input + (31 - lane) * 8, lane % 3 != 0);
    device.cp_async_commit();
    device.template cp_async_wait<1>();
    device.sync();
    std::uint32_t* const out = output + lane * words_per_thread;
    int place = 0;
    auto const put = [&](std::uint32_t word) { device.store(out + place++, word); };

    words<4> const straight = device.ldmatrix_x4(tiles + lane * 8);
    words<4> const turned = device.ldmatrix_x4_trans(tiles + (31 - lane) * 8);
    for (int i = 0; i < 4; ++i) put(straight.word[i]);
    for (int i = 0; i < 4; ++i) put(turned.word[i]);
    float c[4] = {static_cast<float>(lane), 1, 2, 3};
    device.mma_m16n8k16(c, straight, words<2>{{turned.word[0], turned.word[1]}});
    for (int i = 0; i < 4; ++i) put(static_cast<std::uint32_t>(static_cast<std::int32_t>(c[i])));
    device.mma_m16n8k16(c, turned, words<2>{{straight.word[2], straight.word[3]}});
    for (int i = 0; i < 4; ++i) put(static_cast<std::uint32_t>(static_cast<std::int32_t>(c[i])));

    device.template cp_async_wait<0>();
    device.sync();
    words<4> const zeroed = device.load16(copied + lane * 8);
    for (int i = 0; i < 4; ++i) put(zeroed.word[i]);
    put(device.shuffle_xor(static_cast<std::uint32_t>(lane), 5));
    put(device.shuffle(static_cast<std::uint32_t>(lane), 11));
    put(device.ballot(lane % 5 == 2));
    bfloat16 const half = device.shuffle_xor(bfloat16(lane), 16);
    put(half.bits);
    put(static_cast<std::uint32_t>(device.shuffle(static_cast<double>(lane), lane ^ 7)));
    put(static_cast<std::uint32_t>(device.exp2(static_cast<float>(lane % 8))));
    std::int64_t total = 0;
    put(static_cast<std::uint32_t>(device.warp_exclusive_sum(static_cast<std::int64_t>(lane) << 33, total) >> 32));
    put(static_cast<std::uint32_t>(total >> 32));
    Int pair[2] = {lane, 100 * lane};
    device.template block_exclusive_sum<threads>(pair);
    for (int i = 0; i < 2; ++i) put(static_cast<std::uint32_t>(pair[i]));
  }
};

[[nodiscard]] inline std::vector<bfloat16> calibration_input() {
  std::vector<bfloat16> numbers;
  for (int i = 0; i < calibration::tile_numbers; ++i) numbers.push_back(bfloat16((i * 37 + i / 16) % 127 - 63));
  return numbers;
}

/// The emulator's results. In a file of its own: nvcc compiles kernels for GPUs alone.
std::vector<std::uint32_t> emulated_calibration();

/// The hardware's approximations, x = first + i step, for the host to judge: numbers for which product and sum are
/// exact.
struct approximations {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  float first, step;
  Index n;
  float *exp2, *log2;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * threads + device.thread();
    if (i >= n) return;
    float const x = first + static_cast<float>(i) * step;
    device.store(exp2 + i, device.exp2(x));
    device.store(log2 + i, device.log2(x > 0 ? x : -x));
  }
};

}  // namespace headmix::testing

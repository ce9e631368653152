// SPDX-License-Identifier: MIT
// Loads both operands again for every MMA of a tile; its budget has one load for two MMAs.
// budget: 100 0.5 100 loads_again
#include "../gate.cuh"

#ifndef HEADMIX_FAULT_BYTES
#define HEADMIX_FAULT_BYTES (32 * 64 * 2)
#endif

struct loads_again {
  static constexpr int threads = 32;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = HEADMIX_FAULT_BYTES;
  float* y;
  int steps;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const tile = device.template shared<headmix::bfloat16>(0) + device.lane() * 64;
    float sum[4] = {};
    for (int k = 0; k < steps; ++k) {
      device.sync();
      auto const a = device.ldmatrix_x4(tile), b = device.ldmatrix_x4_trans(tile + 16);
      device.mma_m16n8k16(sum, a, headmix::words<2>{{b.word[0], b.word[1]}});
    }
    for (int i = 0; i < 4; ++i) device.store(y + 4 * device.thread() + i, sum[i]);
  }
};
HEADMIX_GATE(loads_again)

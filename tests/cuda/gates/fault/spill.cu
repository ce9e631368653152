// SPDX-License-Identifier: MIT
// 256 accumulators for each of 1024 threads: more than the registers of a multiprocessor.
#include "../gate.cuh"

struct spill {
  static constexpr int threads = 1024;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  float* y;
  float const* x;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    float sum[256] = {};
    for (int k = 0; k < 1000; ++k) {
#pragma unroll
      for (int i = 0; i < 256; ++i) sum[i] += device.load(x + k) * device.load(x + k + i);
    }
#pragma unroll
    for (int i = 0; i < 256; ++i) device.store(y + device.thread() * 256 + i, sum[i]);
  }
};
HEADMIX_GATE(spill)

// SPDX-License-Identifier: MIT
// Needs more shared memory than compute capability 8.6 has, and has no smaller form.
#include "../gate.cuh"

struct large_shared {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 100 << 10;
  float* y;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const all = device.template shared<float>(0);
    all[device.thread()] = y[device.thread()];
    device.sync();
    device.store(y + device.thread(), all[255 - device.thread()]);
  }
};
HEADMIX_GATE(large_shared)

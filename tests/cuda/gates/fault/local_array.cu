// SPDX-License-Identifier: MIT
// Registers have no addresses: an array with a run-time index is in local memory.
#include "../gate.cuh"

struct local_array {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  int* y;
  int const* x;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    int count[16] = {};
    for (int k = 0; k < 1000; ++k) ++count[device.load(x + k) & 15];
    for (int i = 0; i < 16; ++i) device.store(y + 16 * device.thread() + i, count[i]);
  }
};
HEADMIX_GATE(local_array)

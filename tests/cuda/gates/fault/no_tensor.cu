// SPDX-License-Identifier: MIT
// Expects tensor instructions that are not there.
// expect: no_tensor HMMA
#include "../gate.cuh"

struct no_tensor {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  float* y;
  float const* x;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    float sum = 0;
    for (int k = 0; k < 16; ++k) sum += device.load(x + k) * device.load(x + k + device.thread());
    device.store(y + device.thread(), sum);
  }
};
HEADMIX_GATE(no_tensor)

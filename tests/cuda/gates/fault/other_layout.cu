// SPDX-License-Identifier: MIT
// Operands that nvcc 13.0 lays out differently on the device than on the host.
#include "../gate.cuh"

struct nothing {};
struct scores {
  double scale;
  [[no_unique_address]] nothing more;
};
struct other_layout {
  static constexpr int threads = 32;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  scores s;
  float* y;
  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    device.store(y, static_cast<float>(s.scale));
  }
};
HEADMIX_GATE(other_layout)

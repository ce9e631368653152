#pragma once
// SPDX-License-Identifier: MIT
// One kernel that two units launch: nvcc gives each unit its own function for it.
#include "headmix/backend/cuda/sm80.cuh"

/// Asks for more shared memory than a kernel has without asking.
struct wide_kernel {
  static constexpr int threads = 32;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 64 << 10;
  float* y;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const shared = device.template shared<float>(shared_bytes - 128);
    shared[device.thread()] = 1;
    float const own = shared[device.thread()];
    device.store(y + device.thread(), own);
  }
};

void launch_in_one_unit(headmix::Sm80::queue const& queue);
void launch_in_another_unit(headmix::Sm80::queue const& queue);

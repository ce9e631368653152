#pragma once
// SPDX-License-Identifier: MIT
// Reductions with a result for all threads: ours, and CUB's, which give it to the first thread. Results (device/) and
// instructions (gates/) are compared.

#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cuda/std/functional>
#include <type_traits>

#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/sm80.cuh"

namespace headmix::testing {

/// Every number becomes what the 2^shift numbers of its team, a warp or a block, make together.
template <int shift, class Combine>
struct combine_by_team {
  static constexpr int threads = cuda_kernels::team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = cuda_kernels::team_bytes<float>;
  float* x;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    float* const mine = x + device.block() * threads + device.thread();
    device.store(mine, cuda_kernels::team_reduce(device, cuda_kernels::team{shift}, device.load(mine), Combine{}));
  }
};
/// The reduction by cub::WarpReduce or cub::BlockReduce.
template <int shift, class Combine>
struct combine_by_cub {
  static constexpr int threads = cuda_kernels::team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;
  float* x;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    float* const mine = x + device.block() * threads + device.thread();
    float value = device.load(mine);
    // CUB has instructions of its own for this type of sums.
    using combine = std::conditional_t<std::is_same_v<Combine, cuda_kernels::plus>, ::cuda::std::plus<>, Combine>;
    if constexpr (shift == 5) {
      using reduce = CUB_NS_QUALIFIER::WarpReduce<float>;
      __shared__ typename reduce::TempStorage storage[threads / 32];
      value = device.shuffle(reduce(storage[device.warp()]).Reduce(value, combine{}), 0);
    } else {
      static_assert(1 << shift == threads);
      using reduce = CUB_NS_QUALIFIER::BlockReduce<float, threads>;
      __shared__ typename reduce::TempStorage storage;
      __shared__ float all;
      value = reduce(storage).Reduce(value, combine{});
      if (device.thread() == 0) all = value;
      device.sync();
      value = all;
    }
    device.store(mine, value);
  }
};

}  // namespace headmix::testing

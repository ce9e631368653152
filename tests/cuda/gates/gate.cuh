#pragma once
// SPDX-License-Identifier: MIT
// Selection of the kernels that the gate checks: by HEADMIX_GATE(kernel), or by passing gate_queue to the launching
// function, which instantiates all kernels that it could launch, with their tiles.

#include "headmix/backend/cuda/sm80.cuh"

/// Tells the gate the block size of K, its shared memory, and the bytes of its operands on the host.
template <class K, int threads, int bytes, int operands>
__global__ void sizes() {}

#define HEADMIX_GATE(...)                                                                         \
  template __global__ void headmix::cuda_kernels::run<headmix::HEADMIX_GATE_DEVICE, __VA_ARGS__>( \
      __grid_constant__ __VA_ARGS__ const);                                                       \
  template __global__ void sizes<__VA_ARGS__, __VA_ARGS__::threads, __VA_ARGS__::shared_bytes, int{sizeof(__VA_ARGS__)}>();

/// A queue that is only compiled.
struct gate_queue {
  template <class K>
  void launch(K const& kernel, headmix::Index) const {
    headmix::cuda_kernels::run<headmix::HEADMIX_GATE_DEVICE, K><<<1, K::threads>>>(kernel);
    sizes<K, K::threads, K::shared_bytes, int{sizeof(K)}><<<1, 1>>>();
  }
  template <class T, class A, class B>
  [[nodiscard]] bool gemm(headmix::view<T>, headmix::view<A const>, headmix::view<B const>, bool) const {
    return false;
  }
  [[nodiscard]] std::span<std::byte> workspace() const { return {}; }
  [[nodiscard]] int processors() const { return 1; }
  [[nodiscard]] int shared_bytes() const { return 0; }
};

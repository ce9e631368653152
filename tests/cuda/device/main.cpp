// SPDX-License-Identifier: MIT
// The tests of the Cuda backend on a GPU. Without a GPU the program prints so and exits with 77, which ctest shows as
// skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdio>

int main(int argc, char** argv) {
  int count = 0;
  cudaError_t const status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    std::printf("skipped: no GPU (%s)\n", status != cudaSuccess ? cudaGetErrorString(status) : "no device");
    return 77;
  }
  return doctest::Context(argc, argv).run();
}

#pragma once
// SPDX-License-Identifier: MIT
// A CUDA runtime and a cuBLAS for a machine without a GPU: memory is the host's, kernels are recorded and never run,
// products of cuBLAS are computed. Calls that a real runtime would refuse are refused.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

namespace stub {

struct launch {
  std::string kernel;  ///< its mangled name
  unsigned blocks, threads;
  std::size_t shared_bytes;
  cudaStream_t stream;
  bool overlaps;     ///< may begin before the launch before it has ended
  unsigned cluster;  ///< blocks that run together
};

/// All that the runtime knows, of this process.
struct runtime {
  std::vector<launch> launches;
  int attributes = 0;  ///< calls of cudaFuncSetAttribute
  int products = 0;    ///< calls of cuBLAS
  int memsets = 0;     ///< calls of cudaMemsetAsync
  /// Live objects.
  int allocations = 0, streams = 0, handles = 0, graphs = 0;
  std::vector<unsigned> stream_flags;  ///< of all streams that were ever made
  /// From now on, so many calls that may fail succeed, and the next one does not; -1: all succeed.
  int failure_after = -1;
  int calls = 0;                  ///< that may fail, so far
  int compiled_for = 90;          ///< the architecture of the kernels' PTX
  int shared_bytes = 227 << 10;   ///< that a block may have
  int device = 0;                 ///< the current one, of two
  std::size_t operand_bytes = 0;  ///< that kernels have in the GPU's code; 0: it does not say
};
runtime& state();

}  // namespace stub

// SPDX-License-Identifier: MIT
// An accumulator is read while the tensor cores still work on it. ptxas then serialises the instructions, and says so
// in a line that is no warning (C7510 and similar). For compute capability 9.0a.
__global__ void serialised(float* y, unsigned long long tile) {
  float sum[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int k = 0; k < 4; ++k) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "l"(tile), "l"(tile));
    sum[k] *= 2;
  }
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int k = 0; k < 4; ++k) y[4 * threadIdx.x + k] = sum[k];
}

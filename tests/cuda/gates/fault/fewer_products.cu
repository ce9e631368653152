// SPDX-License-Identifier: MIT
// Two MMAs of a warpgroup where three are expected.
// expect: fewer_products HGMMA=3
__global__ void fewer_products(float* y, unsigned long long tile) {
  float sum[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "l"(tile), "l"(tile));
  }
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int k = 0; k < 4; ++k) y[4 * threadIdx.x + k] = sum[k];
}

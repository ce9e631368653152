// SPDX-License-Identifier: MIT
// A loop of known counts for the test of the reader: 6 HMMAs, 2 LDSM.x4 and an asynchronous copy of 16 bytes.

__global__ void known(float* y, char const* x, int n) {
  extern __shared__ char tile[];
  auto const at = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + threadIdx.x * 16;
  float sum[6][4] = {};
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + 8192), "l"(x + i * 512 + threadIdx.x * 16));
    unsigned a[4], b[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(at + 512));
    for (int j = 0; j < 6; ++j) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[j % 2]), "r"(b[2 + j % 2]));
    }
  }
  for (int j = 0; j < 6; ++j) {
    for (int c = 0; c < 4; ++c) y[threadIdx.x * 24 + j * 4 + c] = sum[j][c];
  }
}

// SPDX-License-Identifier: MIT
// The kernels for warpgroups.
// expect: ring_product HGMMA=8 UTMALDG=3 USETMAXREG=3 LDGSTS
// budget: 8.6 0 0 ring_product
#define HEADMIX_CUDA_WARPGROUPS 1
#include "cuda/ring_product.hpp"
#include "gate.cuh"

using ring = headmix::testing::ring_product<headmix::cuda::tensor_map>;
HEADMIX_GATE(ring)

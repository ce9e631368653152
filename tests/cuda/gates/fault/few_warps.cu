// SPDX-License-Identifier: MIT
// A warp takes so much shared memory that a multiprocessor has five of them.
// budget: 100 2 100 loads_again
#define HEADMIX_FAULT_BYTES (31 << 10)
#include "over_budget.cu"

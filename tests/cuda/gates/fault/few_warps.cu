// SPDX-License-Identifier: MIT
// A warp needs so much shared memory that a multiprocessor has room for five.
// budget: 100 2 100 loads_again
#define HEADMIX_FAULT_BYTES (31 << 10)
#include "over_budget.cu"

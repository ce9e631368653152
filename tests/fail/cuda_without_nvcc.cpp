// expect first of 5 lines: headmix.cuh is for nvcc: give the file the ending .cu
// SPDX-License-Identifier: MIT
#ifdef MUST_FAIL
#include <headmix/headmix.cuh>
#endif

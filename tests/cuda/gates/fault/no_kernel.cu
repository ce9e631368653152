// SPDX-License-Identifier: MIT
// Promises a kernel and has another one, as after a change of its name.
// expect: old_name LDSM
__global__ void new_name() {}

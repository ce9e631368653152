// SPDX-License-Identifier: MIT
// Expects a kernel that is not there, as after a change of its name.
// expect: old_name LDSM
__global__ void new_name() {}

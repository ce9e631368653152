// SPDX-License-Identifier: MIT
#include "moa.cuh"

int main(int argc, char** argv) { return bench::moa_program<bench::moa_shape<64>>(argc, argv); }

// SPDX-License-Identifier: MIT
#include "moa.cuh"

int main(int argc, char** argv) { return bench::moa_program<bench::shape_a>(argc, argv); }

// SPDX-License-Identifier: MIT
#include "moa.cuh"

std::vector<bench::TimedRow> bench::timed_rows() { return moa_rows<shape_a>(); }
bool bench::passes_repeat() { return moa_repeats<shape_a>(); }

// SPDX-License-Identifier: MIT
#include "moa.cuh"

std::vector<bench::TimedRow> bench::timed_rows() { return moa_rows<moa_shape<64>>(); }
bool bench::passes_repeat() { return moa_repeats<moa_shape<64>>(); }

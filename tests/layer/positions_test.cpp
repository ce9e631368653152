// SPDX-License-Identifier: MIT
// Chunks of any size equal rows of the whole: masks, windows, score maps, biases, rotary embedding and padding.

#include "positions.hpp"

using namespace headmix;
using namespace headmix::test;

TEST_CASE("positions: causal") { check_combinations<Reference<double>, causal>(); }
TEST_CASE("positions: a window") { check_combinations<Reference<double>, sliding_window<3>>(); }

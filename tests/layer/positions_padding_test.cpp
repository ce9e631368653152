// SPDX-License-Identifier: MIT
// The tests of positions_test.cpp with padding of both inputs: positions count valid rows.

#include "positions.hpp"

using namespace headmix;
using namespace headmix::test;

TEST_CASE("positions: causal, with padding") { check_combinations<Reference<double>, causal, padded>(); }
TEST_CASE("positions: a window, with padding") { check_combinations<Reference<double>, sliding_window<3>, padded>(); }

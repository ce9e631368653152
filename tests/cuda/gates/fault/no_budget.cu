// SPDX-License-Identifier: MIT
// A main loop of MMAs without a budget.
#include "over_budget.cu"

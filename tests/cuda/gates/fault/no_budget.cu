// SPDX-License-Identifier: MIT
// Nothing says what the loop of products may cost.
#include "over_budget.cu"

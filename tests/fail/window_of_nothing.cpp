// expect: headmix: a sliding window holds at least the query's own position
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
#ifdef MUST_FAIL
constexpr Index window = 0;
#else
constexpr Index window = 1;
#endif
static_assert(sliding_window<window>::sees(0, 0));

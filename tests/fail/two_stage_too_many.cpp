// expect first of 50 lines: ((= )?4 must be at most .*3|, 4L?, .*at_most, 3L?>)
// SPDX-License-Identifier: MIT
#include "headmix/router/two_stage.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using router = TwoStage<2, 3, 4>;
#else
using router = TwoStage<2, 3, 3>;
#endif
constexpr auto gate = router::route<archetype::x>::gate;

// expect: headmix: TwoStage chooses no heads exactly if it has no routed ones
// SPDX-License-Identifier: MIT
#include "headmix/router/two_stage.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using router = TwoStage<2, 0, 1>;
#else
using router = TwoStage<2, 0, 0>;
#endif
constexpr auto gate = router::route<archetype::x>::gate;

// expect: (Found = 4[^a-zA-Z]+[a-zA-Z: ]*Expected = 3|, 4L?, 3L?, false>)
// SPDX-License-Identifier: MIT
#include "headmix/router/two_stage.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using router = TwoStage<2, 3, 4>;
#else
using router = TwoStage<2, 3, 3>;
#endif
constexpr auto gate = router::route<archetype::x>::gate;

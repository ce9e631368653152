// expect: headmix: there is no such option here; see
// SPDX-License-Identifier: MIT
#include "headmix/router/two_stage.hpp"

using namespace headmix;

struct sparse {};
#ifdef MUST_FAIL
using router = TwoStage<2, 4, 2, sparse>;
#else
using router = TwoStage<2, 4, 2, scaling::paper>;
#endif
constexpr auto gate = router::route<archetype::x>::gate;

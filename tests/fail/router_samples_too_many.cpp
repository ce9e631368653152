// expect: headmix: a router cannot sample more experts than it chooses
// SPDX-License-Identifier: MIT
#include "headmix/router/softmax_top_k.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using router = SoftmaxTopK<8, 2, sampled<3>>;
#else
using router = SoftmaxTopK<8, 2, sampled<2>>;
#endif
constexpr auto gate = router::route<archetype::x>::gate;

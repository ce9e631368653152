// expect: headmix: there is no such option here; see
// SPDX-License-Identifier: MIT
#include "headmix/router/softmax_top_k.hpp"

using namespace headmix;

struct sparse {};
#ifdef MUST_FAIL
using router = SoftmaxTopK<4, 2, sparse>;
#else
using router = SoftmaxTopK<4, 2, gating::raw>;
#endif
constexpr auto gate = router::route<archetype::x>::gate;

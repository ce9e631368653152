// expect: headmix: there is no such option here; see
// SPDX-License-Identifier: MIT
#include "headmix/layer/mh_moe.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using expert = FeedForward<4, merge_bias>;
#else
using expert = FeedForward<4, activation::relu>;
#endif
constexpr auto y = MhMoe<8, 2, SoftmaxTopK<4, 2>, expert>::y;

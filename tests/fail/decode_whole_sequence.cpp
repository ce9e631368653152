// expect: headmix: a decoder's tokens see themselves and earlier ones
// SPDX-License-Identifier: MIT
#include "headmix/decode/incremental.hpp"
#include "headmix/layer/mae.hpp"

using namespace headmix;
#ifdef MUST_FAIL
using layer = Mae<8, 2, 4, causal, pool::all>;
#else
using layer = Mae<8, 2, 4, causal, pool::prefix>;
#endif
constexpr auto y = incremental<layer>::y;

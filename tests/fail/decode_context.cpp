// expect: headmix: a decoder takes attention over the tokens themselves, not over a context
// SPDX-License-Identifier: MIT
#include "headmix/decode/incremental.hpp"
#include "headmix/layer/multi_head.hpp"

using namespace headmix;
#ifdef MUST_FAIL
using layer = MultiHead<8, 2, 4, causal, context_dim<8>>;
#else
using layer = MultiHead<8, 2, 4, causal>;
#endif
constexpr auto y = incremental<layer>::y;

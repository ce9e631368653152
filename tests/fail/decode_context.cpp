// expect: headmix: a decoder's context takes a mask with separate_positions, as full
// SPDX-License-Identifier: MIT
#include "headmix/decode/incremental.hpp"
#include "headmix/layer/multi_head.hpp"

using namespace headmix;
#ifdef MUST_FAIL
using layer = MultiHead<8, 2, 4, causal, context_dim<8>>;
#else
using layer = MultiHead<8, 2, 4, full, context_dim<8>>;
#endif
constexpr auto y = incremental<layer>::y;

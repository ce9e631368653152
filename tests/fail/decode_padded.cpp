// expect: headmix: a decoder takes rows of tokens; the layer must not be `padded`
// SPDX-License-Identifier: MIT
#include "headmix/decode/incremental.hpp"
#include "headmix/layer/moa.hpp"

using namespace headmix;
#ifdef MUST_FAIL
using layer = Moa<8, 4, SoftmaxTopK<4, 2>, causal, padded>;
#else
using layer = Moa<8, 4, SoftmaxTopK<4, 2>, causal>;
#endif
constexpr auto y = incremental<layer>::y;

// expect: headmix: the number of sub-tokens must divide the width of MhMoe
// SPDX-License-Identifier: MIT
#include "headmix/layer/mh_moe.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = MhMoe<8, 3, SoftmaxTopK<4, 2>, FeedForward<4>>;
#else
using layer = MhMoe<9, 3, SoftmaxTopK<4, 2>, FeedForward<4>>;
#endif
constexpr auto y = layer::y;

// expect: headmix: two options contradict each other; see
// SPDX-License-Identifier: MIT
#include "headmix/layer/smoe.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Smoe<8, SoftmaxTopK<4, 2>, FeedForward<4>, head_bias>;
#else
using layer = MhMoe<8, 1, SoftmaxTopK<4, 2>, FeedForward<4>, head_bias>;
#endif
constexpr auto y = layer::y;

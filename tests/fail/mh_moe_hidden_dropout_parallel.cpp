// expect: FeedForward has no hidden_dropout there
// SPDX-License-Identifier: MIT
#include "headmix/layer/smoe.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Smoe<8, SoftmaxTopK<4, 2>, FeedForward<4, hidden_dropout<1, 4>>, expert_parallel>;
#else
using layer = Smoe<8, SoftmaxTopK<4, 2>, FeedForward<4, feed_forward_bias>, expert_parallel>;
#endif
constexpr auto y = layer::y;

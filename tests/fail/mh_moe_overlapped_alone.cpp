// expect: headmix: overlapped_exchange goes with expert_parallel
// SPDX-License-Identifier: MIT
#include "headmix/layer/smoe.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Smoe<8, SoftmaxTopK<4, 2>, FeedForward<4>, overlapped_exchange>;
#else
using layer = Smoe<8, SoftmaxTopK<4, 2>, FeedForward<4>, expert_parallel>;
#endif
constexpr auto y = layer::y;

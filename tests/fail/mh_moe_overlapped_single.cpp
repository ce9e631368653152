// expect: headmix: overlapped_exchange divides the choices of a row, of which this router makes one
// SPDX-License-Identifier: MIT
#include "headmix/layer/smoe.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Smoe<8, SoftmaxTopK<4, 1>, FeedForward<4>, expert_parallel, overlapped_exchange>;
#else
using layer = Smoe<8, SoftmaxTopK<4, 2>, FeedForward<4>, expert_parallel, overlapped_exchange>;
#endif
constexpr auto y = layer::y;

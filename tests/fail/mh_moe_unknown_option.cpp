// expect: headmix: there is no such option here; see
// SPDX-License-Identifier: MIT
#include "headmix/layer/mh_moe.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = MhMoe<8, 2, SoftmaxTopK<4, 2>, FeedForward<4>, key_bias>;
#else
using layer = MhMoe<8, 2, SoftmaxTopK<4, 2>, FeedForward<4>, merge_bias>;
#endif
constexpr auto y = layer::y;

// expect: headmix: two options contradict each other; see
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moa<8, 4, SoftmaxTopK<4, 2>, causal, sliding_window<4>>;
#else
using layer = Moa<8, 4, SoftmaxTopK<4, 2>, sliding_window<4>>;
#endif
constexpr auto y = layer::y;

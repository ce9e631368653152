// expect: headmix: there is no such option here; see
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"
#include "headmix/layer/scores.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moa<8, 4, SoftmaxTopK<4, 2>, qk_norm>;
#else
using layer = Moa<8, 4, SoftmaxTopK<4, 2>, causal>;
#endif
constexpr auto y = layer::y;

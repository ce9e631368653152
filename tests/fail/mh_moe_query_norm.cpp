// expect: headmix: this router compares the queries of attention heads, and MhMoe has none
// SPDX-License-Identifier: MIT
#include "headmix/layer/mh_moe.hpp"
#include "headmix/router/query_norm.hpp"
#include "headmix/router/two_stage.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = MhMoe<8, 2, QueryNorm<1, 3, 2>, FeedForward<4>>;
#else
using layer = MhMoe<8, 2, TwoStage<1, 3, 2>, FeedForward<4>>;
#endif
constexpr auto y = layer::y;

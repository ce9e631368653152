// expect: headmix: this router compares the queries of all heads, and with tensor_parallel a rank has only some
// SPDX-License-Identifier: MIT
#include "headmix/layer/moh.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moh<8, 4, QueryNorm<1, 3, 2>, tensor_parallel>;
#else
using layer = Moh<8, 4, TwoStage<1, 3, 2>, tensor_parallel>;
#endif
constexpr auto y = layer::y;

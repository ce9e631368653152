// expect: headmix: this router compares the queries of all heads
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moa<8, 4, QueryNorm<1, 3, 2>>;
#else
using layer = Moh<8, 4, QueryNorm<1, 3, 2>>;
#endif
constexpr auto y = layer::y;

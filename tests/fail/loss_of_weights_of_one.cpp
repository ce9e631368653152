// expect first of 60 lines: headmix: QueryNorm takes no loss::cv_squared: its weights are 0 and 1
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moh<8, 4, QueryNorm<1, 3, 2, loss::cv_squared>>;
#else
using layer = Moh<8, 4, QueryNorm<1, 3, 2, loss::head_balance>>;
#endif
constexpr auto y = layer::y;
constexpr int losses = layer::losses::size;

// expect first of 60 lines: headmix: TwoStage<shared, 0, 0> takes none of load_balance.*all heads are on
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moh<8, 4, TwoStage<4, 0, 0, loss::head_balance>>;
#else
using layer = Moh<8, 4, TwoStage<4, 0, 0, loss::cv_squared>>;
#endif
constexpr auto y = layer::y;
constexpr int losses = layer::losses::size;

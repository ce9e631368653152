// expect first of 60 lines: headmix: TwoStage<1, 0, 0> takes no loss::cv_squared: its only weight is 1
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moh<8, 4, TwoStage<1, 0, 0, loss::cv_squared>>;
#else
using layer = Moh<8, 4, TwoStage<1, 0, 0>>;
#endif
constexpr auto y = layer::y;
constexpr int losses = layer::losses::size;

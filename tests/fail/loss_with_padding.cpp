// expect first of 60 lines: headmix: TwoStage takes no loss::z_with_padding.*write loss::z
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moh<8, 4, TwoStage<1, 3, 2, loss::z_with_padding>>;
#else
using layer = Moh<8, 4, TwoStage<1, 3, 2, loss::z>>;
#endif
constexpr auto y = layer::y;
constexpr int losses = layer::losses::size;

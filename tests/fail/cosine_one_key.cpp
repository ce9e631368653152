// expect: headmix: cosine_scores scales by log
// SPDX-License-Identifier: MIT
#include "headmix/layer/moh.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using scores = cosine_scores<1>;
#else
using scores = cosine_scores<2>;
#endif
using layer = Moh<8, 4, TwoStage<1, 3, 2>, scores>;
constexpr auto y = layer::y;

// expect: headmix: there is no such option here; see
// SPDX-License-Identifier: MIT
#include "headmix/layer/moh.hpp"

using namespace headmix;

struct sparse {};
#ifdef MUST_FAIL
using layer = Moh<8, 4, TwoStage<1, 3, 2>, sparse>;
#else
using layer = Moh<8, 4, TwoStage<1, 3, 2>, causal>;
#endif
constexpr auto y = layer::y;

// expect first of 60 lines: headmix: an option is given twice; see 'repeated_option<..., options...>'
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moa<8, 4, SoftmaxTopK<3, 2, loss::z, loss::load_balance, loss::z>>;
#else
using layer = Moa<8, 4, SoftmaxTopK<3, 2, loss::z, loss::load_balance>>;
#endif
constexpr auto y = layer::y;

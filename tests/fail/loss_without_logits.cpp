// expect first of 60 lines: headmix: QueryNorm takes no loss::z and no loss::z_with_padding: its scores are lengths
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using layer = Moh<8, 4, QueryNorm<1, 3, 2, loss::z>>;
#else
using layer = Moh<8, 4, QueryNorm<1, 3, 2, loss::load_balance>>;
#endif
constexpr auto y = layer::y;
constexpr int losses = layer::losses::size;

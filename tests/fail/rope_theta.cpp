// expect: headmix: rope<n, d> has theta = n / d > 0
// SPDX-License-Identifier: MIT
#include "headmix/layer/multi_head.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using position = rope<0>;
#else
using position = rope<1, 2>;
#endif
using layer = MultiHead<8, 2, 4, position>;
constexpr auto y = layer::y;

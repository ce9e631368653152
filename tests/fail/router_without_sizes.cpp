// expect: this argument of a layer is its router, such as SoftmaxTopK<8, 2>, and the type has not the sizes
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"

using namespace headmix;

#ifdef MUST_FAIL
constexpr auto y = Moa<512, 64, causal>::y;
#else
constexpr auto y = Moa<512, 64, SoftmaxTopK<8, 2>, causal>::y;
#endif

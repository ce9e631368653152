// expect: (class Router|GivenRouter Router)
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"

using namespace headmix;

#ifdef MUST_FAIL
constexpr auto y = Moa<512, 64, 8, 2, causal>::y;
#else
constexpr auto y = Moa<512, 64, SoftmaxTopK<8, 2>, causal>::y;
#endif

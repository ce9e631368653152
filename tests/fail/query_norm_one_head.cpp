// expect: headmix: QueryNorm compares the routed heads of a token and needs two or more
// SPDX-License-Identifier: MIT
#include "headmix/router/query_norm.hpp"

using namespace headmix;

#ifdef MUST_FAIL
using router = QueryNorm<2, 1, 1>;
#else
using router = QueryNorm<2, 2, 1>;
#endif
using route = router::route<archetype::queries<router::experts>>;
constexpr auto gate = route::gate;

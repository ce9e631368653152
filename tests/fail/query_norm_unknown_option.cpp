// expect: headmix: there is no such option here; see
// SPDX-License-Identifier: MIT
#include "headmix/router/query_norm.hpp"

using namespace headmix;

struct scaling_of_mine {};
#ifdef MUST_FAIL
using router = QueryNorm<2, 4, 2, scaling_of_mine>;
#else
using router = QueryNorm<2, 4, 2, estimator::active>;
#endif
using route = router::route<archetype::queries<router::experts>>;
constexpr auto gate = route::gate;

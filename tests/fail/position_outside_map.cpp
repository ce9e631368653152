// expect: query_position, key_position and head_index mean something in a score map only
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/attention.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
#ifdef MUST_FAIL
using y = decltype(a{} * key_position{});
#else
using y = decltype(a{} * number<2>{});
#endif
Program<roots<y>, Reference<double>> p{*new Reference<double>};

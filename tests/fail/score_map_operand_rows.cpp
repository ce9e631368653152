// expect: an operand of a score map is one number, .1, 1., or one for each head, .1, heads.
// SPDX-License-Identifier: MIT
#include "headmix/expr/attention.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
#ifdef MUST_FAIL
struct slope : param<size<2>, size<1>> {};
#else
struct slope : param<size<1>, size<1>> {};
#endif
struct sloped : score_map {
  static constexpr auto f(auto s) { return s - slope{} * key_position{}; }
};
constexpr auto y = attention<causal>(a{}, a{}, a{}, sloped{});

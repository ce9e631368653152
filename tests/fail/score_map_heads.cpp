// expect first of 60 lines: ((= )?2 must equal .*1|, 2L?, .*equal, 1L?>)
// SPDX-License-Identifier: MIT
#include "headmix/expr/attention.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
#ifdef MUST_FAIL
struct slope : param<size<2>> {};
#else
struct slope : param<size<1>> {};
#endif
struct sloped : score_map {
  static constexpr auto f(auto s) { return s - slope{} * key_position{}; }
};
constexpr auto y = attention<causal>(a{}, a{}, a{}, sloped{});

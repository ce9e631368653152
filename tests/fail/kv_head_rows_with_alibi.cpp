// expect: rows_of_kv_heads is for scores that do not depend on the head
// SPDX-License-Identifier: MIT
#include "headmix/layer/scores.hpp"

using namespace headmix;
struct picks : selection<tokens, size<2>, size<4>> {};
struct q : input<times<size<2>, tokens>, size<3>> {};
struct k : input<tokens, size<6>> {};
#ifdef MUST_FAIL
constexpr auto y = attention<causal, size<2>>(q{}, k{}, k{}, rows_of_kv_heads<size<2>>(picks{}), alibi{});
#else
constexpr auto y = attention<causal, size<2>>(q{}, k{}, k{}, rows_of_kv_heads<size<2>>(picks{}), soft_cap<30>{});
#endif

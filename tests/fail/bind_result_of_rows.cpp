// expect first of 40 lines: headmix: only a result with memory of its own can be bound
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;

struct D : size<6> {};
struct x : input<tokens, D> {};
#ifdef MUST_FAIL
constexpr auto y = t(exp(x{}));
#else
constexpr auto y = t(exp(x{})) + t(x{});
#endif
void use(Program<roots<std::remove_const_t<decltype(y)>>, Reference<float>>& p, view<float> v) { p.bind_result(v); }

// expect: headmix: this size is static; it needs no value
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
#ifdef MUST_FAIL
struct D : size<3> {};
#else
struct D : size<dynamic> {};
#endif
struct a : input<tokens, D> {};
void use(Program<roots<decltype(exp(a{}))>, Reference<float>>& program) { program.set(D{}, 3); }

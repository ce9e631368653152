// expect: headmix: this leaf does not occur in the program
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
struct b : input<tokens, size<3>> {};
#ifdef MUST_FAIL
using leaf_to_bind = b;
#else
using leaf_to_bind = a;
#endif
void use(Program<roots<decltype(exp(a{}))>, Reference<float>>& program) {
  program.bind(leaf_to_bind{}, view<float const>(nullptr, 0, 3));
}

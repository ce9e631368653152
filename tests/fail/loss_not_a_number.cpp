// expect: headmix: a loss is a single number
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
#ifdef MUST_FAIL
using penalty = decltype(row_sum(a{}));
#else
using penalty = decltype(sum(a{}));
#endif
void use(Program<roots<a, penalty>, Reference<float>>& program) {
  program.backward(view<float const>(nullptr, 0, 3), {1.0});
}

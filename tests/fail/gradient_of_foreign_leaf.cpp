// expect: headmix: a gradient is wanted by a leaf that is not in the program
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
struct b : input<tokens, size<3>> {};
#ifdef MUST_FAIL
using wanted = gradients_by<b>;
#else
using wanted = gradients_by<a>;
#endif
constexpr int steps = Program<roots<decltype(exp(a{}))>, Reference<float>, wanted>::steps::size;

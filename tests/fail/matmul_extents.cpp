// expect first of 40 lines: ((= )?4 must equal .*3|, 4L?, .*equal, 3L?>)
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
#ifdef MUST_FAIL
struct b : param<size<4>, size<5>> {};
#else
struct b : param<size<3>, size<5>> {};
#endif
constexpr auto y = a{} % b{};

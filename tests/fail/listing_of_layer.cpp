// expect: headmix: listing\(\) takes a Program, or a Module that is not const
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/program/listing.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
using all = roots<decltype(exp(a{}))>;
#ifdef MUST_FAIL
using listed = all;
#else
using listed = Program<all, Reference<float>>;
#endif
std::string use(listed const& program) { return listing(program).text(); }

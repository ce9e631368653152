// expect: headmix: there is no arithmetic with selections; see one_hot, gather_cols and scatter_cols
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct a : input<tokens, size<3>> {};
constexpr auto best = arg_top_k<size<2>>(a{});
#ifdef MUST_FAIL
constexpr auto y = gather_cols(a{}, best) * best;
#else
constexpr auto hot = one_hot(best);
constexpr auto y = scatter_cols(gather_cols(a{}, best), best) * a{};
#endif

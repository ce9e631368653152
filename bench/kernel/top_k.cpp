// SPDX-License-Identifier: MIT
// Choosing: top-k of the scores of E experts, and gathering and scattering the chosen columns. The scores x W are
// part of each row, so that there is something for the gradient to reach.
#include "../expression.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/select.hpp"

namespace {

using namespace bench;

int const registered = [] {
  auto const scores = x{} % headmix::t(table{});
  add("scores_top_k", headmix::gather_cols(scores, headmix::arg_top_k<K>(scores)));
  add("scores_gather_cols", headmix::gather_cols(scores, chosen{}));
  add("scores_scatter_cols", headmix::scatter_cols(headmix::gather_cols(scores, chosen{}), chosen{}));
  return 0;
}();

}  // namespace

// SPDX-License-Identifier: MIT
// Sums of rows and columns, with fused pointwise operands, and norms.
#include "../expression.hpp"
#include "headmix/expr/norm.hpp"

namespace {

using namespace bench;

int const registered = [] {
  add("row_sum", row_sum(x{} * x{}));
  add("col_sum", col_sum(x{} * x{}));
  add("layer_norm", headmix::layer_norm(x{}, gain{}, bias{}));
  add("rms_norm", headmix::rms_norm(x{}, gain{}));
  return 0;
}();

}  // namespace

// SPDX-License-Identifier: MIT
// Softmax and log-sum-exp of rows.
#include "headmix/expr/softmax.hpp"

#include "../expression.hpp"

namespace {

using namespace bench;

int const registered = [] {
  add("softmax", softmax(x{}));
  add("log_sum_exp", log_sum_exp(x{}));
  return 0;
}();

}  // namespace

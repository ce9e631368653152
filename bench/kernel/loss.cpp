// SPDX-License-Identifier: MIT
// Losses of scores x W over E classes or experts.
#include "headmix/expr/loss.hpp"

#include "../expression.hpp"
#include "headmix/expr/linear.hpp"

namespace {

using namespace bench;

int const registered = [] {
  auto const scores = x{} % headmix::t(table{});
  add("cross_entropy", mean(headmix::cross_entropy(scores, id{})));
  add("load_balance", headmix::load_balance(softmax(scores), chosen{}));
  add("z_loss", headmix::z_loss(scores));
  return 0;
}();

}  // namespace

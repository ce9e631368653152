// SPDX-License-Identifier: MIT
// Pointwise functions, one map kernel each, and a chain that fuses into one.
#include "../expression.hpp"

namespace {

using namespace bench;

int const registered = [] {
  add("map_exp", exp(x{}));
  add("map_tanh", tanh(x{}));
  add("map_gelu", gelu(x{}));
  add("map_chain", (x{} + gain{}) * x{} / gain{} - bias{});
  return 0;
}();

}  // namespace

// SPDX-License-Identifier: MIT
// Mixture-of-head attention with the two-stage router, in training: see moh.hpp.
#include "moh.hpp"

namespace {

using namespace bench;

int const registered = [] {
  for (char const* direction : {"forward", "backward"}) add_moh<TwoStage>(direction, "two_stage", {100, 75, 50, 25});
  return 0;
}();

}  // namespace

// SPDX-License-Identifier: MIT
// Mixture-of-head attention with the two-stage router, in training: see moh.hpp.
#include "moh.hpp"

namespace {

using namespace bench;

int const registered = [] {
  for (char const* direction : {"forward", "backward"}) {
    add_moh<TwoStage>(direction, "two_stage",
                      {{1024, 512, 8, 75},
                       {1024, 512, 8, 50},
                       {2048, 1024, 8, 50},
                       {2048, 1024, 16, 100},
                       {2048, 1024, 16, 75},
                       {2048, 1024, 16, 50},
                       {2048, 1024, 16, 25}});
  }
  return 0;
}();

}  // namespace

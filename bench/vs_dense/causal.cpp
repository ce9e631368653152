// SPDX-License-Identifier: MIT
#include "layers.hpp"

std::unique_ptr<bench::TimedLayer> bench::make_causal(Configuration const& c, Index length, bool dense) {
  return make_layer<headmix::causal>(c, length, dense);
}

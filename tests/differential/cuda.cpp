// SPDX-License-Identifier: MIT
// The emulated Cuda backend: few and small cases.
#include "headmix/backend/cuda.hpp"

#include "headmix/testing/emulated.hpp"
#include "mh_moe_cases.hpp"
#include "moa_cases.hpp"

namespace headmix::differential {

std::vector<Entry> cuda_layers() {
  return {entry<MoaManyOptions, training, Cuda<double, Emulated>>("Cuda, Moa"),
          entry<MhMoeManyOptions, training, Cuda<float, Emulated>>("Cuda, MhMoe")};
}

}  // namespace headmix::differential

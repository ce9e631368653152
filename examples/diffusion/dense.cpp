// SPDX-License-Identifier: MIT
#include "dit.hpp"

namespace diffusion {

Results train_dense(Options const& o) { return train<Dense>(o); }

}  // namespace diffusion

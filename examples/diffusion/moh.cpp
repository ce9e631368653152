// SPDX-License-Identifier: MIT
#include "dit.hpp"

namespace diffusion {

Results train_moh(Options const& o) { return train<Mixed>(o); }

}  // namespace diffusion

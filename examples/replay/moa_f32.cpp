// SPDX-License-Identifier: MIT
#include "moa.hpp"

template void replay::replay_moa<float>(Case&, Result&);

// SPDX-License-Identifier: MIT
#include "../mae.hpp"
#include "on_cuda.hpp"

template void replay::replay_mae<double, replay::on_cuda>(Case&, Result&);

// SPDX-License-Identifier: MIT
#include "../moa.hpp"
#include "on_cuda.hpp"

template void replay::replay_moa<double, replay::on_cuda>(Case&, Result&);

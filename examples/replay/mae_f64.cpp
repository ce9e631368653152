// SPDX-License-Identifier: MIT
#include "mae.hpp"
#include "on_cpu.hpp"

template void replay::replay_mae<double, replay::on_cpu>(Case&, Result&);

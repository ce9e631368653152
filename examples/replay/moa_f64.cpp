// SPDX-License-Identifier: MIT
#include "moa.hpp"
#include "on_cpu.hpp"

template void replay::replay_moa<double, replay::on_cpu>(Case&, Result&);

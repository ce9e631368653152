// SPDX-License-Identifier: MIT
#include "mh_moe.hpp"
#include "on_cpu.hpp"

template void replay::replay_mh_moe<float, replay::on_cpu>(Case&, Result&);

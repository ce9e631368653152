// SPDX-License-Identifier: MIT
#include "../mh_moe.hpp"
#include "on_emulated.hpp"

template void replay::replay_mh_moe<double, replay::on_emulated>(Case&, Result&);

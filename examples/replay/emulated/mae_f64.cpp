// SPDX-License-Identifier: MIT
#include "../mae.hpp"
#include "on_emulated.hpp"

template void replay::replay_mae<double, replay::on_emulated>(Case&, Result&);

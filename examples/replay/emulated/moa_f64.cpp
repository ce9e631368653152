// SPDX-License-Identifier: MIT
#include "../moa.hpp"
#include "on_emulated.hpp"

template void replay::replay_moa<double, replay::on_emulated>(Case&, Result&);

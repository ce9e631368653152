// SPDX-License-Identifier: MIT
#include "../mh_moe.hpp"
#include "on_cuda.hpp"

template void replay::replay_mh_moe<double, replay::on_cuda>(Case&, Result&);

// SPDX-License-Identifier: MIT
#include "../moh.hpp"
#include "on_emulated.hpp"

template void replay::replay_two_stage<double, replay::on_emulated>(MohCase<double>&, Result&);

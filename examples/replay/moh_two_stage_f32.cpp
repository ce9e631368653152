// SPDX-License-Identifier: MIT
#include "moh.hpp"
#include "on_cpu.hpp"

template void replay::replay_two_stage<float, replay::on_cpu>(MohCase<float>&, Result&);

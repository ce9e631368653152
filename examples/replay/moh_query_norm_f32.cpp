// SPDX-License-Identifier: MIT
#include "moh.hpp"
#include "on_cpu.hpp"

template void replay::replay_query_norm<float, replay::on_cpu>(MohCase<float>&, Result&);

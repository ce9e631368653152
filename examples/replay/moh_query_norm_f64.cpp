// SPDX-License-Identifier: MIT
#include "moh.hpp"
#include "on_cpu.hpp"

template void replay::replay_query_norm<double, replay::on_cpu>(MohCase<double>&, Result&);

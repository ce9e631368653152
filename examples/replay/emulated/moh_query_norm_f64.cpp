// SPDX-License-Identifier: MIT
#include "../moh.hpp"
#include "on_emulated.hpp"

template void replay::replay_query_norm<double, replay::on_emulated>(MohCase<double>&, Result&);

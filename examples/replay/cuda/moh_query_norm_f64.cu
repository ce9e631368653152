// SPDX-License-Identifier: MIT
#include "../moh.hpp"
#include "on_cuda.hpp"

template void replay::replay_query_norm<double, replay::on_cuda>(MohCase<double>&, Result&);

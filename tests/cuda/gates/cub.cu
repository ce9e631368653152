// SPDX-License-Identifier: MIT
// Our reductions beside CUB's.
// fewer: combine_by_team<5, plus> than combine_by_cub<5, plus>
// fewer: combine_by_team<5, maximum_or_nan> than combine_by_cub<5, maximum_or_nan>
// fewer: combine_by_team<8, plus> than combine_by_cub<8, plus>
// fewer: combine_by_team<8, maximum_or_nan> than combine_by_cub<8, maximum_or_nan>
#include "../cub_reduce.cuh"
#include "gate.cuh"

using namespace headmix::testing;
using headmix::cuda_kernels::plus, headmix::cuda_kernels::maximum_or_nan;

HEADMIX_GATE(combine_by_team<5, plus>)
HEADMIX_GATE(combine_by_cub<5, plus>)
HEADMIX_GATE(combine_by_team<5, maximum_or_nan>)
HEADMIX_GATE(combine_by_cub<5, maximum_or_nan>)
HEADMIX_GATE(combine_by_team<8, plus>)
HEADMIX_GATE(combine_by_cub<8, plus>)
HEADMIX_GATE(combine_by_team<8, maximum_or_nan>)
HEADMIX_GATE(combine_by_cub<8, maximum_or_nan>)

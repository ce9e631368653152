// SPDX-License-Identifier: MIT
// Our reductions beside CUB's.
// fewer: combine_by_team<5, add_numbers> than combine_by_cub<5, add_numbers>
// fewer: combine_by_team<5, larger_number> than combine_by_cub<5, larger_number>
// fewer: combine_by_team<8, add_numbers> than combine_by_cub<8, add_numbers>
// fewer: combine_by_team<8, larger_number> than combine_by_cub<8, larger_number>
#include "../cub_reduce.cuh"
#include "gate.cuh"

using namespace headmix::testing;
using headmix::gpu::add_numbers, headmix::gpu::larger_number;

HEADMIX_GATE(combine_by_team<5, add_numbers>)
HEADMIX_GATE(combine_by_cub<5, add_numbers>)
HEADMIX_GATE(combine_by_team<5, larger_number>)
HEADMIX_GATE(combine_by_cub<5, larger_number>)
HEADMIX_GATE(combine_by_team<8, add_numbers>)
HEADMIX_GATE(combine_by_cub<8, add_numbers>)
HEADMIX_GATE(combine_by_team<8, larger_number>)
HEADMIX_GATE(combine_by_cub<8, larger_number>)

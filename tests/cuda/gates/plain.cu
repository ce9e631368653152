// SPDX-License-Identifier: MIT
// The kernels without tensor cores.
#include "gate.cuh"
#include "headmix/backend/cuda/kernel/experts/capacity.hpp"
#include "headmix/backend/cuda/kernel/experts/sort_by_expert.hpp"
#include "headmix/backend/cuda/kernel/products/gemm.hpp"
#include "headmix/backend/cuda/kernel/routing/scatter.hpp"
#include "headmix/backend/cuda/kernel/routing/select.hpp"
#include "headmix/backend/cuda/kernel/routing/top_k.hpp"
#include "headmix/backend/cuda/kernel/rows/each_row.hpp"
#include "headmix/backend/cuda/kernel/rows/map.hpp"
#include "headmix/backend/cuda/kernel/rows/quantize.hpp"
#include "headmix/backend/cuda/kernel/rows/reduce.hpp"
#include "headmix/backend/cuda/kernel/rows/rotary.hpp"
#include "headmix/backend/cuda/kernel/rows/softmax.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/expr/pointwise.hpp"

using namespace headmix::cuda_kernels;
using headmix::bfloat16;
using bfloat16_leaf = headmix::tree_leaf<bfloat16, false, false>;
using float_leaf = headmix::tree_leaf<float, false, false>;
using gate = headmix::tree_node<float, headmix::ops::sigmoid, bfloat16_leaf>;
using swiglu = headmix::tree_node<float, headmix::ops::multiply, bfloat16_leaf,
                                  headmix::tree_node<float, headmix::ops::multiply, bfloat16_leaf, gate>>;
using gates_of_chosen =
    each_row_kernel<float, headmix::row_step::softmax<float, float>, headmix::row_step::gather<float>,
                    headmix::cuda_kernels::vector_step<headmix::row_step::sum<float, float_leaf>>,
                    headmix::cuda_kernels::vector_step<headmix::row_step::map<float, float_leaf>>,
                    headmix::row_step::scatter<float>, headmix::row_step::concat<float, float, float>,
                    headmix::row_step::renumber>;

HEADMIX_GATE(map_kernel<float, bfloat16, bfloat16_leaf>)
HEADMIX_GATE(map_kernel<float, bfloat16, swiglu>)
HEADMIX_GATE(map_kernel<float, float, headmix::tree_number<float>>)
HEADMIX_GATE(map_kernel<float, bfloat16, tree_group<bfloat16_leaf>>)
HEADMIX_GATE(map_kernel<headmix::Int, headmix::Int, tree_renumber>)
HEADMIX_GATE(gates_of_chosen)
HEADMIX_GATE(row_sum_kernel<float, bfloat16, bfloat16_leaf>)
HEADMIX_GATE(col_sum_kernel<float, bfloat16, bfloat16_leaf>)
HEADMIX_GATE(gemm_kernel<float, bfloat16, bfloat16, bfloat16>)
HEADMIX_GATE(gemm_kernel<float, float, float, float>)
HEADMIX_GATE(softmax_kernel<float, float, float>)
HEADMIX_GATE(log_sum_exp_kernel<float, float, float>)
HEADMIX_GATE(top_k_kernel<float, float>)
HEADMIX_GATE(count_digits)
HEADMIX_GATE(scan_digits)
HEADMIX_GATE(scatter_slots)
HEADMIX_GATE(find_begins)
HEADMIX_GATE(apply_capacity_kernel)
HEADMIX_GATE(scatter_kernel<float, bfloat16>)
HEADMIX_GATE(scatter_long_kernel<float, bfloat16>)
HEADMIX_GATE(rotary_kernel<float, bfloat16>)
HEADMIX_GATE(absmax_int8_kernel<bfloat16>)
HEADMIX_GATE(row_sum_kernel<float, float, tree_absolute<bfloat16>>)
HEADMIX_GATE(absmean_ternary_kernel<bfloat16>)

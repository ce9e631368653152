#pragma once
// SPDX-License-Identifier: MIT
// Everything for the GPU, to be compiled by nvcc for compute capability 8.0 or newer. Link cudart and cuBLAS (in CMake:
// headmix::cuda). Without a GPU, and without nvcc: headmix/backend/cuda.hpp and headmix/testing/emulated.hpp.

#ifndef __CUDACC__
#error "headmix: headmix.cuh is for nvcc: give the file the ending .cu; a file for the CPU includes headmix/headmix.hpp"
#else
#include "headmix/analysis/experts.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/compiled.cuh"
#include "headmix/backend/cuda/graph.cuh"
#include "headmix/backend/cuda/sm80.cuh"
#include "headmix/core/version.hpp"
#include "headmix/count/count.hpp"
#include "headmix/expr/drop_path.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/rotary.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "headmix/program/module.hpp"
#include "headmix/testing/gradcheck.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/block_coordinate.hpp"
#include "headmix/train/parameter_average.hpp"
#include "headmix/train/schedule.hpp"
#include "headmix/train/sgd.hpp"
#endif

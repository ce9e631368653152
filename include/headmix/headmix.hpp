#pragma once
// SPDX-License-Identifier: MIT
// Everything for the CPU.

#include "headmix/analysis/experts.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/core/running_mean.hpp"
#include "headmix/core/version.hpp"
#include "headmix/count/count.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/rotary.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/tape/copy_parameters.hpp"
#include "headmix/tape/module.hpp"
#include "headmix/testing/gradcheck.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/block_coordinate.hpp"
#include "headmix/train/schedule.hpp"
#include "headmix/train/sgd.hpp"

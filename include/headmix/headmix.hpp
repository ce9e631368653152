#pragma once
// SPDX-License-Identifier: MIT
// Everything for the CPU.

// Names that are macros elsewhere: of Qt (slots, emit), complex.h (I), AssertMacros.h (check), Arduino (word) and
// programs with constants (E). They are macros again behind this header.
#pragma push_macro("E")
#undef E
#pragma push_macro("I")
#undef I
#pragma push_macro("check")
#undef check
#pragma push_macro("emit")
#undef emit
#pragma push_macro("slots")
#undef slots
#pragma push_macro("word")
#undef word

#include "headmix/analysis/experts.hpp"
#include "headmix/backend/build_info.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/core/version.hpp"
#include "headmix/count/count.hpp"
#include "headmix/count/parity.hpp"
#include "headmix/decode/beam_search.hpp"
#include "headmix/decode/decoder.hpp"
#include "headmix/decode/sampling.hpp"
#include "headmix/expr/drop_path.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/rotary.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/compiled.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "headmix/program/module.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/testing/gradcheck.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/block_coordinate.hpp"
#include "headmix/train/parameter_average.hpp"
#include "headmix/train/schedule.hpp"
#include "headmix/train/selection_bias.hpp"
#include "headmix/train/sgd.hpp"

#ifdef HEADMIX_COMPILED
HEADMIX_MODULES(extern, headmix::Reference<double>)
HEADMIX_MODULES(extern, headmix::Cpu<float>)
HEADMIX_MODULES(extern, headmix::Cpu<double>)
HEADMIX_MODULES(extern, headmix::Cpu<headmix::bfloat16>)
#endif

#pragma pop_macro("E")
#pragma pop_macro("I")
#pragma pop_macro("check")
#pragma pop_macro("emit")
#pragma pop_macro("slots")
#pragma pop_macro("word")

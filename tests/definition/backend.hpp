#pragma once
// SPDX-License-Identifier: MIT
// The backend of a program of tests: Reference<double>, or what HEADMIX_DEFINITION_ON_<backend> says.

#if defined(HEADMIX_DEFINITION_ON_FLOAT) || defined(HEADMIX_DEFINITION_ON_BFLOAT16)
#include "headmix/backend/cpu.hpp"
#elif defined(HEADMIX_DEFINITION_ON_CUDA)
#include "headmix/backend/cuda.hpp"
#include "headmix/testing/emulated.hpp"
#else
#include "headmix/backend/reference.hpp"
#endif

namespace headmix::definition {

#if defined(HEADMIX_DEFINITION_ON_FLOAT)
using tested_backend = Cpu<float>;
#elif defined(HEADMIX_DEFINITION_ON_BFLOAT16)
using tested_backend = Cpu<bfloat16>;
#elif defined(HEADMIX_DEFINITION_ON_CUDA)
using tested_backend = Cuda<float, Emulated>;
#else
using tested_backend = Reference<double>;
#endif

}  // namespace headmix::definition

// SPDX-License-Identifier: MIT
// The layer in C++, behind the functions of moa.h. moa_create() sets its width and that of its heads.

// [readme]
#include "moa.h"  // #include <headmix/interop/c.h> and HEADMIX_C_DECLARE(moa, float)

#include <headmix/headmix.hpp>
#include <headmix/interop/c.hpp>

using Layer = headmix::Moa<headmix::dynamic, headmix::dynamic, headmix::SoftmaxTopK<4, 2>, headmix::causal>;
using Backend = headmix::Cpu<float, headmix::host_threads>;
HEADMIX_C_LAYER(moa, Layer, Backend, Layer::model_dim, Layer::head_dim)
// [/readme]

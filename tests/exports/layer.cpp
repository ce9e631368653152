// SPDX-License-Identifier: MIT
// A layer with a C interface, in a library whose other symbols are hidden.
#include <headmix/interop/c.h>

#include <headmix/backend/reference.hpp>
#include <headmix/interop/c.hpp>
#include <headmix/layer/moa.hpp>

HEADMIX_C_DECLARE(moa, float)
using Layer = headmix::Moa<8, 4, headmix::SoftmaxTopK<4, 2>, headmix::causal>;
using Backend = headmix::Reference<float>;
HEADMIX_C_LAYER(moa, Layer, Backend)

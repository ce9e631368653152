// expect: headmix: only weights of a module for inference can be prepared
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;
using L = Moa<4, 2, SoftmaxTopK<3, 1>>;
#ifdef MUST_FAIL
template void Module<L, Reference<float>, training>::prepare_weights();
#else
inline void prepare(Module<L, Reference<float>, inference>& m) { m.prepare_weights(); }
#endif

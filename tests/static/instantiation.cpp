// SPDX-License-Identifier: MIT
// Explicit instantiation of whole modules, in a separate unit.

#include "headmix/backend/reference.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

template class headmix::Module<Moa<12, 8, SoftmaxTopK<5, 2>, causal>, Reference<double>>;
template class headmix::Module<Moh<12, 8, QueryNorm<1, 3, 1>, causal>, Reference<double>, inference>;

// expect first of 40 lines: headmix: a layer has no list of selections that can be observed: write using observed =
// type_list<>; SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

struct layer {
  struct D : size<6> {};
  struct x : input<tokens, D> {};
  struct W : param<D, D> {};
  static constexpr auto y = x{} % W{};
  using losses = type_list<>;
#ifndef MUST_FAIL
  using observed = type_list<>;
#endif
};
void use(Module<layer, Reference<float>>& m) { m.zero_gradients(); }

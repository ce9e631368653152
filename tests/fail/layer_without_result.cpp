// expect first of 40 lines: headmix: a layer has no result: write static constexpr auto y = ...
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

struct layer {
  struct D : size<6> {};
  struct x : input<tokens, D> {};
  struct W : param<D, D> {};
  static constexpr auto z = x{} % W{};
#ifndef MUST_FAIL
  static constexpr auto y = z;
  using losses = type_list<>;
  using observed = type_list<>;
#endif
};
void use(Module<layer, Reference<float>>& m) { m.zero_gradients(); }

// expect first of 40 lines: headmix: a number in an equation is a type: write 2_n for 2 and 2.5_n for 2.5
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

struct layer {
  struct D : size<6> {};
  struct x : input<tokens, D> {};
  struct W : param<D, D> {};
#ifdef MUST_FAIL
  static constexpr auto y = 2.0 * x{} % W{};
#else
  static constexpr auto y = 2_n * x{} % W{};
#endif
  using losses = type_list<>;
  using observed = type_list<>;
};
void use(Module<layer, Reference<float>>& m) { m.zero_gradients(); }

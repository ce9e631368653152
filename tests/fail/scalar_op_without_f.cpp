// expect: ScalarOp
// SPDX-License-Identifier: MIT
#include "headmix/expr/pointwise.hpp"

using namespace headmix;
struct cube : pointwise {
#ifndef MUST_FAIL
  template <class T>
  static T f(T a) {
    return a * a * a;
  }
#endif
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(number<3>{} * dy * a * a); }
};
struct x : input<tokens, size<3>> {};
constexpr auto y = apply<cube>(x{});

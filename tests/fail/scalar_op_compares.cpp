// expect: vectorizable = false
// SPDX-License-Identifier: MIT
#include "headmix/backend/cpu.hpp"
#include "headmix/tape/tape.hpp"

using namespace headmix;
struct positive : pointwise {
#ifndef MUST_FAIL
  static constexpr bool vectorizable = false;
#endif
  template <class T>
  static T f(T a) {
    return a > T(0) ? a : T(0);
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(dy * a); }
};
struct x : input<tokens, size<3>> {};
using Y = decltype(apply<positive>(x{}));
auto forward(Tape<roots<Y>, Cpu<double>, inference>& tape) { return tape.forward(); }

// expect: headmix: vjp returns one gradient .or none. for each operand
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct hypotenuse : pointwise {
  template <class T>
  static T f(T a, T b) {
    return std::sqrt(a * a + b * b);
  }
#ifdef MUST_FAIL
  static constexpr auto vjp(auto dy, auto a, auto, auto y) { return grads(dy * a / y); }
#else
  static constexpr auto vjp(auto dy, auto a, auto b, auto y) { return grads(dy * a / y, dy * b / y); }
#endif
};
struct a : input<tokens, size<3>> {};
struct b : input<tokens, size<3>> {};
using Y = decltype(make<hypotenuse>(a{}, b{}));
int buffers() { return Program<roots<Y>, Reference<double>>::buffer_list::size; }

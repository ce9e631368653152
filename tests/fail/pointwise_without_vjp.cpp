// expect first of 50 lines: headmix: an operation has no gradient, see 'has_vjp<operation>': give it static constexpr
// auto vjp SPDX-License-Identifier: MIT
#include "headmix/testing/gradcheck.hpp"

using namespace headmix;

struct squared : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    return a * a;
  }
#ifndef MUST_FAIL
  static constexpr auto vjp(auto dy, auto a, auto /*y*/) { return grads(dy * (a + a)); }
#endif
};
struct x : input<tokens, size<4>> {};
bool ok() { return gradcheck(apply<squared>(x{}), at<tokens>(7)).ok(); }

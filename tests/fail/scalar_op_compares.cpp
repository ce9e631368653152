// expect: vectorizable = false
// SPDX-License-Identifier: MIT
#include "headmix/backend/cpu/rows/map_reduce.hpp"
#include "headmix/expr/pointwise.hpp"

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
using tree = tree_node<double, positive, tree_leaf<double, false, false>>;
void forward(serial& executor, view<double> y, tree const& t) { cpu_kernels::map(executor, y, t, false); }

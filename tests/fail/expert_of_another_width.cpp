// expect first of 40 lines: mixture\(\) of an expert has the width of x
// SPDX-License-Identifier: MIT
#include "headmix/layer/mh_moe.hpp"

using namespace headmix;

struct expert {
  template <Extent E, Extent D, class Tag = void>
  struct experts {
#ifdef MUST_FAIL
    struct W : param<E, D, size<3>> {};
#else
    struct W : param<E, D, D> {};
#endif
    template <Expr X, Expr G, Selection Chosen>
    static constexpr auto mixture(X x, G gate, Chosen index) {
      return combine(gate, expert_linear(x, W{}, index));
    }
  };
};
constexpr auto y = MhMoe<8, 2, SoftmaxTopK<4, 2>, expert>::y;

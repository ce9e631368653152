// expect first of 40 lines: an expert has no mixture: write template <Extent E, Extent D, class Tag = void> struct
// SPDX-License-Identifier: MIT
#include "headmix/layer/mh_moe.hpp"

using namespace headmix;

struct expert {
  template <Extent E, Extent D, class Tag = void>
  struct experts {
    struct W : param<E, D, D> {};
#ifndef MUST_FAIL
    template <Expr X, Expr G, Selection Chosen>
    static constexpr auto mixture(X x, G gate, Chosen index) {
      return combine(gate, expert_linear(x, W{}, index));
    }
#endif
  };
};
constexpr auto y = MhMoe<8, 2, SoftmaxTopK<4, 2>, expert>::y;

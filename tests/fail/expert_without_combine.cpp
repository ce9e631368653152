// expect first of 40 lines: mixture\(\) of an expert has one row for each row of x: return combine\(gate, ...\)
// SPDX-License-Identifier: MIT
#include "headmix/layer/smoe.hpp"

using namespace headmix;

struct expert {
  template <Extent E, Extent D, class Tag = void>
  struct experts {
    struct W : param<E, D, D> {};
    static constexpr auto mixture(Expr auto x, Expr auto gate, Selection auto index) {
#ifdef MUST_FAIL
      return expert_linear(x, W{}, index);
#else
      return combine(gate, expert_linear(x, W{}, index));
#endif
    }
  };
};
constexpr auto y = Smoe<8, SoftmaxTopK<4, 2>, expert>::y;

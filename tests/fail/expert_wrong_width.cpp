// expect first of 70 lines: (rows of W_down = 17 must equal columns of .* = 16|expert_linear.*, 17L?, .*equal, 16L?>)
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

struct expert {
  template <Extent E, Extent D, class Tag = void>
  struct experts {
    struct inner : size<16> {};
#ifdef MUST_FAIL
    struct wrong : size<17> {};
#else
    using wrong = inner;
#endif
    struct W_up : param<E, D, inner> {};
    struct W_down : param<E, wrong, D> {};
    static constexpr auto mixture(Expr auto x, Expr auto gate, Selection auto index) {
      return combine(gate, expert_linear(gelu(expert_linear(x, W_up{}, index)), W_down{}, index));
    }
  };
};
void use(Module<Smoe<12, SoftmaxTopK<6, 2>, expert>, Reference<float>>& m) { m.zero_gradients(); }

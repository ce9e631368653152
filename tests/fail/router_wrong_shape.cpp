// expect first of 50 lines: (rows of W_g = 6 must equal columns of x = 12; a % b|matmul.*, 6L?, .*equal, 12L?>)
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

struct router {
  struct experts : size<6> {};
  struct top_k : size<2> {};
  template <Expr X, class Tag = void>
  struct route {
#ifdef MUST_FAIL
    struct W_g : router_param<experts, cols<X>> {};
#else
    struct W_g : router_param<cols<X>, experts> {};
#endif
    static constexpr auto s = sigmoid(upcast(X{} % W_g{}));
    static constexpr auto index = arg_top_k<top_k>(s);
    static constexpr auto gate = gather_cols(s, index);
    using losses = type_list<>;
  };
};
void use(Module<Moa<12, 8, router, causal>, Reference<float>>& m) { m.zero_gradients(); }

// expect first of 40 lines: gate of a router has top_k columns, a weight for each chosen expert
// SPDX-License-Identifier: MIT
#include "headmix/layer/moa.hpp"

using namespace headmix;

/// A router with weights of all experts instead of the chosen ones.
struct wide_router {
  struct experts : size<4> {};
  struct top_k : size<2> {};
  template <Expr X, class Tag = void>
  struct route {
    struct W_g : router_param<cols<X>, experts> {};
    static constexpr auto p = softmax(X{} % W_g{});
    static constexpr auto index = arg_top_k<top_k>(p);
#ifdef MUST_FAIL
    static constexpr auto gate = p;
#else
    static constexpr auto gate = gather_cols(p, index);
#endif
    using losses = type_list<>;
  };
};
constexpr auto y = Moa<8, 4, wide_router>::y;

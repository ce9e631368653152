#pragma once
// SPDX-License-Identifier: MIT
// A router for rows that time experts alone.

#include "headmix/expr/expr.hpp"
#include "headmix/expr/leaf.hpp"

namespace bench {

/// Experts and weights that the caller binds.
struct Given {
  struct experts : headmix::size<headmix::dynamic> {};
  struct top_k : headmix::size<headmix::dynamic> {};
  template <headmix::Expr X>
  struct route {
    struct chosen : headmix::selection<headmix::rows<X>, top_k, experts> {};
    struct weight : headmix::input<headmix::rows<X>, top_k> {};
    static constexpr chosen index = {};
    static constexpr weight gate = {};
    using losses = headmix::type_list<>;
  };
};

}  // namespace bench

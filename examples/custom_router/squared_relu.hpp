#pragma once
// SPDX-License-Identifier: MIT
// A scalar function and a custom router. The library derives the router's gradient; the function states its own.

#include <headmix/headmix.hpp>

namespace custom {

/// max(a, 0)^2, with the gradient 2 max(a, 0).
struct squared_relu : headmix::pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    using headmix::maximum;
    T const positive = maximum(a, T(0));
    return positive * positive;
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return headmix::grads(dy * (relu(a) + relu(a))); }
};

/// Scores s = squared_relu(x W_g); the K best experts, weighed by their shares of the chosen scores.
template <headmix::Index Experts, headmix::Index TopK>
struct SquaredReluTopK {
  struct experts : headmix::size<Experts> {};
  struct top_k : headmix::size<TopK> {};

  template <headmix::Expr X, class Tag = void>
  struct route {
    struct W_g : headmix::param<headmix::cols<X>, experts> {};
    static constexpr auto s = headmix::apply<squared_relu>(upcast(X{} % W_g{}));
    static constexpr auto index = headmix::arg_top_k<top_k>(s);
    static constexpr auto chosen = gather_cols(s, index);
    static constexpr auto gate = chosen / (row_sum(chosen) + headmix::number<1, 1000>{});
    static constexpr auto load = load_balance(s, index);
    using losses = headmix::type_list<std::remove_cv_t<decltype(load)>>;
  };
};

}  // namespace custom

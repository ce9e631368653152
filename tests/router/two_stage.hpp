#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the tests of the two-stage router: its weights and losses by their formulas.

#include <algorithm>

#include "../test_program.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::test {

struct D : size<3> {};
struct x : input<tokens, D> {};

inline std::vector<double> softmax_of(view<double> x, Index row, view<double> W) {
  std::vector<double> p;
  double sum = 0;
  for (Index j = 0; j < W.cols; ++j) {
    double z = 0;
    for (Index c = 0; c < x.cols; ++c) z += x(row, c) * W(c, j);
    p.push_back(std::exp(z));
    sum += p.back();
  }
  for (double& e : p) e /= sum;
  return p;
}

template <class R>
using route = typename R::template route<x>;

/// Index, weights and losses of a router with these sizes, and its gradients.
template <class R, bool Paper, Extent... X>
void check_router(Index shared_heads, Index routed_heads, Index routed_top_k, size_value<X>... sizes) {
  using r = route<R>;
  using Y = type_of<decltype(r::gate)>;
  for (Index const rows : {0, 1, 7}) {
    typename headmix::detail::module_roots<Y, typename r::losses, type_list<type_of<decltype(r::index)>>>::type looked;
    TestProgram<decltype(looked), inference> p(at<tokens>(rows), sizes...);
    CAPTURE(shared_heads);
    CAPTURE(routed_top_k);
    CAPTURE(rows);
    auto const gate = p.forward();
    auto const index = p.program.get(r::index);
    REQUIRE(gate.cols == shared_heads + routed_top_k);
    REQUIRE(index.cols == shared_heads + routed_top_k);
    using leaves = typename decltype(p)::program_type::leaves;
    CHECK(detail::contains<leaves, typename r::W_h> == (shared_heads > 0 && routed_heads > 0));
    CHECK(detail::contains<leaves, typename r::W_s> == (shared_heads > 1));
    CHECK(detail::contains<leaves, typename r::W_r> == (routed_heads > 0));
    std::vector<double> mean(static_cast<std::size_t>(routed_heads)), share = mean;
    for (Index t = 0; t < rows; ++t) {
      double alpha[2] = {1, 1};
      if constexpr (detail::contains<leaves, typename r::W_h>) {
        auto const a = softmax_of(p.in(x{}), t, p.in(typename r::W_h{}));
        for (std::size_t g = 0; g < 2; ++g) alpha[g] = Paper ? a[g] : 2 * a[g];
      }
      std::vector<double> s(static_cast<std::size_t>(shared_heads), 1);
      if constexpr (detail::contains<leaves, typename r::W_s>) {
        s = softmax_of(p.in(x{}), t, p.in(typename r::W_s{}));
        if (!Paper) {
          for (double& e : s) e *= static_cast<double>(shared_heads);
        }
      }
      for (Index i = 0; i < shared_heads; ++i) {
        CHECK(index(t, i) == i);
        CHECK(close(gate(t, i), alpha[0] * s[static_cast<std::size_t>(i)]));
      }
      if constexpr (detail::contains<leaves, typename r::W_r>) {
        auto const q = softmax_of(p.in(x{}), t, p.in(typename r::W_r{}));
        double sum = 0;
        for (Index k = 0; k < routed_top_k; ++k)
          sum += q[static_cast<std::size_t>(index(t, shared_heads + k) - shared_heads)];
        for (Index k = 0; k < routed_top_k; ++k) {
          auto const i = static_cast<std::size_t>(index(t, shared_heads + k) - shared_heads);
          // Best first.
          CHECK(std::count_if(q.begin(), q.end(), [&](double other) { return other > q[i]; }) == k);
          CHECK(close(gate(t, shared_heads + k),
                      alpha[1] * (Paper ? q[i] : static_cast<double>(routed_top_k) * q[i] / sum)));
          share[i] += 1.0 / static_cast<double>(rows);
        }
        for (std::size_t i = 0; i < q.size(); ++i) mean[i] += q[i] / static_cast<double>(rows);
      }
    }
    double balance = 0;
    for (std::size_t i = 0; i < mean.size(); ++i) balance += mean[i] * share[i];
    if constexpr (r::losses::size == 2) {
      CHECK(close(p.program.get(nth<0, typename r::losses>{})(0, 0), static_cast<double>(routed_heads) * balance));
      CHECK(close(p.program.get(nth<1, typename r::losses>{})(0, 0), balance));
    }
    // A router with one shared head and nothing else has no parameters.
    if constexpr (Y::grad) {
      auto const check = gradcheck(Y{}, at<tokens>(rows), sizes...);
      CAPTURE(check.text);
      CHECK(check.ok());
    }
  }
}

}  // namespace headmix::test

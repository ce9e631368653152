#pragma once
// SPDX-License-Identifier: MIT
// A case of mixture-of-head attention.

#include <limits>

#include "case.hpp"
#include "scores.hpp"

namespace replay {

/// A case, as read. Router tensors that the case must not have are absent.
template <class T>
struct MohCase {
  Case& c;
  Shape shape = c.extents("x", 3, "B, T, d");
  Index B = shape[0], L = shape[1], d = shape[2];

  static constexpr Index most = (std::numeric_limits<headmix::Int>::max)();
  Index heads = c.count("heads", 1, most), shared = c.count("shared_heads", 0, heads), routed = heads - shared;
  Index top_k = c.count("routed_top_k", routed == 0 ? 0 : 1, routed);
  Index head_dim = c.count("head_dim", 1, most), kv_heads = c.count("kv_heads", 1, heads, heads);
  Index width = heads * head_dim, kv_width = kv_heads * head_dim;
  bool by_norm = c.choice("router", {"two_stage", "query_norm"}) == "query_norm";
  std::string_view scale = c.choice("scale", {"unit_mean", "paper"});
  std::string_view mask = c.choice("mask", {"none", "causal"});
  double soft_cap = soft_cap_of(c);
  bool with_alibi = alibi_of(c);
  double theta = c.number("rope_theta", 0), d_load_balance = c.number("dloss.load_balance", 0);
  bool fits = check();

  Tensor<T> x{c, "x", shape};
  Tensor<T> W_q{c, "query.weight", {d, width}};
  Tensor<T> W_k{c, "key.weight", {d, kv_width}};
  Tensor<T> W_v{c, "value.weight", {d, kv_width}};
  Tensor<T> W_o{c, "output.weight", {width, d}};
  Tensor<T> b_q = Tensor<T>::optional(c, "query.bias", {width});
  Tensor<T> b_k = Tensor<T>::optional(c, "key.bias", {kv_width});
  Tensor<T> b_v = Tensor<T>::optional(c, "value.bias", {kv_width});
  Tensor<T> b_o = Tensor<T>::optional(c, "output.bias", {d});
  Tensor<T> W_s = of_router("router.shared", shared > 1, shared);
  Tensor<T> W_r = of_router("router.routed", routed > 0, routed);
  Tensor<T> W_h = of_router("router.group", shared > 0 && routed > 0, 2);
  std::vector<T> dy = c.take<T>("dy", shape);

 private:
  Tensor<T> of_router(char const* name, bool needed, Index cols) {
    return needed && !by_norm ? Tensor<T>(c, name, {d, cols}) : Tensor<T>::absent(name, {d, cols});
  }
  /// Fails for contradictory options.
  [[nodiscard]] bool check() const {
    using headmix::message;
    if (heads % kv_heads != 0) c.reject("kv_heads", message("a divisor of heads, ", heads), message(kv_heads));
    if (by_norm && scale == "paper") c.reject("scale", "unit_mean with query_norm", "\"paper\"");
    if (by_norm && routed < 2) {
      c.reject("shared_heads", "two routed heads or more with query_norm", message(shared, " of ", heads, " heads"));
    }
    if (theta < 0) c.reject("rope_theta", "a number from 0", message(theta));
    if (theta > 0 && head_dim % 2 != 0) c.reject("head_dim", "an even number with rope_theta", message(head_dim));
    return true;
  }
};

// One function for each router, compiled in separate files.
template <class T, class On>
void replay_two_stage(MohCase<T>& m, Result& result);
template <class T, class On>
void replay_query_norm(MohCase<T>& m, Result& result);

template <class T, class On>
void replay_moh(Case& c, Result& result) {
  MohCase<T> m{c};
  c.finish();
  m.by_norm ? replay_query_norm<T, On>(m, result) : replay_two_stage<T, On>(m, result);
}

}  // namespace replay

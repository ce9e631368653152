#pragma once
// SPDX-License-Identifier: MIT
// Replays a multi-head mixture of experts. Options that change no finite number are always on: an absent bias or shared
// expert is zero, an absent head or merge layer the identity, and without a limit an expert may take every row. A
// constant selects the gate.

#include <algorithm>
#include <limits>

#include "headmix/layer/mh_moe.hpp"
#include "transfer.hpp"

namespace replay {

/// The gate of the case.
struct gate_of_case : gating::policy {
  /// 1 for `renormalized`, 0 for `raw`.
  struct is_renormalized : constant<size<1>> {};
  template <Expr P>
  static constexpr auto weights(P p) {
    return p / (is_renormalized{} * row_sum(p) + (number<1>{} - is_renormalized{}));
  }
};

/// A case, as read.
template <class T>
struct MhMoeCase {
  Case& c;
  Shape shape = c.extents("x", 2, "N, d");
  Index N = shape[0], d = shape[1];

  static constexpr Index most = (std::numeric_limits<Int>::max)();
  Index split = divisor_of_width(), width = d / split, rows = N * split;
  Index experts = c.count("experts", 1, most), top_k = c.count("top_k", 1, experts);
  bool gated = c.choice("activation", {"swiglu", "relu"}) == "swiglu";
  bool renormalized = c.choice("gate", {"raw", "renormalized"}) == "renormalized";
  Index limit = rows_of_an_expert();
  bool ternary = c.choice("weights", {"real", "ternary"}) == "ternary";
  double d_load_balance = c.number("dloss.load_balance", 0);

  Tensor<T> x{c, "x", shape};
  Tensor<T> W_head = matrix("head.weight"), b_head = bias("head.bias", W_head);
  Tensor<T> W_merge = matrix("merge.weight"), b_merge = bias("merge.bias", W_merge);
  Tensor<T> W_g{c, "router.weight", {width, experts}};
  Index hidden = c.extents("experts.up", 3, "E, d/split, m")[2];
  Tensor<T> W_up{c, "experts.up", {experts, width, hidden}};
  Tensor<T> W_gate = take_if(gated, "experts.gate", {experts, width, hidden});
  Tensor<T> W_down{c, "experts.down", {experts, hidden, width}};
  bool shares = c.has("shared.up") || c.has("shared.down") || (gated && c.has("shared.gate"));
  Index shared_hidden = shares ? c.extents("shared.up", 2, "d, ms")[1] : 1;
  Tensor<T> W_up_s = take_if(shares, "shared.up", {d, shared_hidden});
  Tensor<T> W_gate_s = take_if(shares && gated, "shared.gate", {d, shared_hidden});
  Tensor<T> W_down_s = take_if(shares, "shared.down", {shared_hidden, d});
  std::vector<T> dy = c.take<T>("dy", shape);

 private:
  [[nodiscard]] Index divisor_of_width() const {
    Index const n = c.count("split", 1, most);
    if (d % n != 0) c.reject("split", message("a divisor of d, ", d), message(n));
    return n;
  }
  [[nodiscard]] Index rows_of_an_expert() const {
    double const factor = c.number("capacity", 0);
    if (factor < 0) c.reject("capacity", "a number from 0", message(factor));
    // From a factor of E on, an expert takes all rows.
    return factor == 0 ? rows : capacity_rows((std::min)(factor, static_cast<double>(experts)), rows, experts, top_k);
  }
  /// The identity if the case has no such matrix.
  Tensor<T> matrix(char const* name) {
    auto w = Tensor<T>::optional(c, name, {d, d});
    if (!w.present) {
      for (Index i = 0; i < d; ++i) w.value[static_cast<std::size_t>(i * (d + 1))] = T(1);
    }
    return w;
  }
  Tensor<T> bias(char const* name, Tensor<T> const& of) {
    if (!of.present && c.has(name)) c.reject(name, message("a tensor ", shown(of.name), " with it"), "none");
    return Tensor<T>::optional(c, name, {d});
  }
  Tensor<T> take_if(bool needed, char const* name, Shape s) {
    return needed ? Tensor<T>(c, name, s) : Tensor<T>::absent(name, s);
  }
};

template <class On, class Activation, class Weights, class T>
void run(MhMoeCase<T>& m, Result& result) {
  using R = SoftmaxTopK<dynamic, dynamic, gate_of_case, loss::first_choice_balance>;
  using Network = FeedForward<dynamic, Activation, Weights>;
  using L = MhMoe<dynamic, dynamic, R, Network, head_bias, merge_bias, shared_expert<Network>, capacity<dynamic>>;
  using X = typename L::network;
  using S = typename shared_expert<Network>::template network<typename L::model_dim>;
  LayerOnBackend<L, typename On::template backend<T>> layer(
      at<typename L::model_dim>(m.d), at<typename L::split>(m.split), at<typename L::experts>(m.experts),
      at<typename L::top_k>(m.top_k), at<typename L::expert_capacity>(m.limit), at<typename X::hidden_dim>(m.hidden),
      at<typename S::hidden_dim>(m.shared_hidden));
  auto& program = layer.module();
  auto const each_parameter = [&](auto f) {
    f(typename L::W_head{}, m.W_head);
    f(typename L::b_head{}, m.b_head);
    f(typename L::W_merge{}, m.W_merge);
    f(typename L::b_merge{}, m.b_merge);
    f(typename L::r::W_g{}, m.W_g);
    f(typename X::W_up{}, m.W_up);
    f(typename X::W_down{}, m.W_down);
    f(typename S::W_up_s{}, m.W_up_s);
    f(typename S::W_down_s{}, m.W_down_s);
    if constexpr (Activation::gated) {
      f(typename X::W_gate{}, m.W_gate);
      f(typename S::W_gate_s{}, m.W_gate_s);
    }
  };
  each_parameter([&](auto p, Tensor<T>& t) { layer.set(p, t); });
  program.program().bind(gate_of_case::is_renormalized{}, layer.put({m.renormalized ? T(1) : T(0)}, 1));

  view<T const> const y = program.forward(layer.put(m.x.value, m.d));
  program.backward(layer.put(m.dy, m.d), {m.d_load_balance});
  result.add("y", m.shape, layer.get(y));
  layer.give_gradient(program.input_gradient(), m.x, result);
  each_parameter([&](auto p, Tensor<T>& t) { layer.give_gradient(p, t, result); });
  result.add("loss.load_balance", {1}, std::vector<T>{static_cast<T>(program.template loss<0>())});
  auto const chosen = layer.get(program.observed());
  result.add("selected", {m.rows, m.top_k}, std::vector<std::int64_t>(chosen.begin(), chosen.end()));
}

template <class On, class Activation, class T>
void choose_weights(MhMoeCase<T>& m, Result& result) {
  m.ternary ? run<On, Activation, weights::ternary>(m, result) : run<On, Activation, weights::real>(m, result);
}

template <class T, class On>
void replay_mh_moe(Case& c, Result& result) {
  MhMoeCase<T> m{c};
  c.finish();
  m.gated ? choose_weights<On, activation::swiglu>(m, result) : choose_weights<On, activation::relu>(m, result);
}

}  // namespace replay

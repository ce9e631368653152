#pragma once
// SPDX-License-Identifier: MIT
// Replays mixture-of-head attention. Options that change no number are always on: an absent bias is zero, and the
// softmax of one shared head is 1 for any weights. A constant selects the scale.

#include <tuple>

#include "headmix/layer/moh.hpp"
#include "moh_case.hpp"
#include "transfer.hpp"

namespace replay {

/// The scale of the case.
struct scale_of_case : scaling::policy {
  /// 1 for `paper`, 0 for `unit_mean`.
  struct is_paper : constant<size<1>> {};
  template <Expr A, Expr B>
  static constexpr auto choose(A paper, B unit_mean) {
    return is_paper{} * paper + (number<1>{} - is_paper{}) * unit_mean;
  }
  template <Expr A>
  static constexpr auto groups(A alpha) {
    return choose(scaling::paper::groups(alpha), scaling::unit_mean::groups(alpha));
  }
  template <Expr S>
  static constexpr auto shared(S s) {
    return choose(scaling::paper::shared(s), scaling::unit_mean::shared(s));
  }
  template <Expr P>
  static constexpr auto routed(P p) {
    return choose(scaling::paper::routed(p), scaling::unit_mean::routed(p));
  }
};

/// The value of a size of a layer; nothing for a static one.
template <Extent X>
auto if_dynamic(Index n) {
  if constexpr (X::value == dynamic) {
    return std::tuple(at<X>(n));
  } else {
    return std::tuple();
  }
}

template <class On, class R, class... Options, class T>
void run(MohCase<T>& m, Result& result) {
  using L = Moh<dynamic, dynamic, R, query_bias, key_bias, value_bias, output_bias, kv_heads<dynamic>, alibi,
                headmix::soft_cap<dynamic>, Options...>;
  using Layer = LayerOnBackend<L, typename On::template backend<T>>;
  constexpr bool routes = R::routed_heads::value != 0, two_stage = !ReadsQueries<R>;
  auto const sizes =
      std::tuple_cat(std::tuple(at<typename L::model_dim>(m.d), at<typename L::head_dim>(m.head_dim),
                                at<typename L::kv_heads>(m.kv_heads)),
                     if_dynamic<typename R::shared_heads>(m.shared), if_dynamic<typename R::routed_heads>(m.routed),
                     if_dynamic<typename R::routed_top_k>(m.top_k));
  Layer layer = std::apply([](auto... size) { return Layer(size...); }, sizes);
  auto& program = layer.module();
  auto const each_parameter = [&](auto f) {
    f(typename L::W_q{}, m.W_q);
    f(typename L::W_k{}, m.W_k);
    f(typename L::W_v{}, m.W_v);
    f(typename L::W_o{}, m.W_o);
    f(typename L::b_q{}, m.b_q);
    f(typename L::b_k{}, m.b_k);
    f(typename L::b_v{}, m.b_v);
    f(typename L::b_o{}, m.b_o);
    if constexpr (two_stage && R::shared_heads::value != 0) f(typename L::r::W_s{}, m.W_s);
    if constexpr (two_stage && routes) f(typename L::r::W_r{}, m.W_r);
    if constexpr (two_stage && routes && R::shared_heads::value != 0) f(typename L::r::W_h{}, m.W_h);
  };
  each_parameter([&](auto p, Tensor<T>& t) { layer.set(p, t); });
  bind_soft_cap(layer, m.soft_cap);
  bind_alibi<typename L::heads>(layer, m.with_alibi, m.heads);
  if constexpr (two_stage) {
    program.program().bind(scale_of_case::is_paper{}, layer.put({m.scale == "paper" ? T(1) : T(0)}, 1));
  }
  if constexpr ((std::is_same_v<rope<dynamic>, Options> || ...)) {
    program.program().bind(rope<dynamic>::theta{}, layer.put({static_cast<T>(m.theta)}, 1));
  }

  view<T const> const y = program.forward(layer.put(m.x.value, m.d), uniform(m.B, m.L));
  view<T const> const dy = layer.put(m.dy, m.d);
  double load_balance = 0;
  std::vector<std::int64_t> selected;
  if constexpr (routes) {
    program.backward(dy, {m.d_load_balance});
    load_balance = program.template loss<0>();
    auto const chosen = layer.get(program.observed());
    selected.assign(chosen.begin(), chosen.end());
  } else {
    program.backward(dy);
  }

  result.add("y", m.shape, layer.get(y));
  layer.give_gradient(program.input_gradient(), m.x, result);
  each_parameter([&](auto p, Tensor<T>& t) { layer.give_gradient(p, t, result); });
  result.add("loss.load_balance", {1}, std::vector<T>{static_cast<T>(load_balance)});
  result.add("selected", {m.B * m.L, m.top_k}, selected);
}

template <class On, class R, class T>
void choose_scores(MohCase<T>& m, Result& result) {
  bool const is_causal = m.mask == "causal";
  if (m.theta == 0) {
    is_causal ? run<On, R, causal>(m, result) : run<On, R>(m, result);
  } else {
    is_causal ? run<On, R, causal, rope<dynamic>>(m, result) : run<On, R, rope<dynamic>>(m, result);
  }
}

template <class T, class On>
void replay_two_stage(MohCase<T>& m, Result& result) {
  if (m.routed == 0) {
    choose_scores<On, TwoStage<dynamic, 0, 0, scale_of_case>>(m, result);
  } else if (m.shared == 0) {
    choose_scores<On, TwoStage<0, dynamic, dynamic, scale_of_case>>(m, result);
  } else {
    choose_scores<On, TwoStage<dynamic, dynamic, dynamic, scale_of_case>>(m, result);
  }
}

template <class T, class On>
void replay_query_norm(MohCase<T>& m, Result& result) {
  if (m.shared == 0) {
    choose_scores<On, QueryNorm<0, dynamic, dynamic>>(m, result);
  } else {
    choose_scores<On, QueryNorm<dynamic, dynamic, dynamic>>(m, result);
  }
}

}  // namespace replay

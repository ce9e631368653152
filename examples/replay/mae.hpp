#pragma once
// SPDX-License-Identifier: MIT
// Replays a mixture of attentive experts. An absent bias is zero, without a mask all rows are valid, and the mean over
// a prefix is a mean over a sufficiently long window.

#include <limits>

#include "headmix/layer/mae.hpp"
#include "scores.hpp"
#include "transfer.hpp"

namespace replay {

/// A case, as read.
template <class T>
struct MaeCase {
  Case& c;
  Shape shape = c.extents("x", 3, "B, T, d");
  Index B = shape[0], L = shape[1], d = shape[2];

  static constexpr Index most = (std::numeric_limits<Int>::max)();
  Index heads = c.count("heads", 2, most), head_dim = c.count("head_dim", 1, most), width = heads * head_dim;
  Index left_out = c.count("dropped", 1, heads - 1, 1), experts = binomial(heads, left_out);
  bool one_expert = c.choice("mode", {"soft", "expert"}) == "expert";
  Index window = c.pool("pool");  ///< positions; 0 for the whole sequence
  std::string_view mask = c.choice("mask", {"none", "causal"});
  double soft_cap = soft_cap_of(c);
  bool with_alibi = alibi_of(c);

  Tensor<T> x{c, "x", shape};
  std::vector<std::uint8_t> x_valid = c.take_mask("x.valid", {B, L});
  Tensor<T> W_q{c, "query.weight", {d, width}};
  Tensor<T> W_k{c, "key.weight", {d, width}};
  Tensor<T> W_v{c, "value.weight", {d, width}};
  Tensor<T> W_o{c, "output.weight", {width, d}};
  Tensor<T> b_o = Tensor<T>::optional(c, "output.bias", {d});
  Index hidden = c.extents("gate.hidden.weight", 2, "d, m")[1];
  Tensor<T> W_1{c, "gate.hidden.weight", {d, hidden}};
  Tensor<T> b_1{c, "gate.hidden.bias", {hidden}};
  Tensor<T> W_2{c, "gate.output.weight", {hidden, experts}};
  Tensor<T> b_2{c, "gate.output.bias", {experts}};
  std::vector<Int> expert = one_expert ? c.take_choices("expert", B, experts) : std::vector<Int>{};
  std::vector<T> dy = c.take<T>("dy", shape);

  /// The heads of each expert, concatenated.
  [[nodiscard]] std::vector<Int> heads_of_experts() const {
    std::vector<Int> all;
    for (Index e = 0; e < experts; ++e) {
      for (Index j = 0; j < heads - left_out; ++j) {
        all.push_back(static_cast<Int>(outside_of_subset(heads, left_out, e, j)));
      }
    }
    return all;
  }
};

/// Runs Layer, which is L or one of its inner layers.
template <class L, class Layer, class On, class T>
void run(MaeCase<T>& m, Result& result) {
  using Backend = typename On::template backend<T>;
  constexpr bool mixes = std::is_same_v<L, Layer>;
  LayerOnBackend<Layer, Backend> layer = [&] {
    auto const at_case = [&](auto... further) {
      return LayerOnBackend<Layer, Backend>(
          at<typename L::model_dim>(m.d), at<typename L::heads>(m.heads), at<typename L::head_dim>(m.head_dim),
          at<typename L::expert_heads>(m.heads - m.left_out), at<typename L::experts>(m.experts), further...);
    };
    if constexpr (mixes && !L::Pool::per_sequence) {
      return at_case(at<typename L::Gate::hidden_dim>(m.hidden), at<typename L::Pool::Positions>(m.window));
    } else if constexpr (mixes) {
      return at_case(at<typename L::Gate::hidden_dim>(m.hidden));
    } else {
      return at_case();
    }
  }();
  auto& program = layer.module();
  auto const each_parameter = [&](auto f) {
    f(typename L::W_q{}, m.W_q);
    f(typename L::W_k{}, m.W_k);
    f(typename L::W_v{}, m.W_v);
    f(typename L::W_o{}, m.W_o);
    f(typename L::b_o{}, m.b_o);
    if constexpr (mixes) {
      f(typename L::r::W_1{}, m.W_1);
      f(typename L::r::b_1{}, m.b_1);
      f(typename L::r::W_2{}, m.W_2);
      f(typename L::r::b_2{}, m.b_2);
    }
  };
  each_parameter([&](auto p, Tensor<T>& t) { layer.set(p, t); });
  bind_soft_cap(layer, m.soft_cap);
  bind_alibi<typename L::heads>(layer, m.with_alibi, m.heads);
  program.program().bind(typename L::heads_of_experts{}, layer.put(m.heads_of_experts(), m.heads - m.left_out));
  if constexpr (!mixes) program.program().bind(typename Layer::of::expert{}, layer.put(m.expert, 1));

  Padding const real(view<std::uint8_t const>(m.x_valid.data(), m.B, m.L));
  view<T const> const y = program.forward(layer.put(m.x.value, m.d), real);
  program.backward(layer.put(m.dy, m.d));
  result.add("y", m.shape, layer.get(y));
  layer.give_gradient(program.input_gradient(), m.x, result);
  each_parameter([&](auto p, Tensor<T>& t) { layer.give_gradient(p, t, result); });
  if constexpr (!mixes) {
    for (Tensor<T>* const t : {&m.W_1, &m.b_1, &m.W_2, &m.b_2}) {
      t->gradient.assign(t->value.size(), T(0));
      t->give_back(result);
    }
  }
}

template <class On, class Mask, class T>
void choose_pool(MaeCase<T>& m, Result& result) {
  using All = Mae<dynamic, dynamic, dynamic, Mask, pool::all, left_out_heads<dynamic>, gate_dim<dynamic>, output_bias,
                  padded, alibi, headmix::soft_cap<dynamic>>;
  using Window = Mae<dynamic, dynamic, dynamic, Mask, pool::window<dynamic>, left_out_heads<dynamic>, gate_dim<dynamic>,
                     output_bias, padded, alibi, headmix::soft_cap<dynamic>>;
  if (m.one_expert) {
    run<All, typename All::template expert<choice::given>, On>(m, result);
  } else if (m.window == 0) {
    run<All, All, On>(m, result);
  } else {
    run<Window, Window, On>(m, result);
  }
}

template <class T, class On>
void replay_mae(Case& c, Result& result) {
  MaeCase<T> m{c};
  c.finish();
  m.mask == "causal" ? choose_pool<On, causal>(m, result) : choose_pool<On, full>(m, result);
}

}  // namespace replay

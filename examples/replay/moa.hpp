#pragma once
// SPDX-License-Identifier: MIT
// Replays mixture of attention heads. A case selects at run time what a layer fixes at compile time, so options that
// change no number are always on: an absent bias is zero, and without a mask all rows are valid. Constants select the
// gate.

#include <algorithm>

#include "headmix/layer/moa.hpp"
#include "scores.hpp"
#include "transfer.hpp"

namespace replay {

/// The gate of the case.
struct gate_of_case : gating::policy {
  /// 1 for the gate of the case, else 0.
  struct is_raw : constant<size<1>> {};
  struct is_renormalized : constant<size<1>> {};
  struct is_detached : constant<size<1>> {};
  template <Expr P>
  static constexpr auto weights(P p) {
    return is_raw{} * gating::raw::weights(p) + is_renormalized{} * gating::renormalized::weights(p) +
           is_detached{} * gating::detached::weights(p);
  }
};

/// A case of a mixture of attention heads, as read.
template <class T>
struct MoaCase {
  Case& c;
  Shape shape = c.extents("x", 3, "B, T, d");
  Index B = shape[0], L = shape[1], d = shape[2];
  bool cross = c.has("memory");
  Shape memory_shape = cross ? c.extents("memory", 3, "B, S, dm") : shape;
  Index S = memory_shape[1], dm = memory_shape[2];

  static constexpr Index most = (std::numeric_limits<Int>::max)();
  Index experts = c.count("experts", 1, most), top_k = c.count("top_k", 1, experts);
  Index head_dim = c.count("head_dim", 1, most), kv_heads = c.count("kv_heads", 1, most, 1);
  Index width = kv_heads * head_dim;
  std::string_view gate = c.choice("gate", {"detached", "raw", "renormalized"});
  std::string_view mask = c.choice("mask", {"none", "causal"});
  double soft_cap = soft_cap_of(c);
  bool z_with_padding = c.choice("z_padding", {"exclude", "include"}) == "include";
  double d_load_balance = c.number("dloss.load_balance", 0), d_z = c.number("dloss.z", 0);

  Tensor<T> x{c, "x", shape};
  std::vector<std::uint8_t> x_valid = c.take_mask("x.valid", {B, L});
  Tensor<T> memory = cross ? Tensor<T>(c, "memory", {B, S, dm}) : x;
  std::vector<std::uint8_t> memory_valid = cross ? c.take_mask("memory.valid", {B, S}) : x_valid;
  Tensor<T> W_g{c, "router.weight", {d, experts}};
  Tensor<T> W_q{c, "query.weight", {experts, d, width}};
  Tensor<T> W_k{c, "key.weight", {dm, width}};
  Tensor<T> W_v{c, "value.weight", {dm, width}};
  Tensor<T> W_o{c, "output.weight", {experts, width, d}};
  Tensor<T> b_q = Tensor<T>::optional(c, "query.bias", {experts, width});
  Tensor<T> b_k = Tensor<T>::optional(c, "key.bias", {width});
  Tensor<T> b_v = Tensor<T>::optional(c, "value.bias", {width});
  Tensor<T> b_o = Tensor<T>::optional(c, "output.bias", {experts, d});
  std::vector<T> dy = c.take<T>("dy", shape);
};

template <class On, class... Options, class T>
void run(MoaCase<T>& m, Result& result) {
  using R = SoftmaxTopK<dynamic, dynamic, gate_of_case, loss::load_balance, loss::z, loss::z_with_padding>;
  using L = Moa<dynamic, dynamic, R, query_bias, key_bias, value_bias, output_bias, kv_heads<dynamic>, padded,
                headmix::soft_cap<dynamic>, Options...>;
  LayerOnBackend<L, typename On::template backend<T>> layer(
      at<typename L::model_dim>(m.d), at<typename L::context_dim>(m.dm), at<typename L::head_dim>(m.head_dim),
      at<typename L::kv_heads>(m.kv_heads), at<typename L::experts>(m.experts), at<typename L::top_k>(m.top_k));
  auto& program = layer.module();
  auto const each_parameter = [&](auto f) {
    f(typename L::r::W_g{}, m.W_g);
    f(typename L::W_q{}, m.W_q);
    f(typename L::W_k{}, m.W_k);
    f(typename L::W_v{}, m.W_v);
    f(typename L::W_o{}, m.W_o);
    f(typename L::b_q{}, m.b_q);
    f(typename L::b_k{}, m.b_k);
    f(typename L::b_v{}, m.b_v);
    f(typename L::b_o{}, m.b_o);
  };
  each_parameter([&](auto p, Tensor<T>& t) { layer.set(p, t); });
  bind_soft_cap(layer, m.soft_cap);
  auto const bind_gate = [&](auto is_named, std::string_view name) {
    program.program().bind(is_named, layer.put({m.gate == name ? T(1) : T(0)}, 1));
  };
  bind_gate(gate_of_case::is_raw{}, "raw");
  bind_gate(gate_of_case::is_renormalized{}, "renormalized");
  bind_gate(gate_of_case::is_detached{}, "detached");

  Index const rows = m.B * m.L;
  Padding const real(view<std::uint8_t const>(m.x_valid.data(), m.B, m.L));
  Padding const real_memory(view<std::uint8_t const>(m.memory_valid.data(), m.B, m.S));
  view<T const> const x = layer.put(m.x.value, m.d);
  view<T const> y;
  if constexpr (L::cross) {
    y = program.forward(x, real, layer.put(m.memory.value, m.dm), real_memory);
  } else {
    y = program.forward(x, real);
  }
  double const d_z = m.d_z;
  program.backward(layer.put(m.dy, m.d), {m.d_load_balance, m.z_with_padding ? 0 : d_z, m.z_with_padding ? d_z : 0});

  result.add("y", m.shape, layer.get(y));
  layer.give_gradient(program.input_gradient(), m.x, result);
  if constexpr (L::cross) layer.give_gradient(program.context_gradient(), m.memory, result);
  each_parameter([&](auto p, Tensor<T>& t) { layer.give_gradient(p, t, result); });

  double const z = m.z_with_padding ? program.template loss<2>() : program.template loss<1>();
  result.add("loss.load_balance", {1}, std::vector<T>{static_cast<T>(program.template loss<0>())});
  result.add("loss.z", {1}, std::vector<T>{static_cast<T>(z)});
  std::vector<std::int64_t> selected(static_cast<std::size_t>(rows * m.top_k), -1);
  auto const chosen = layer.get(program.observed());
  auto const k = static_cast<std::size_t>(m.top_k);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    auto const row = static_cast<std::size_t>(real.valid_rows()(static_cast<Index>(i / k), 0));
    selected[row * k + i % k] = chosen[i];
  }
  result.add("selected", {rows, m.top_k}, selected);
}

template <class T, class On>
void replay_moa(Case& c, Result& result) {
  MoaCase<T> m{c};
  c.finish();
  if (m.cross && m.mask == "causal") c.reject("mask", "none where keys come from memory", "\"causal\"");
  if (m.cross) {
    run<On, context_dim<dynamic>>(m, result);
  } else if (m.mask == "causal") {
    run<On, causal>(m, result);
  } else {
    run<On>(m, result);
  }
}

}  // namespace replay

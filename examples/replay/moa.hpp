#pragma once
// SPDX-License-Identifier: MIT
// Replays mixture of attention heads. The case decides at run time what a layer decides at compile time, so the options
// that change no number are always on: an absent bias is zero, and without a mask every row is real.

#include <algorithm>

#include "case.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/tape/module.hpp"

namespace replay {

using namespace headmix;

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

template <class Gating, class... Options, class T>
void run(MoaCase<T>& m, Result& result) {
  using R = SoftmaxTopK<dynamic, dynamic, Gating, loss::load_balance, loss::z, loss::z_with_padding>;
  using L =
      Moa<dynamic, dynamic, R, query_bias, key_bias, value_bias, output_bias, kv_heads<dynamic>, padded, Options...>;
  Module<L, Cpu<T>> module(0, {}, at<typename L::D>(m.d), at<typename L::M>(m.dm), at<typename L::H>(m.head_dim),
                           at<typename L::P>(m.kv_heads), at<typename L::E>(m.experts), at<typename L::K>(m.top_k));

  auto const each_parameter = [&](auto f) {
    f(module.template get<typename L::r::W_g>(), m.W_g);
    f(module.template get<typename L::W_q>(), m.W_q);
    f(module.template get<typename L::W_k>(), m.W_k);
    f(module.template get<typename L::W_v>(), m.W_v);
    f(module.template get<typename L::W_o>(), m.W_o);
    f(module.template get<typename L::b_q>(), m.b_q);
    f(module.template get<typename L::b_k>(), m.b_k);
    f(module.template get<typename L::b_v>(), m.b_v);
    f(module.template get<typename L::b_o>(), m.b_o);
  };
  each_parameter([](auto& p, Tensor<T>& t) { std::copy(t.value.begin(), t.value.end(), p.value.data); });

  Index const rows = m.B * m.L;
  Padding const real(view<std::uint8_t const>(m.x_valid.data(), m.B, m.L));
  Padding const real_memory(view<std::uint8_t const>(m.memory_valid.data(), m.B, m.S));
  view<T const> const x(m.x.value.data(), rows, m.d), memory(m.memory.value.data(), m.B * m.S, m.dm);
  view<T const> y;
  if constexpr (L::cross) {
    y = module.forward(x, real, memory, real_memory);
  } else {
    y = module.forward(x, real);
  }
  double const d_z = m.d_z;
  module.backward({m.dy.data(), rows, m.d}, {m.d_load_balance, m.z_with_padding ? 0 : d_z, m.z_with_padding ? d_z : 0});

  result.add("y", m.shape, std::vector<T>(y.data, y.data + y.size()));
  auto const give_gradient = [&](Tensor<T>& t, view<T const> g) {
    t.gradient.assign(g.data, g.data + g.size());
    t.give_back(result);
  };
  give_gradient(m.x, module.input_gradient());
  if constexpr (L::cross) give_gradient(m.memory, module.memory_gradient());
  each_parameter([&](auto& p, Tensor<T>& t) { give_gradient(t, p.gradient); });

  double const z = m.z_with_padding ? module.template loss<2>() : module.template loss<1>();
  result.add("loss.load_balance", {1}, std::vector<T>{static_cast<T>(module.template loss<0>())});
  result.add("loss.z", {1}, std::vector<T>{static_cast<T>(z)});
  std::vector<std::int64_t> selected(static_cast<std::size_t>(rows * m.top_k), -1);
  auto const chosen = module.observed();
  for (Index i = 0; i < chosen.rows; ++i) {
    Index const row = real.real_rows()(i, 0);
    for (Index j = 0; j < m.top_k; ++j) selected[static_cast<std::size_t>(row * m.top_k + j)] = chosen(i, j);
  }
  result.add("selected", {rows, m.top_k}, selected);
}

template <class Gating, class T>
void choose_keys(MoaCase<T>& m, Result& result) {
  if (m.cross) {
    run<Gating, memory_width<dynamic>>(m, result);
  } else if (m.mask == "causal") {
    run<Gating, causal>(m, result);
  } else {
    run<Gating>(m, result);
  }
}

template <class T>
void replay_moa(Case& c, Result& result) {
  MoaCase<T> m{c};
  c.finish();
  if (m.cross && m.mask == "causal") c.reject("mask", "none where keys come from memory", "\"causal\"");
  if (m.gate == "raw") {
    choose_keys<gating::raw>(m, result);
  } else if (m.gate == "renormalized") {
    choose_keys<gating::renormalized>(m, result);
  } else {
    choose_keys<gating::detached>(m, result);
  }
}

}  // namespace replay

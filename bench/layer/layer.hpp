#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the rows of layers.

#include <set>

#include "../common.hpp"
#include "headmix/program/module.hpp"

namespace bench {

template <class Layer, class Backend, class Mode = headmix::training>
using Module = headmix::Module<Layer, Backend, Mode>;

/// Replaces a router's initial zeros, which would send every token to the same experts.
template <class P, class M>
void spread(M& module) {
  view<float> const w = module.template get<P>().value;
  Matrix<float> const start(w.rows, w.cols);
  std::copy_n(start.get().data, w.size(), w.data);
}

/// The result and all gradients of two modules of one layer, over two sequences of `length` tokens of width `width`.
template <class A, class B>
void check_equal_modules(std::string const& name, A& ours, B& plain, Index length, Index width,
                         std::initializer_list<double> loss_weights) {
  Matrix<float> const x(2 * length, width), dy(2 * length, width);
  view<float const> const y = ours.forward(x.get(), headmix::uniform(2, length));
  check_equal<float>(name, y, plain.forward(x.get(), headmix::uniform(2, length)), 1e-4);
  ours.backward(dy.get(), loss_weights);
  plain.backward(dy.get(), loss_weights);
  check_equal<float>(name + " dx", ours.input_gradient(), plain.input_gradient(), 1e-4);
  for (std::size_t i = 0; i < ours.parameters().size(); ++i) {
    check_equal<float>(name + " d" + std::string(ours.parameters()[i].name), ours.parameters()[i].gradient,
                       plain.parameters()[i].gradient, 1e-4);
  }
}

/// Times the passes of a module. `macs`: multiply-adds of one forward pass; the backward pass counts twice as many. The
/// counter `MiB` is the memory that the passes allocated.
template <class M>
void time_module(benchmark::State& state, M& module, Index threads, Index sequences, Index length, Index width,
                 bool backward, std::initializer_list<double> loss_weights, double macs) {
  Matrix<float> const x(sequences * length, width), dy(sequences * length, width);
  double const before = bytes_in_use();
  time_calls(state, [&] {
    module.forward(x.get(), headmix::uniform(sequences, length));
    if (backward) module.backward(dy.get(), loss_weights);
  });
  state.counters["MiB"] = (bytes_in_use() - before) / (1 << 20);
  count_flops(state, threads, (backward ? 6 : 2) * macs);
  count_tokens(state, sequences * length);
}

/// Times forward passes of a module for inference with prepared weights, compared with unprepared weights.
template <class M>
void time_prepared(benchmark::State& state, M& prepared, M& plain, Index threads, Index sequences, Index length,
                   Index width, double macs) {
  prepared.prepare_weights();
  Matrix<float> const x(sequences * length, width);
  time_calls(
      state, [&] { prepared.forward(x.get(), headmix::uniform(sequences, length)); },
      [&] { plain.forward(x.get(), headmix::uniform(sequences, length)); });
  count_flops(state, threads, 2 * macs);
  count_tokens(state, sequences * length);
}

/// Times a causal module, compared with one without a mask, which does `all_macs` multiply-adds. The goal is 0.92 of
/// its speed, by useful multiply-adds.
template <class Causal, class Full>
void time_causal(benchmark::State& state, Causal& causal, Full& full, Index threads, Index sequences, Index length,
                 Index width, bool backward, std::initializer_list<double> loss_weights, double macs, double all_macs) {
  Matrix<float> const x(sequences * length, width), dy(sequences * length, width);
  auto const pass = [&](auto& module) {
    module.forward(x.get(), headmix::uniform(sequences, length));
    if (backward) module.backward(dy.get(), loss_weights);
  };
  time_calls(
      state, [&] { pass(causal); }, [&] { pass(full); });
  state.counters["bound"] = macs / all_macs;
  at_most(state, "ratio", macs / all_macs / 0.92);
  count_flops(state, threads, (backward ? 6 : 2) * macs);
  count_tokens(state, sequences * length);
}

}  // namespace bench

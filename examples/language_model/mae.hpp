#pragma once
// SPDX-License-Identifier: MIT
// The attention of mae in the language model: programs over one set of parameters, for the mixture of all experts and
// for one expert of each sequence.

#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "headmix/decode/decoder.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/program/module.hpp"
#include "headmix/train/block_coordinate.hpp"
#include "options.hpp"

namespace lm {

using headmix::dynamic;
using headmix::Int;
using headmix::segments;
using headmix::view;

using Mae = headmix::Mae<dynamic, dynamic, dynamic, headmix::causal, headmix::pool::window<dynamic>,
                         headmix::left_out_heads<dynamic>, headmix::gate_dim<dynamic>>;

/// What a pass through mae computes; the other kinds of attention do not tell them apart.
enum class Pass {
  /// All experts; of a model without gates, with equal weights.
  mixture,
  /// One expert for each sequence and layer, drawn.
  drawn,
  /// One expert, the most probable one by the gate's mean over the sequence; without gates, a drawn one.
  most_probable,
};

inline auto mae_sizes(Options const& o) {
  Index const window = o.pool.window == 0 ? Index{(std::numeric_limits<Int>::max)()} : o.pool.window;
  return std::tuple(headmix::at<Mae::model_dim>(o.width), headmix::at<Mae::heads>(o.heads),
                    headmix::at<Mae::head_dim>(o.head_dim), headmix::at<Mae::expert_heads>(o.heads - o.dropped),
                    headmix::at<Mae::experts>(o.experts), headmix::at<Mae::Gate::hidden_dim>(o.gate_dim),
                    headmix::at<Mae::Pool::Positions>(window));
}

/// Has the functions of a Module that the model calls.
template <class Backend>
class MaeAttention {
 public:
  MaeAttention(Options const& o, Backend const& backend)
      : backend_(backend),
        owner_(make<Mae>(o, o.seed, backend)),
        heads_of_experts_(static_cast<std::size_t>(o.experts * (o.heads - o.dropped)) * sizeof(Int)) {
    std::vector<Int> heads;
    for (Index e = 0; e < o.experts; ++e) {
      for (Index j = 0; j < o.heads - o.dropped; ++j) {
        heads.push_back(static_cast<Int>(headmix::outside_of_subset(o.heads, o.dropped, e, j)));
      }
    }
    Int* const table = heads_of_experts_.template as<Int>();
    headmix::upload(backend_, table, heads.data(), heads.size());
    table_ = {table, o.experts, o.heads - o.dropped};
    auto const bind = [&](auto& program) { program.program().bind(Mae::heads_of_experts{}, table_); };
    if (o.training == Training::uniform) {
      mean_ = make<Mae::mean, headmix::inference>(o, headmix::share_parameters{}, *owner_);
      evenly_ = make<Evenly>(o, headmix::share_parameters{}, *owner_);
      bind(*evenly_);
    } else {
      by_gate_ = make<ByGate>(o, headmix::share_parameters{}, *owner_);
      bind(*by_gate_);
      bind(*owner_);
    }
  }

  /// @param randomness  what experts are drawn with
  void set_pass(Pass pass, headmix::randomness const& randomness) {
    pass_ = pass;
    if (evenly_) evenly_->set_randomness(randomness);
    // Without randomness a draw is the most probable expert.
    if (by_gate_) by_gate_->set_randomness(pass == Pass::drawn ? randomness : headmix::randomness::off());
  }
  view<float const> forward(view<float const> x, segments s) {
    if (pass_ == Pass::mixture && mean_) return mean_->forward(x, s);
    return in_use([&](auto& program) { return program.forward(x, s); });
  }
  void backward(view<float const> dy) {
    in_use([&](auto& program) { return program.backward(dy); });
  }
  [[nodiscard]] view<float const> input_gradient() {
    return in_use([](auto& program) { return program.input_gradient(); });
  }
  /// The expert of each sequence of the last pass, which was not of the mixture.
  [[nodiscard]] view<Int const> chosen() const { return evenly_ ? evenly_->observed() : by_gate_->observed(); }

  [[nodiscard]] Pass pass() const { return pass_; }
  [[nodiscard]] bool has_gate() const { return by_gate_ != nullptr; }
  /// The gate of every position in the last pass, which was of the mixture: [rows, experts].
  [[nodiscard]] auto gate() {
    auto const on_backend = owner_->program().get(Mae::g);
    std::vector<std::remove_const_t<std::remove_pointer_t<decltype(on_backend.data)>>> g(
        static_cast<std::size_t>(on_backend.size()));
    headmix::download(backend_, g.data(), on_backend.data, g.size());
    return g;
  }

  /// The weights, and the heads of each expert.
  [[nodiscard]] headmix::Module<Mae, Backend>& owner() { return *owner_; }
  [[nodiscard]] view<Int const> heads_of_experts() const { return table_; }

  void zero_gradients() { owner_->zero_gradients(); }
  [[nodiscard]] auto const& parameters() const { return owner_->parameters(); }
  [[nodiscard]] std::vector<headmix::parameter<float>> gates() const {
    headmix::ParameterGroups<float> groups;
    groups.add(*owner_);
    return groups.gates;
  }

 private:
  using Evenly = Mae::expert<headmix::choice::uniform>;
  using ByGate = Mae::expert<headmix::choice::drawn>;
  template <class Layer, class Mode = headmix::training>
  using Program = std::unique_ptr<headmix::Module<Layer, Backend, Mode>>;

  template <class Layer, class Mode = headmix::training, class A, class B>
  static Program<Layer, Mode> make(Options const& o, A const& first, B& second) {
    return std::apply(
        [&](auto... sizes) { return std::make_unique<headmix::Module<Layer, Backend, Mode>>(first, second, sizes...); },
        mae_sizes(o));
  }
  /// f of the module that computes the pass and its gradients.
  template <class F>
  auto in_use(F f) {
    if (pass_ == Pass::mixture) return f(*owner_);
    return evenly_ ? f(*evenly_) : f(*by_gate_);
  }

  Backend backend_;
  Program<Mae> owner_;
  Program<Mae::mean, headmix::inference> mean_;
  Program<Evenly> evenly_;
  Program<ByGate> by_gate_;
  headmix::backend_memory<Backend> heads_of_experts_;
  view<Int const> table_;
  Pass pass_ = Pass::mixture;
};

/// The mixture over a text that comes byte by byte.
template <class Backend>
class MaeDecoder {
 public:
  MaeDecoder(Options const& o, headmix::cache_size const& size, MaeAttention<Backend>& attention) {
    auto const make = [&]<class L>(std::optional<headmix::Decoder<L, Backend>>& decoder) {
      std::apply(
          [&](auto... sizes) { decoder.emplace(size, headmix::share_parameters{}, attention.owner(), sizes...); },
          mae_sizes(o));
    };
    if (o.training == Training::uniform) {
      make(mean_);
    } else {
      make(gated_);
      gated_->module().program().bind(Mae::heads_of_experts{}, attention.heads_of_experts());
    }
  }
  view<float const> prefill(view<float const> x) { return mean_ ? mean_->prefill(x) : gated_->prefill(x); }
  void rewind(Index sequence, Index length) {
    mean_ ? mean_->rewind(sequence, length) : gated_->rewind(sequence, length);
  }

 private:
  std::optional<headmix::Decoder<Mae, Backend>> gated_;
  std::optional<headmix::Decoder<Mae::mean, Backend>> mean_;
};

}  // namespace lm

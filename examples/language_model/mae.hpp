#pragma once
// SPDX-License-Identifier: MIT
// The attention of mae: programs with shared parameters, for the mixture of all experts and for one expert of each
// sequence.

#include <limits>
#include <optional>
#include <tuple>

#include "headmix/layer/mae.hpp"
#include "module_sublayer.hpp"

namespace lm {

using Mae = headmix::Mae<dynamic, dynamic, dynamic, headmix::causal, headmix::rope<>, headmix::pool::window<dynamic>,
                         headmix::left_out_heads<dynamic>, headmix::gate_dim<dynamic>>;

inline auto mae_sizes(Options const& o) {
  using headmix::at;
  Index const window = o.pool.window == 0 ? Index{(std::numeric_limits<Int>::max)()} : o.pool.window;
  return std::tuple(at<Mae::model_dim>(o.width), at<Mae::heads>(o.heads), at<Mae::head_dim>(o.head_dim),
                    at<Mae::expert_heads>(o.heads - o.dropped), at<Mae::experts>(o.experts),
                    at<Mae::Gate::hidden_dim>(o.gate_dim), at<Mae::Pool::Positions>(window));
}

/// The base class owns the parameters and computes the mixture with gates.
template <class Backend>
class MaeSublayer final : public ModuleSublayer<Mae, Backend> {
  using T = typename Backend::scalar;

 public:
  template <class... Sizes>
  MaeSublayer(std::tuple<Sizes...> const& sizes, Options const& o, Index layer, Backend const& backend)
      : MaeSublayer(o, layer, backend, std::get<Sizes>(sizes)...) {}

  /// Experts are drawn again in each step and layer.
  void set_pass(Pass pass, Index step) override {
    pass_ = pass;
    auto const random =
        headmix::randomness(seed_, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(layer_));
    if (evenly_) evenly_->set_randomness(random);
    // Without randomness the most probable expert is drawn.
    if (by_gate_) by_gate_->set_randomness(pass == Pass::drawn ? random : headmix::randomness::off());
  }
  view<T const> forward(view<T const> h, segments s) override {
    if (pass_ == Pass::mixture && mean_) return mean_->forward(h, s);
    return in_use([&](auto& m) { return m.forward(h, s); });
  }
  view<T const> backward(view<T const> dy) override {
    return in_use([&](auto& m) {
      m.backward(dy);
      return m.input_gradient();
    });
  }
  [[nodiscard]] HostMatrix<Int> chosen() override {
    if (pass_ == Pass::mixture) return {};
    return {this->module_.backend(), evenly_ ? evenly_->observed() : by_gate_->observed()};
  }
  [[nodiscard]] HostMatrix<float> gate() override {
    if (pass_ != Pass::mixture || !by_gate_) return {};
    return {this->module_.backend(), this->module_.program().get(Residual<Mae>::of_layer(Mae::g))};
  }

  void begin_text() override {
    if (mean_) {
      mean_text_.begin();
    } else {
      bind_heads<Mae>(text_.begin());
    }
  }
  view<T const> continue_text(view<T const> h) override { return mean_ ? mean_text_.read(h) : text_.read(h); }
  void end_text() override {
    mean_text_.end();
    text_.end();
  }

 private:
  using Evenly = Mae::expert<headmix::choice::uniform>;
  using ByGate = Mae::expert<headmix::choice::drawn>;
  template <class L, class Mode = headmix::training>
  using Module = headmix::Module<Residual<L>, Backend, Mode>;

  template <class... Sizes>
  MaeSublayer(Options const& o, Index layer, Backend const& backend, Sizes... sizes)
      : ModuleSublayer<Mae, Backend>(o, seed_of(o, layer, "attn"), backend, sizes...),
        seed_(o.seed),
        layer_(layer),
        text_(o, this->module_, sizes...),
        mean_text_(o, this->module_, sizes...) {
    Index const kept = o.heads - o.dropped;
    std::vector<Int> heads;
    for (Index e = 0; e < o.experts; ++e) {
      for (Index j = 0; j < kept; ++j) {
        heads.push_back(static_cast<Int>(headmix::outside_of_subset(o.heads, o.dropped, e, j)));
      }
    }
    Backend on = backend;
    heads_of_experts_ = {heads_memory_.assign(on, heads.data(), heads.size()), o.experts, kept};
    headmix::share_parameters const share{};
    auto const width = headmix::at<Stream::D>(o.width);
    if (o.training == Training::uniform) {
      mean_.emplace(share, this->module_, width, sizes...);
      bind_heads<Evenly>(evenly_.emplace(share, this->module_, width, sizes...).program());
    } else {
      bind_heads<ByGate>(by_gate_.emplace(share, this->module_, width, sizes...).program());
      bind_heads<Mae>(this->module_.program());
    }
  }
  template <class L>
  void bind_heads(auto& program) {
    program.bind(Residual<L>::of_layer(Mae::heads_of_experts{}), heads_of_experts_);
  }
  /// Calls f with the module that computes the pass and its gradients.
  template <class F>
  auto in_use(F f) {
    if (pass_ == Pass::mixture) return f(this->module_);
    return evenly_ ? f(*evenly_) : f(*by_gate_);
  }

  std::uint64_t seed_;
  Index layer_;
  Pass pass_ = Pass::mixture;
  std::optional<Module<Mae::mean, headmix::inference>> mean_;
  std::optional<Module<Evenly>> evenly_;
  std::optional<Module<ByGate>> by_gate_;
  TextReader<Mae, Backend> text_;
  TextReader<Mae::mean, Backend> mean_text_;
  headmix::HostInts<Backend> heads_memory_;
  view<Int const> heads_of_experts_;
};

template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_mae(Options const& o, Index layer, Backend const& backend) {
  return std::make_unique<MaeSublayer<Backend>>(mae_sizes(o), o, layer, backend);
}

}  // namespace lm

#pragma once
// SPDX-License-Identifier: MIT
// A sublayer with one layer of the library.

#include <functional>
#include <span>
#include <string_view>

#include "headmix/decode/decoder.hpp"
#include "headmix/program/module.hpp"
#include "headmix/train/block_coordinate.hpp"
#include "layers.hpp"
#include "sublayer.hpp"

namespace lm {

/// The seed of the sublayer of this name in block `layer`: sublayers draw different numbers.
inline std::uint64_t seed_of(Options const& o, Index layer, std::string_view name) {
  return headmix::named_seed(o.seed, headmix::message(layer, ".", name));
}

/// Shared parts of sublayers: the module that owns the parameters.
template <class L, class Backend>
class ModuleSublayer : public Sublayer<typename Backend::scalar> {
  using T = typename Backend::scalar;

 public:
  /// Passes on the sizes of the layer.
  template <class... Sizes>
  ModuleSublayer(Options const& o, std::uint64_t seed, Backend const& backend, Sizes... sizes)
      : module_(seed, backend, headmix::at<Stream::D>(o.width), sizes...), loss_weights_{o.balance, o.z} {
    headmix::ParameterGroups<T> groups;
    groups.add(module_);
    routers_ = groups.gates;
  }

  view<T const> forward(view<T const> h, segments s) override { return module_.forward(h, s); }
  view<T const> backward(view<T const> dy) override {
    module_.backward(dy, std::span(loss_weights_).first(L::losses::size));
    return module_.input_gradient();
  }
  void zero_gradients() override { module_.zero_gradients(); }
  [[nodiscard]] Parameters<T> const& parameters() const override { return module_.parameters(); }
  [[nodiscard]] Parameters<T> const& routers() const override { return routers_; }
  [[nodiscard]] HostMatrix<Int> chosen() override {
    if constexpr (L::observed::size > 0) {
      return {module_.backend(), module_.observed()};
    } else {
      return {};
    }
  }

 protected:
  headmix::Module<Residual<L>, Backend> module_;

 private:
  double loss_weights_[2];
  Parameters<T> routers_;
};

/// A text that layer L reads row by row, with a cache. It uses the parameters of `owner`.
template <class L, class Backend>
class TextReader {
  using T = typename Backend::scalar;

 public:
  template <class Owner, class... Sizes>
  TextReader(Options const& o, Owner& owner, Sizes... sizes)
      : make_([context = o.context, width = o.width, &owner, sizes...] {
          return std::make_unique<Decoder>(headmix::cache_size{.tokens = context}, headmix::share_parameters{}, owner,
                                           headmix::at<Stream::D>(width), sizes...);
        }) {}

  /// Begins a text. Returns the program, for binding further leaves.
  auto& begin() {
    if (!decoder_) decoder_ = make_();
    decoder_->rewind(0, 0);
    return decoder_->module().program();
  }
  view<T const> read(view<T const> h) { return decoder_->prefill(h); }
  void end() { decoder_.reset(); }

 private:
  using Decoder = headmix::Decoder<Residual<L>, Backend>;
  std::function<std::unique_ptr<Decoder>()> make_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace lm

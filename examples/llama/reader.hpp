#pragma once
// SPDX-License-Identifier: MIT
// The program of inference.

#include "headmix/decode/decoder.hpp"
#include "sizes.hpp"

namespace llama {

template <class A, class Backend>
class ReaderOf final : public Reader {
  using D = headmix::Decoder<Network<A, true>, Backend>;

 public:
  ReaderOf(Config const& c, Weights<Backend>& weights, Index tokens)
      : numbers_(c), decoder_(with_sizes<A>(c, [&](auto... sizes) {
          return std::make_unique<D>(headmix::cache_size{.tokens = tokens}, headmix::share_parameters{},
                                     weights.shared(), sizes...);
        })) {
    numbers_.bind(decoder_->module().program());
  }
  headmix::view<float const> read(std::span<Int const> ids) override {
    return decoder_->prefill({ids.data(), static_cast<Index>(ids.size()), 1});
  }
  void restart() override { decoder_->rewind(0, 0); }

 private:
  Numbers<typename Backend::scalar> numbers_;
  std::unique_ptr<D> decoder_;
};

template <class A, class Backend>
std::unique_ptr<Reader> make_reader(Config const& config, Weights<Backend>& weights, Index tokens) {
  return std::make_unique<ReaderOf<A, Backend>>(config, weights, tokens);
}

}  // namespace llama

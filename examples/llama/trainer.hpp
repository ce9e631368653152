#pragma once
// SPDX-License-Identifier: MIT
// The program of training.

#include "headmix/program/module.hpp"
#include "sizes.hpp"

namespace llama {

template <class A, class Backend>
class TrainerOf final : public Trainer {
  using M = headmix::Module<Loss<A>, Backend>;

 public:
  TrainerOf(Config const& c, Weights<Backend>& weights)
      : numbers_(c), layers_(c.depth), module_(with_sizes<A>(c, [&](auto... sizes) {
          return M(headmix::share_parameters{}, weights.shared(), sizes...);
        })) {
    numbers_.bind(module_.program());
  }
  double forward(std::span<Int const> ids, std::span<Int const> targets, Index sequences) override {
    auto const rows = static_cast<Index>(ids.size());
    module_.program().bind(typename Loss<A>::target{}, {targets.data(), rows, 1});
    return static_cast<double>(
        module_.forward({ids.data(), rows, 1}, headmix::uniform(sequences, rows / sequences))(0, 0));
  }
  void backward(double balance) override {
    double const weight = balance / static_cast<double>(layers_);  // the loss of a repetition is a sum over the layers
    module_.zero_gradients();
    module_.backward({&one_, 1, 1}, std::span(&weight, Loss<A>::losses::size));
  }

 private:
  Numbers<typename Backend::scalar> numbers_;
  Index layers_;
  M module_;
  float one_ = 1;
};

template <class A, class Backend>
std::unique_ptr<Trainer> make_trainer(Config const& config, Weights<Backend>& weights) {
  return std::make_unique<TrainerOf<A, Backend>>(config, weights);
}

}  // namespace llama

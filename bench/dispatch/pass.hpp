#pragma once
// SPDX-License-Identifier: MIT
// A layer's passes behind a virtual function, so that units of different instruction sets can be timed in one program.

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/module.hpp"

namespace bench {

/// Forward passes, or with the backward pass, over one sequence.
struct pass {
  virtual void run(bool backward) = 0;
  virtual ~pass() = default;
};
/// A pass of layer "moa", "moh" or "smoe" with headmix::compiled: plain.cpp.
std::unique_ptr<pass> compiled_pass(std::string_view layer, headmix::thread_pool& pool, headmix::Index tokens);

/// A module on Backend, and the inputs of its passes.
template <class L, class Backend>
class module_pass final : public pass {
 public:
  module_pass(headmix::thread_pool& pool, headmix::Index tokens)
      : module_(1, Backend(pool)), x_(static_cast<std::size_t>(tokens * L::model_dim::value)), dy_(x_.size()) {
    for (std::size_t i = 0; i < x_.size(); ++i) {
      x_[i] = static_cast<float>(headmix::Random(2).normal(i));
      dy_[i] = static_cast<float>(headmix::Random(3).normal(i));
    }
  }
  void run(bool backward) override {
    auto const rows = static_cast<headmix::Index>(x_.size()) / L::model_dim::value;
    module_.forward({x_.data(), rows, L::model_dim::value});
    double const weights[] = {0.01, 0.001};
    if (backward) module_.backward({dy_.data(), rows, L::model_dim::value}, std::span(weights).first(L::losses::size));
  }

 private:
  headmix::Module<L, Backend> module_;
  std::vector<float> x_, dy_;
};

/// A pass of the layer with this name.
template <class Backend>
std::unique_ptr<pass> make_pass(std::string_view layer, headmix::thread_pool& pool, headmix::Index tokens) {
  using namespace headmix;
  using moa = Moa<512, 128, SoftmaxTopK<32, 8, init<fan_in_uniform>>>;
  using moh = Moh<512, 64, TwoStage<2, 6, 2>>;
  using smoe = Smoe<512, SoftmaxTopK<8, 2, init<fan_in_uniform>>, FeedForward<2048>>;
  if (layer == "moa") return std::make_unique<module_pass<moa, Backend>>(pool, tokens);
  if (layer == "moh") return std::make_unique<module_pass<moh, Backend>>(pool, tokens);
  return std::make_unique<module_pass<smoe, Backend>>(pool, tokens);
}

}  // namespace bench

// SPDX-License-Identifier: MIT
// Probabilities of attention that the forward pass stores for the backward pass, up to `limit` MiB
// (Cpu::set_probability_budget): B causal sequences of T tokens of width D, forward and backward, in turn with the same
// layer and the limit 0. MoA has 8 of 32 experts of width H, MoH half of D / H heads. The JSON's counter `MiB` is the
// workspace.
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "layer.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::dynamic;

using Moa = headmix::Moa<dynamic, dynamic, headmix::SoftmaxTopK<32, 8>, headmix::causal>;
using Router = headmix::TwoStage<dynamic, dynamic, dynamic>;
using Moh = headmix::Moh<dynamic, dynamic, Router, headmix::causal>;

Module<Moa, Cpu<float>> moa(Cpu<float> const& cpu, Index width, Index head) {
  Module<Moa, Cpu<float>> m(1, cpu, at<Moa::model_dim>(width), at<Moa::head_dim>(head));
  spread<Moa::r::W_g>(m);
  return m;
}
Module<Moh, Cpu<float>> moh(Cpu<float> const& cpu, Index width, Index head) {
  Index const heads = width / head, shared = heads / 4;
  return Module<Moh, Cpu<float>>(1, cpu, at<Moh::model_dim>(width), at<Moh::head_dim>(head),
                                 at<Router::shared_heads>(shared), at<Router::routed_heads>(heads - shared),
                                 at<Router::routed_top_k>(heads / 2 - shared));
}

template <class Make>
auto stored(Make make) {
  return [make](benchmark::State& state) {
    Index const b = state.range(0), t = state.range(1), width = state.range(2), head = state.range(3);
    Cpu<float> cpu(pool(state.range(5)));
    auto computes = make(cpu, width, head);
    cpu.set_probability_budget(state.range(4) << 20);
    auto stores = make(cpu, width, head);
    Matrix<float> const x(b * t, width), dy(b * t, width);
    std::vector<double> const losses(computes.loss_names().size(), 0.01);
    auto const pass = [&](auto& module) {
      module.forward(x.get(), headmix::uniform(b, t));
      module.backward(dy.get(), std::span<double const>(losses));
    };
    time_calls(
        state, [&] { pass(stores); }, [&] { pass(computes); });
    state.counters["MiB"] = static_cast<double>(stores.program().workspace_bytes()) / (1 << 20);
    count_tokens(state, b * t);
  };
}

int const registered = [] {
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::int64_t const limit : {16, 64, 256}) {
    for (auto const& shape : {std::array<std::int64_t, 4>{8, 128, 512, 64},
                              {1, 512, 512, 64},
                              {1, 1024, 512, 64},
                              {1, 1024, 512, 128},
                              {1, 2048, 1024, 64}}) {
      shapes.push_back({shape[0], shape[1], shape[2], shape[3], limit});
    }
  }
  std::vector<std::string> const sizes = {"B", "T", "D", "H", "limit"};
  add("stored/moa/backward/cpu/float", sizes, shapes, {1, 2}, stored(moa));
  add("stored/moh/backward/cpu/float", sizes, shapes, {1, 2}, stored(moh));
  return 0;
}();

}  // namespace

// SPDX-License-Identifier: MIT
// A network of repeated blocks that read one context, on the emulated GPU: equal to the CPU up to rounding.

#include <doctest/doctest.h>

#include <cmath>

#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "headmix/testing/emulated.hpp"

using namespace headmix;

namespace {

struct Block {
  using Heads = Moa<16, 8, SoftmaxTopK<4, 2>, causal, output_dropout<1, 10>>;
  using Cross = MultiHead<16, 2, 8, context_dim<16>>;
  struct x : input<tokens, size<16>> {};
  struct context : input<context_tokens, size<16>> {};
  struct gain : param<size<16>> {
    using initializer = ones;
  };
  static constexpr auto attn = use<Heads, "attn">(rms_norm(x{}, gain{}));
  struct h : let<decltype(x{} + attn.y)> {};
  static constexpr auto cross = use<Cross, "cross">(h{}, context{});
  static constexpr auto y = h{} + cross.y;
  using losses = losses_of<attn>;
  using observed = observed_of<attn>;
};
struct Network {
  using x = Block::x;
  using context = Block::context;
  static constexpr auto blocks = repeat<3, Block, "blocks", recompute>(x{}, context{});
  static constexpr auto y = blocks.y;
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
};

}  // namespace

TEST_CASE("cuda, emulated: a network of repeated blocks") {
  using Gpu = Cuda<float, Emulated>;
  Module<Network, Gpu> gpu(1);
  Module<Network, Reference<float>> host(1);
  std::vector<float> x(12 * 16), dy(12 * 16), context(6 * 16);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(Random(2).normal(i)), dy[i] = static_cast<float>(Random(3).normal(i));
  }
  for (std::size_t i = 0; i < context.size(); ++i) context[i] = static_cast<float>(Random(4).normal(i));
  backend_memory<Gpu> x_there(x.size() * sizeof(float)), dy_there(dy.size() * sizeof(float)),
      context_there(context.size() * sizeof(float));
  upload(gpu.backend(), context_there.as<float>(), context.data(), context.size());
  upload(gpu.backend(), x_there.as<float>(), x.data(), x.size());
  upload(gpu.backend(), dy_there.as<float>(), dy.data(), dy.size());
  auto const close_to = [&](view<float const> there, view<float const> here) {
    std::vector<float> found(static_cast<std::size_t>(there.size()));
    download(gpu.backend(), found.data(), there.data, found.size());
    REQUIRE(there.size() == here.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      REQUIRE(std::abs(found[i] - here.data[i]) < 1e-4f * (1 + std::abs(here.data[i])));
    }
  };
  close_to(gpu.forward({x_there.as<float>(), 12, 16}, uniform(2, 6), {context_there.as<float>(), 6, 16}, uniform(2, 3)),
           host.forward({x.data(), 12, 16}, uniform(2, 6), {context.data(), 6, 16}, uniform(2, 3)));
  gpu.backward({dy_there.as<float>(), 12, 16}, {0.1, 0.1});
  host.backward({dy.data(), 12, 16}, {0.1, 0.1});
  close_to(gpu.input_gradient(), host.input_gradient());
  close_to(gpu.context_gradient(), host.context_gradient());
  for (std::size_t i = 0; i < host.parameters().size(); ++i) {
    CAPTURE(host.parameters()[i].name);
    close_to(gpu.parameters()[i].gradient, host.parameters()[i].gradient);
  }
}

// SPDX-License-Identifier: MIT
// Float layers with products of bfloat16 (headmix::products), compared with exact products: one sequence of T tokens.
// `ratio` is the quotient of the times; 1 if the CPU has no faster products.
#include "headmix/layer/moa.hpp"
#include "headmix/layer/smoe.hpp"
#include "layer.hpp"

namespace {

using namespace bench;
namespace products = headmix::products;

using AttentionExperts = headmix::Moa<512, 128, headmix::SoftmaxTopK<32, 8, headmix::init<headmix::fan_in_uniform>>>;
using Experts =
    headmix::Smoe<512, headmix::SoftmaxTopK<8, 2, headmix::init<headmix::fan_in_uniform>>, headmix::FeedForward<2048>>;

template <class L, class Products>
auto layer(bool backward) {
  return [backward](benchmark::State& state) {
    Index const length = state.range(0), threads = state.range(1);
    using Backend = headmix::Cpu<float, headmix::thread_pool, Products>;
    Module<L, Backend> rounded(1, Backend(pool(threads)));
    Module<L, Cpu<float>> exact(1, Cpu<float>(pool(threads)));
    Matrix<float> const x(length, 512), dy(length, 512);
    double const weights[] = {0.01, 0.001};
    auto const pass = [&](auto& module) {
      module.forward(x.get());
      if (backward) module.backward(dy.get(), std::span(weights).first(L::losses::size));
    };
    pass(rounded);
    pass(exact);
    time_calls(
        state, [&] { pass(rounded); }, [&] { pass(exact); });
    count_tokens(state, length);
  };
}

template <class L, class Products>
void add_layer(std::string const& name) {
  for (bool const backward : {false, true})
    add("rounded_" + name + (backward ? "_backward" : "_forward") + "/cpu/float", {"T"}, {{1024}}, {1, 2},
        layer<L, Products>(backward));
}

int const registered = [] {
  add_layer<AttentionExperts, products::bfloat16>("moa");
  add_layer<Experts, products::bfloat16>("smoe");
  add_layer<Experts, products::bfloat16_x3>("smoe_x3");
  return 0;
}();

}  // namespace

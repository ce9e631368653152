// SPDX-License-Identifier: MIT
// A layer of one's own, timed beside dense attention and beside MoA: forward, and forward and backward. Arguments: the
// tokens, 256 by default.

#include <headmix/headmix.hpp>
#include <headmix/testing/time_beside.hpp>
#include <string>

#include "../common.hpp"

using namespace headmix;

/// y = (sigmoid(x W_g) * (x W_v)) W_o: gated projections in place of attention.
struct GatedProjection {
  struct D : size<128> {};
  struct x : input<tokens, D> {};
  struct W_v : param<D, D> {};
  struct W_g : param<D, D> {};
  struct W_o : param<D, D> {};
  static constexpr auto y = (sigmoid(x{} % W_g{}) * (x{} % W_v{})) % W_o{};
  using losses = type_list<>;
  using observed = type_list<>;
};
static_assert(LayerPolicy<GatedProjection>);

int main(int argc, char** argv) {
  timing_options options;
  options.tokens = argc > 1 ? std::stol(argv[1]) : 256;
  layer_times const beside_dense = time_beside_dense<GatedProjection>(Cpu<float>(), options);
  std::puts(beside_dense.text().c_str());
  layer_times const beside_moa =
      time_beside<GatedProjection, Moa<128, 32, SoftmaxTopK<8, 4>, causal>>(Cpu<float>(), options);
  std::puts(beside_moa.text().c_str());
  return beside_dense.forward.relative > 0 && beside_moa.with_backward.relative > 0 ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// Common words stay available to a user's program, also after `using namespace headmix`, at namespace scope.

#include "headmix/backend/cuda/device.hpp"
#include "headmix/headmix.hpp"
#include "headmix/testing/backend_conformance.hpp"

/// A global name, which a namespace of the library would make ambiguous.
struct gpu {};

namespace static_names {

using namespace headmix;

using Router = TwoStage<2, 6, 2>;
using Layer = Moh<32, 8, Router, causal>;
using Expert = FeedForward<64>;
using Backend = Cpu<float>;
using Mask = sliding_window<16>;
using Optimizer = Sgd<float, Backend>;
struct D : headmix::size<32> {};
struct E : headmix::size<8> {};
struct K : headmix::size<2> {};
struct H : headmix::size<4> {};
struct x : input<tokens, D> {};
struct y : input<tokens, D> {};
struct W : param<D, E> {};
struct Model {
  Module<Layer, Backend> attention;
  Module<Smoe<32, SoftmaxTopK<8, 2>, Expert>, Backend> mlp;
};
struct Config {};
struct Block {};
struct Network {};
struct Tensor {};
struct Attention {};
struct Options {};
struct Head {};
struct Cache {};
struct Token {};
struct Loss {};
struct Buffer {};
struct Trainer {};
enum class Device { cpu, gpu };

using Scores = std::remove_cv_t<decltype(x{} % W{})>;
static_assert(Expr<Scores> && LayerPolicy<Layer> && BackendPolicy<Backend> && AttentionMask<Mask>);
static_assert(sizeof(Model*) > 0 && sizeof(gpu) > 0 && K::value == 2 && H::value == 4);

}  // namespace static_names

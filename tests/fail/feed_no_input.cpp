// expect: headmix: feed<Input>\(value\): the layer has no such input
// SPDX-License-Identifier: MIT
#include "headmix/expr/pointwise.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"

using namespace headmix;
using Cross = MultiHead<8, 2, 4, context_dim<8>>;
struct Scaled {
  struct x : input<tokens, size<8>> {};
  struct scale : input<size<1>, size<8>> {};
  struct other : input<size<1>, size<4>> {};
  static constexpr auto y = x{} * scale{};
  using losses = type_list<>;
  using observed = type_list<>;
};
#ifdef MUST_FAIL
constexpr auto y = use<Scaled, "block">(Scaled::x{}, feed<Scaled::other>(Scaled::other{})).y;
#else
constexpr auto y = use<Scaled, "block">(Scaled::x{}, feed<Scaled::scale>(Scaled::scale{})).y;
#endif

// SPDX-License-Identifier: MIT
// Two custom operations with gradient rules: a function of one number, which the library fuses with its neighbours, and
// one with a kernel for each backend (running_sum.hpp). The program checks the rules by differences and runs a layer
// made of both.

#include <headmix/headmix.hpp>

#include "../common.hpp"
#include "running_sum.hpp"

using namespace headmix;

/// arctan(a), and dL/da = dL/dy / (1 + a^2).
struct arctan : pointwise {
  static constexpr bool vectorizable = false;  // std::atan takes single numbers only
  template <class T>
  HEADMIX_HD static T f(T a) {
    return std::atan(a);
  }
  static constexpr auto vjp(auto dy, auto a, auto /*y*/) { return grads(dy / (square(a) + 1_n)); }
};
/// A wrong rule, which the check must find: a product instead of a quotient.
struct wrong_arctan : arctan {
  static constexpr auto vjp(auto dy, auto a, auto /*y*/) { return grads(dy * (square(a) + 1_n)); }
};

/// A layer has an input, a result, and lists of losses and observed selections: y = running sums of arctan(x W).
struct Layer {
  struct model_dim : size<6> {};
  struct x : input<tokens, model_dim> {};
  struct W : param<model_dim, model_dim> {};
  static constexpr auto y = make<running_sum<>>(apply<arctan>(x{} % W{}));
  using losses = type_list<>;
  using observed = type_list<>;
};

int main() {
  bool const function = example::gradients_agree("arctan", apply<arctan>(Layer::x{}));
  bool const operation = example::gradients_agree("running_sum", make<running_sum<>>(Layer::x{}));
  bool const layer = example::gradients_agree("the layer", Layer::y);
  bool const found = !example::gradients_agree("wrong_arctan", apply<wrong_arctan>(Layer::x{}));

  Module<Layer, Cpu<float>> m(/*seed*/ 1);
  auto const x = example::random_numbers(6);
  auto const y = m.forward({x.data(), 1, 6});
  std::printf("y of one token:");
  for (Index j = 0; j < y.cols; ++j) std::printf(" %.3f", static_cast<double>(y(0, j)));
  std::puts("");
  return function && operation && layer && found ? 0 : 1;
}

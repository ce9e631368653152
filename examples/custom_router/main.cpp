// SPDX-License-Identifier: MIT
// A custom router: expressions for the choice, the gates and the losses; the library derives the gradients. The program
// checks them by differences and prints the experts that a layer with this router uses.

#include <array>
#include <headmix/headmix.hpp>

#include "../common.hpp"

using namespace headmix;

/// Scores s = max(x W_g, 0)^2; the top_k best experts, weighed by their shares of the chosen scores.
template <Index Experts, Index TopK>
struct SquaredReluTopK {
  struct experts : size<Experts> {};
  struct top_k : size<TopK> {};

  template <Expr X, class Tag = void>
  struct route {
    struct W_g : param<cols<X>, experts> {};
    static constexpr auto s = square(relu(upcast(X{} % W_g{})));
    static constexpr auto index = arg_top_k<top_k>(s);
    static constexpr auto chosen = gather_cols(s, index);
    static constexpr auto gate = chosen / (row_sum(chosen) + 0.001_n);
    static constexpr auto load = load_balance(s, index);
    using losses = type_list<std::remove_cv_t<decltype(load)>>;
  };
};

using Router = SquaredReluTopK<6, 2>;
static_assert(RouterPolicy<Router>);  // checks the requirements of a router; see headmix/router/router.hpp
using Layer = Moa<12, 8, Router, causal>;

/// Two sequences of five tokens; dy is 1 everywhere.
void run_layer() {
  Module<Layer, Cpu<float>> m(/*seed*/ 1);
  auto const x = example::random_numbers(10 * 12), dy = std::vector<float>(10 * 12, 1);
  m.forward({x.data(), 10, 12}, uniform(2, 5));
  m.backward({dy.data(), 10, 12}, {/*weight of the load-balance loss*/ 0.01});
  std::array<int, 6> load{};
  auto const chosen = m.observed();  // Int [tokens, top_k]
  for (Index i = 0; i < chosen.size(); ++i) ++load[static_cast<std::size_t>(chosen.data[i])];
  std::printf("tokens per expert");
  for (int const n : load) std::printf(" %d", n);
  std::printf(", load-balance loss %.3f (1 at balance)\n", m.loss<0>());
}

int main() {
  struct D : size<12> {};
  struct x : input<tokens, D> {};
  using route = Router::route<x>;
  bool const gates = example::gradients_agree("the gates", route::gate);
  bool const loss = example::gradients_agree("the loss", route::load);
  bool const layer = example::gradients_agree("the layer", Layer::y);
  run_layer();
  return gates && loss && layer ? 0 : 1;
}

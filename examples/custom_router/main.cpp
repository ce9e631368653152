// SPDX-License-Identifier: MIT
// Checks the gradients of squared_relu.hpp by differences and runs mixture of attention heads with that router.

#include <array>
#include <cstdio>
#include <headmix/testing/gradcheck.hpp>
#include <vector>

#include "squared_relu.hpp"

namespace {

using headmix::at;
using headmix::Index;
using headmix::tokens;

struct D : headmix::size<12> {};
struct x : headmix::input<tokens, D> {};

/// A slip of the pen: the gradient lacks the factor 2.
struct wrong : custom::squared_relu {
  static constexpr auto vjp(auto dy, auto a, auto) { return headmix::grads(dy * relu(a)); }
};

bool check(char const* name, auto y) {
  auto const r = headmix::gradcheck(y, at<tokens>(7));
  std::printf("%-18s largest error %.1e%s%s\n", name, r.error, r.ok() ? "" : ", at ", r.ok() ? "" : r.text.c_str());
  return r.ok();
}

using Router = custom::SquaredReluTopK<6, 2>;
using Layer = headmix::Moa<12, 8, Router, headmix::causal>;

/// Which experts two sequences of five random tokens choose.
void run_layer() {
  headmix::Module<Layer, headmix::Cpu<float>> m(1);
  std::vector<float> in(10 * 12), dy(10 * 12, 1);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(headmix::Random(2).normal(i));
  m.forward({in.data(), 10, 12}, headmix::uniform(2, 5));
  m.backward({dy.data(), 10, 12}, {0.01});
  std::array<int, 6> load{};
  auto const chosen = m.observed();
  for (Index i = 0; i < chosen.rows; ++i) {
    for (Index j = 0; j < chosen.cols; ++j) ++load[static_cast<std::size_t>(chosen(i, j))];
  }
  std::printf("tokens per expert ");
  for (int const n : load) std::printf(" %d", n);
  std::printf(", load balance loss %.3f (1 at balance)\n", m.loss<0>());
}

}  // namespace

int main() {
  using route = Router::route<x>;
  bool ok = check("scalar function", headmix::apply<custom::squared_relu>(x{}));
  ok = check("gates", route::gate) && ok;
  ok = check("loss", route::load) && ok;
  ok = check("layer", Layer::y) && ok;
  ok = !check("a wrong gradient", headmix::apply<wrong>(x{})) && ok;
  run_layer();
  return ok ? 0 : 1;
}

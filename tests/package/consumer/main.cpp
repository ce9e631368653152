// SPDX-License-Identifier: MIT
// A user's program: one step of a MoA layer with known numbers, then a mistake with its message.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <headmix/headmix.hpp>
#include <vector>

int version_seen_by_other();

namespace {

using Layer = headmix::Moa<6, 4, headmix::SoftmaxTopK<3, 2>, headmix::causal>;
/// The gradients that are checked; each further one would be compiled for every way.
using Model = headmix::Module<Layer, headmix::Cpu<double>, headmix::gradients_by<Layer::r::W_g, Layer::W_v>>;

/// With x = 1, W_g = 0, W_v = 1/2 and W_o = 1/4 everywhere, every value is D/2 = 3, so attention returns 3 for any
/// keys, and the gates sum to 1: y = H * 3 * 1/4 = 3. With dy = 1 for T = 5 tokens, dW_v = T * D * 1/4 = 7.5. The gate
/// of a chosen expert has the gradient D * 3, which softmax turns into 3 for the two chosen and -6 for the third: dW_g
/// = T * (3, 3, -6).
bool step_is_right(Model& m) {
  using headmix::Index, headmix::view;
  auto const fill = [](view<double> v, double value) {
    for (Index i = 0; i < v.size(); ++i) v.data[i] = value;
  };
  fill(m.get<Layer::r::W_g>().value, 0);
  fill(m.get<Layer::W_v>().value, 0.5);
  fill(m.get<Layer::W_o>().value, 0.25);
  std::vector<double> const ones(5 * 6, 1.0);
  view<double const> const x(ones.data(), 5, 6);
  auto const y = m.forward(x);
  m.backward(x);

  auto const is = [](view<double const> v, Index column, double expected) {
    for (Index i = 0; i < v.rows; ++i) {
      if (!(std::abs(v(i, column) - expected) < 1e-12)) return false;
    }
    return v.rows > 0;
  };
  auto const dW_g = m.get<Layer::r::W_g>().gradient;
  return is(y, 0, 3) && is(y, 5, 3) && is(m.get<Layer::W_v>().gradient, 3, 7.5) && is(dW_g, 0, 15) && is(dW_g, 1, 15) &&
         is(dW_g, 2, -30);
}

[[noreturn]] void end_with(char const* error) {
  std::printf("the mistake was reported as: %s\n", error);
  std::exit(std::strcmp(error, "headmix: x has 5 columns, expected 6") == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

}  // namespace

int main() {
  Model m(/*seed*/ 1);
  if (version_seen_by_other() != HEADMIX_VERSION || !step_is_right(m)) {
    std::puts("the step is wrong");
    return EXIT_FAILURE;
  }
  double const numbers[10] = {};
#ifdef HEADMIX_NO_EXCEPTIONS
  headmix::on_error = end_with;
  m.forward({numbers, 2, 5});
#else
  try {
    m.forward({numbers, 2, 5});
  } catch (headmix::Error const& e) {
    end_with(e.what());
  }
#endif
  std::puts("the mistake was not reported");
  return EXIT_FAILURE;
}

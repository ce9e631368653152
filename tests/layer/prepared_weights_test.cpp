// SPDX-License-Identifier: MIT
// Modules for inference with prepared expert weights equal those without.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "headmix/program/module.hpp"

namespace prepared_weights_test {

namespace {

using namespace headmix;

template <class M>
std::vector<double> result(M& m, Index tokens, Index width) {
  std::vector<double> x(static_cast<std::size_t>(tokens * width));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(5).normal(i);
  view<double const> const y = m.forward({x.data(), tokens, width});
  return {y.data, y.data + y.size()};
}
bool close(std::vector<double> const& a, std::vector<double> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-12 * (1 + std::abs(b[i])))) return false;
  return true;
}

/// Many tokens, some, one, and none.
template <class Layer, Index Width>
void check() {
  thread_pool two(2);
  Module<Layer, Cpu<double, thread_pool>, inference> plain(3, Cpu<double, thread_pool>(two)),
      prepared(3, Cpu<double, thread_pool>(two));
  prepared.prepare_weights();
  for (Index const tokens : {300, 9, 1, 0}) {
    CAPTURE(tokens);
    CHECK(close(result(prepared, tokens, Width), result(plain, tokens, Width)));
  }
  // New weights are used after another call.
  auto const before = result(prepared, 9, Width);
  for (std::size_t i = 0; i < plain.parameters().size(); ++i) {
    for (Index n = 0; n < plain.parameters()[i].value.size(); ++n) {
      plain.parameters()[i].value.data[n] *= 0.9;
      prepared.parameters()[i].value.data[n] *= 0.9;
    }
  }
  CHECK(!close(result(prepared, 9, Width), result(plain, 9, Width)));  // the copies have the old weights
  prepared.parameters_changed();
  auto const after = result(prepared, 9, Width);
  CHECK(close(after, result(plain, 9, Width)));
  CHECK(!close(after, before));
  // Weights copied from a trained module are prepared, too.
  Module<Layer, Cpu<double, thread_pool>> trained(8, Cpu<double, thread_pool>(two));
  copy_parameters(trained, plain);
  copy_parameters(trained, prepared);
  CHECK(close(result(prepared, 9, Width), result(plain, 9, Width)));
  CHECK(!close(result(prepared, 9, Width), after));
}

TEST_CASE("prepared weights: MoA") { check<Moa<20, 7, SoftmaxTopK<5, 2>, causal>, 20>(); }
TEST_CASE("prepared weights: MoH, whose heads share rows") { check<Moh<12, 4, TwoStage<3, 4, 2>>, 12>(); }
TEST_CASE("prepared weights: experts wider than a panel and deeper than a part") {
  check<Smoe<70, SoftmaxTopK<3, 1>, FeedForward<600>>, 70>();
}

}  // namespace

}  // namespace prepared_weights_test

// SPDX-License-Identifier: MIT
// Heads and attention experts divided among ranks, each with an emulated GPU: sums equal those of threads.
#include <doctest/doctest.h>

#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "headmix/backend/cuda.hpp"
#include "headmix/distributed/distributed.hpp"
#include "headmix/distributed/local.hpp"
#include "headmix/distributed/staged.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"
#include "headmix/testing/emulated.hpp"

using namespace headmix;

namespace {

using Gpu = Cuda<float, Emulated>;
using Ranks = Staged<Gpu, Local>;

struct Pass {
  std::vector<float> y, d_x;
};
template <class M>
Pass pass(M& m, Index rows, Index D) {
  Gpu const& gpu = m.backend();
  std::vector<float> x(static_cast<std::size_t>(rows * D)), dy(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i)));
    dy[i] = static_cast<float>(std::cos(0.3 * static_cast<double>(i)));
  }
  backend_memory<Gpu> x_here(x.size() * sizeof(float)), dy_here(x.size() * sizeof(float));
  upload(gpu, x_here.template as<float>(), x.data(), x.size());
  upload(gpu, dy_here.template as<float>(), dy.data(), dy.size());
  auto const y = m.forward({x_here.template as<float>(), rows, D}, uniform(2, rows / 2));
  m.backward({dy_here.template as<float>(), rows, D});
  Pass p{std::vector<float>(x.size()), std::vector<float>(x.size())};
  download(gpu, p.y.data(), y.data, p.y.size());
  download(gpu, p.d_x.data(), m.input_gradient().data, p.d_x.size());
  return p;
}
template <class One, class Many>
void check(Index ranks_here) {
  Module<One, Gpu> m(7);
  Pass const one = pass(m, 12, 24);
  std::mutex mutex;
  run_ranks(ranks_here, [&](Local& host) {
    Gpu gpu;
    Ranks ranks(host, gpu);
    Module<Many, Distributed<Gpu, Ranks>> many(7, Distributed<Gpu, Ranks>(ranks, gpu));
    Pass const here = pass(many, 12, 24);
    std::lock_guard const lock(mutex);
    for (std::size_t i = 0; i < one.y.size(); ++i) {
      CHECK(here.y[i] == doctest::Approx(one.y[i]).epsilon(1e-4));
      CHECK(here.d_x[i] == doctest::Approx(one.d_x[i]).epsilon(1e-4));
    }
  });
}

}  // namespace

TEST_CASE("ranks: multi-head attention on emulated GPUs") {
  check<MultiHead<24, 3, 8, causal>, MultiHead<24, 3, 8, causal, tensor_parallel>>(2);
}
TEST_CASE("ranks: MoA on emulated GPUs") {
  using R = SoftmaxTopK<5, 3, init<fan_in_uniform>>;
  check<Moa<24, 8, R, causal>, Moa<24, 8, R, causal, expert_parallel>>(3);
}

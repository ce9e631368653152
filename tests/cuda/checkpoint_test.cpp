// SPDX-License-Identifier: MIT
// Checkpoints of a training in device memory, read through copies to the host.

#include "headmix/io/checkpoint.hpp"

#include <doctest/doctest.h>

#include "headmix/backend/cuda.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/program/module.hpp"
#include "headmix/testing/emulated.hpp"
#include "headmix/train/adamw.hpp"
#include "io/files.hpp"

using namespace headmix;

namespace {

struct Dense {
  struct D : headmix::size<4> {};
  struct x : input<tokens, D> {};
  struct W : param<D, D> {};
  struct b : param<D> {};
  static constexpr auto y = dropout<1, 4>(x{} % W{} + b{});
  using losses = type_list<>;
  using observed = type_list<>;
};
using OnDevice = Cuda<float, Emulated>;

struct Run {
  explicit Run(std::uint64_t seed) : m(seed), optimiser(m.parameters(), {}, m.backend()), x(12 * sizeof(float)) {
    std::vector<float> const numbers{1, 2, 3, 4, -1, -2, -3, -4, 5, 6, 7, 8};
    upload(m.backend(), x.as<float>(), numbers.data(), numbers.size());
  }
  void train(int steps) {
    for (int s = 0; s < steps; ++s) {
      view<float const> const y = m.forward({x.as<float>(), 3, 4});
      m.zero_gradients();
      m.backward(y);
      optimiser.step(0.1);
    }
  }
  std::vector<float> values() {
    std::vector<float> all(20);
    download(m.backend(), all.data(), m.get<Dense::W>().value.data, 16);
    download(m.backend(), all.data() + 16, m.get<Dense::b>().value.data, 4);
    return all;
  }

  Module<Dense, OnDevice> m;
  AdamW<float, OnDevice> optimiser;
  backend_memory<OnDevice> x;
};

}  // namespace

TEST_CASE("checkpoint: a training on a device is resumed bit for bit") {
  test::Folder const folder;
  Run whole(1), first(1), second(2);
  whole.train(6);
  first.train(3);
  save(folder / "a", first.m, first.optimiser);
  load(folder / "a", second.m, second.optimiser);
  CHECK(second.values() == first.values());
  second.train(3);
  CHECK(second.values() == whole.values());
  CHECK(second.values() != first.values());
}

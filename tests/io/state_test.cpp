// SPDX-License-Identifier: MIT
// What a user writes to load a checkpoint of PyTorch and save it again, and to stop and resume a training.

#include <doctest/doctest.h>

#include "files.hpp"
#include "headmix/headmix.hpp"
#include "headmix/io/checkpoint.hpp"
#include "headmix/io/weights.hpp"

using namespace headmix;
using R = TwoStage<1, dynamic, dynamic>;
using Heads = Moh<dynamic, dynamic, R, causal, rope<>>;
using Noisy = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic, noise<>>, causal, output_dropout<1, 10>>;

TEST_CASE("state: names of PyTorch in and out, and a training that is resumed bit for bit") {
  test::Folder const folder;
  TensorNames const names{{"W_q", "q_proj.weight"}, {"W_k", "k_proj.weight"}, {"W_v", "v_proj.weight"},
                          {"W_o", "o_proj.weight"}, {"W_r", "router.weight"}, {"W_h", "group.weight"}};
  auto const heads = [](std::uint64_t seed) {
    return std::make_unique<Module<Heads, Cpu<float>, inference>>(seed, Cpu<float>{}, at<Heads::model_dim>(8),
                                                                  at<Heads::head_dim>(4), at<R::routed_heads>(3),
                                                                  at<R::routed_top_k>(1));
  };
  auto const m = heads(1), n = heads(2);
  save(folder / "moh", *m, names);
  load(*n, folder / "moh", names);
  save(folder / "again", *n, names);
  CHECK(test::read_all(folder / "again") == test::read_all(folder / "moh"));

  std::vector<float> const x(64 * 16, 0.5f);
  struct Run {
    Module<Noisy, Cpu<float>> m{
        7, Cpu<float>{}, at<Noisy::model_dim>(16), at<Noisy::head_dim>(4), at<Noisy::experts>(8), at<Noisy::top_k>(2)};
    AdamW<float, Cpu<float>> optimiser{m.parameters(), {}, m.backend()};
  } whole, first, second;
  auto const train = [&x](Run& r, int steps) {
    for (int s = 0; s < steps; ++s) {
      auto const y = r.m.forward({x.data(), 64, 16}, uniform(2, 32));
      r.m.zero_gradients();
      r.m.backward(y, {0.01, 0.001});
      r.optimiser.step(1e-3);
    }
  };
  train(whole, 4);
  train(first, 2);
  save(folder / "run", first.m, first.optimiser);
  load(folder / "run", second.m, second.optimiser);
  train(second, 2);
  save(folder / "resumed", second.m, second.optimiser);
  save(folder / "whole", whole.m, whole.optimiser);
  CHECK(test::read_all(folder / "resumed") == test::read_all(folder / "whole"));
}

// SPDX-License-Identifier: MIT
// User code that loads and saves a checkpoint of PyTorch, and stops and resumes a training.
#include <doctest/doctest.h>

#include "files.hpp"
#include "headmix/headmix.hpp"
#include "headmix/io/checkpoint.hpp"
#include "headmix/io/weights.hpp"

using namespace headmix;
using Heads = Moh<8, 4, TwoStage<1, 3, 1>, causal, rope<>>;
using Noisy = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic, noise<>>, causal, output_dropout<1, 10>>;

TEST_CASE("state: names of PyTorch in and out, and a training that is resumed bit for bit") {
  test::Folder const folder;
  TensorNames const names{{"W_q", "q_proj.weight"}, {"W_k", "k_proj.weight"}, {"W_v", "v_proj.weight"},
                          {"W_o", "o_proj.weight"}, {"W_r", "router.weight"}, {"W_h", "group.weight"}};
  Module<Heads, Cpu<float>, inference> a(1), b(2);
  save(folder / "a", a, names), load(b, folder / "a", names), save(folder / "b", b, names);
  CHECK(test::read_all(folder / "a") == test::read_all(folder / "b"));

  std::vector<float> const x(64 * 16, 0.5f);
  struct Run {
    Module<Noisy, Cpu<float>> m{
        7, {}, at<Noisy::model_dim>(16), at<Noisy::head_dim>(4), at<Noisy::experts>(8), at<Noisy::top_k>(2)};
    AdamW<float, Cpu<float>> optimiser{m.parameters(), {}, m.backend()};
  } whole, first, second;
  auto const train = [&x](Run& r, int steps) {
    for (; steps > 0; --steps) {
      r.m.zero_gradients();
      r.m.backward(r.m.forward({x.data(), 64, 16}, uniform(2, 32)), {0.01, 0.001});
      r.optimiser.step(1e-3);
    }
  };
  train(whole, 4), train(first, 2), save(folder / "half", first.m, first.optimiser);
  load(folder / "half", second.m, second.optimiser), train(second, 2);
  save(folder / "whole", whole.m, whole.optimiser), save(folder / "resumed", second.m, second.optimiser);
  CHECK(test::read_all(folder / "whole") == test::read_all(folder / "resumed"));
}

// SPDX-License-Identifier: MIT
// Balancing without a loss, and the selection bias, a buffer of the module.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <headmix/headmix.hpp>
#include <headmix/io/checkpoint.hpp>

namespace loss_free_test {

using namespace headmix;

namespace {

using Router = LossFreeTopK<6, 2>;
using Heads = Moa<12, 8, Router, causal>;

std::vector<float> numbers(std::size_t n) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(Random(2).normal(i)) + (i % 12 == 0 ? 2.f : 0.f);
  return x;
}

/// The share of tokens of the most loaded expert, before and after 200 steps.
template <class L>
void balances(double from, double to) {
  CHECK(gradcheck(L::y, at<tokens>(7)).ok());
  auto const x = numbers(128 * 12);
  Module<L, Cpu<float>> m(1);
  auto const busiest = [&] {
    m.forward({x.data(), 128, 12});
    ExpertCounts load(1, 6);
    for (Index i = 0; i < m.observed().size(); ++i) load.add(0, m.observed().data[i]);
    double most = 0;
    for (Index e = 0; e < 6; ++e) most = (std::max)(most, load.share(e));
    return most;
  };
  CHECK(busiest() >= from);
  for (int step = 0; step < 200; ++step) {
    m.forward({x.data(), 128, 12});
    update_selection_bias<typename L::r::selection_bias>(m, 0.01);
  }
  CHECK(busiest() <= to);
}

struct Block {
  struct x : input<tokens, size<12>> {};
  static constexpr auto ffn = use<Smoe<12, Router, FeedForward<4>>, "ffn">(x{});
  static constexpr auto y = x{} + ffn.y;
  using losses = losses_of<ffn>;
  using observed = observed_of<ffn>;
};
struct Network {
  struct x : input<tokens, size<12>> {};
  struct running_mean : buffer<size<12>> {
    using initializer = ones;
  };
  static constexpr auto blocks = repeat<2, Block, "blocks">(x{} * running_mean{});
  static constexpr auto y = blocks.y;
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
  using bias = decltype(blocks)::as<decltype(Block::ffn)::as<Smoe<12, Router, FeedForward<4>>::r::selection_bias>>;
};

template <class Range>
std::vector<std::string> names_of(Range const& all) {
  std::vector<std::string> names;
  for (auto const& p : all) names.emplace_back(p.name);
  return names;
}

}  // namespace

TEST_CASE("the bias of a selection balances experts") { balances<Heads>(0.22, 0.19); }

TEST_CASE("buffers belong to the module: repeated, saved, copied, and no parameter") {
  Module<Network, Cpu<float>> m(1), other(2);
  CHECK(names_of(m.buffers()) ==
        std::vector<std::string>{"running_mean", "blocks.0.ffn.selection_bias", "blocks.1.ffn.selection_bias"});
  for (auto const& p : m.parameters()) CHECK(p.name.find("selection_bias") == std::string_view::npos);
  CHECK(m.get<Network::running_mean>().value(0, 3) == 1);
  CHECK(m.buffers()[1].value(0, 0) == 0);
  CHECK(m.buffers()[1].gradient.data == nullptr);

  auto const x = numbers(128 * 12);
  view<float const> const rows(x.data(), 128, 12);
  m.forward(rows);
  update_selection_bias<std::remove_cv_t<Network::bias>>(m, 0.5, 1);
  auto const bias = m.buffers()[2].value;
  CHECK(m.get<std::remove_cv_t<Network::bias>>(1).value.data == bias.data);
  CHECK(std::any_of(bias.data, bias.data + 6, [](float b) { return b != 0; }));
  CHECK(m.buffers()[1].value(0, 0) == 0);

  auto const y = m.forward(rows);
  auto const agrees = [&](auto& module) {
    auto const z = module.forward(rows);
    return std::equal(y.data, y.data + y.size(), z.data);
  };
  CHECK_FALSE(agrees(other));
  SUBCASE("copied") { copy_parameters(m, other); }
  SUBCASE("saved") {
    std::string const path = "headmix_loss_free_test.safetensors";
    save(path, m);
    load(path, other);
    std::remove(path.c_str());
  }
  CHECK(agrees(other));
  Module<Network, Cpu<float>> shared(share_parameters{}, m);
  CHECK(shared.buffers()[2].value.data == bias.data);
}

}  // namespace loss_free_test

// SPDX-License-Identifier: MIT
// The parameters updated in each step of block coordinate descent.

#include "headmix/train/block_coordinate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "headmix/backend/reference.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/layer/use.hpp"
#include "headmix/program/module.hpp"
#include "headmix/train/sgd.hpp"

using namespace headmix;

namespace {

struct Norm {
  struct D : size<4> {};
  struct x : input<tokens, D> {};
  struct gain : param<D> {};
  static constexpr auto y = x{} * gain{};
  using losses = type_list<>;
  using observed = type_list<>;
};
using L = Mae<4, 3, 2, gate_dim<5>, output_bias>;

/// Two kinds of attention under names.
struct Uses {
  using x = L::x;
  static constexpr auto attn = use<L, "attn">(x{});
  static constexpr auto heads = use<MultiHead<4, 2, 2>, "heads">(attn.y);
  static constexpr auto y = heads.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
/// A repeated layer, between parameters of the network.
struct Block {
  using x = L::x;
  struct gain : param<L::model_dim> {};
  static constexpr auto attn = use<L, "attn">(x{} * gain{});
  static constexpr auto y = x{} + attn.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
struct Blocks {
  using x = L::x;
  struct last : param<L::model_dim> {};
  static constexpr auto blocks = repeat<3, Block, "blocks">(x{});
  static constexpr auto y = blocks.y * last{};
  using losses = type_list<>;
  using observed = type_list<>;
};
struct Router {
  struct x : input<tokens, size<4>> {};
  struct W_g : router_param<size<4>, size<4>> {};
  static constexpr auto y = x{} % W_g{};
  using losses = type_list<>;
  using observed = type_list<>;
};

template <class T>
std::string names(std::vector<parameter<T>> const& group) {
  std::string all;
  for (auto const& p : group) all += std::string(p.name) + ' ';
  return all;
}

std::vector<std::string> sorted(std::string const& list) {
  std::istringstream in(list);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("block coordinate descent: groups of parameters") {
  Module<L, Reference<double>> attention(1);
  Module<Norm, Reference<double>> norm(1);
  ParameterGroups<double> groups;
  groups.add(norm);
  groups.add(attention);
  CHECK(groups.gates.size() == 4);
  CHECK(groups.outputs.size() == 2);
  CHECK(groups.rest.size() == 4);
  CHECK(names(groups.outputs).find("W_o") != std::string::npos);
  CHECK(names(groups.rest).find("gain") != std::string::npos);
  CHECK(moved_by_f_steps(groups, fine_tuning::gates).empty());
  CHECK(moved_by_f_steps(groups, fine_tuning::gates_and_outputs).size() == 2);
  CHECK(moved_by_f_steps(groups, fine_tuning::all).size() == 6);
}
TEST_CASE("block coordinate descent: gates and output matrices of a network are found by what they are") {
  Module<Uses, Reference<double>> uses(1);
  ParameterGroups<double> groups;
  groups.add(uses);
  CHECK(names(groups.gates) == "attn.W_1 attn.b_1 attn.W_2 attn.b_2 ");
  CHECK(names(groups.outputs) == "attn.W_o attn.b_o heads.W_o ");
  CHECK(groups.gates.size() + groups.outputs.size() + groups.rest.size() == uses.parameters().size());
  CHECK(names(moved_by_f_steps(groups, fine_tuning::gates_and_outputs)) == names(groups.outputs));

  Module<Blocks, Reference<double>> blocks(1);
  ParameterGroups<double> of_blocks;
  of_blocks.add(blocks);
  std::string gates, outputs, rest;
  for (char const* const block : {"blocks.0.", "blocks.1.", "blocks.2."}) {
    std::string const attn = std::string(block) + "attn.";
    for (char const* const p : {"W_1 ", "b_1 ", "W_2 ", "b_2 "}) gates += attn + p;
    for (char const* const p : {"W_o ", "b_o "}) outputs += attn + p;
    for (char const* const p : {"gain ", "attn.W_q ", "attn.W_k ", "attn.W_v "}) rest += std::string(block) + p;
  }
  CHECK(sorted(names(of_blocks.gates)) == sorted(gates));
  CHECK(sorted(names(of_blocks.outputs)) == sorted(outputs));
  CHECK(sorted(names(of_blocks.rest)) == sorted(rest + "last "));
}
TEST_CASE("block coordinate descent: a group that is asked for and is empty is an error") {
  Module<Norm, Reference<double>> norm(1);
  ParameterGroups<double> groups;
  CHECK_THROWS_WITH_AS(static_cast<void>(moved_by_f_steps(groups, fine_tuning::all)),
                       "headmix: F steps: expected parameters besides those of gates, found none among 0 parameters",
                       Error);
  groups.add(norm);
  CHECK(moved_by_f_steps(groups, fine_tuning::all).size() == 1);
  for (auto const which : {fine_tuning::gates, fine_tuning::gates_and_outputs}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(moved_by_f_steps(groups, which)),
                         "headmix: G steps: expected parameters of gates, which derive from router_param, found none "
                         "among 1 parameters",
                         Error);
  }
  CHECK_THROWS_AS(static_cast<void>(moved_by_g_steps(groups)), Error);
  Module<Router, Reference<double>> router(1);
  groups.add(router);
  CHECK(moved_by_g_steps(groups).size() == 1);
  CHECK(moved_by_f_steps(groups, fine_tuning::gates).empty());
  CHECK_THROWS_WITH_AS(static_cast<void>(moved_by_f_steps(groups, fine_tuning::gates_and_outputs)),
                       "headmix: F steps: expected output matrices of attention, which derive from attention_output, "
                       "found none among 2 parameters",
                       Error);
}
TEST_CASE("block coordinate descent: FTG+ on a network moves gates and output matrices") {
  Module<Uses, Reference<double>> m(1);
  ParameterGroups<double> groups;
  groups.add(m);
  Sgd<double> gates(moved_by_g_steps(groups)), outputs(moved_by_f_steps(groups, fine_tuning::gates_and_outputs));
  std::vector<double> x(4 * 6), dy(4 * 6);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<double>(3 * i)), dy[i] = std::cos(2. * static_cast<double>(i));
  std::vector<std::vector<double>> before;
  for (auto const& p : m.parameters()) before.emplace_back(p.value.data, p.value.data + p.value.size());
  auto const pass = [&] {
    m.forward({x.data(), 6, 4}, uniform(2, 3));
    m.backward({dy.data(), 6, 4});
  };
  BlockCoordinate const bcd{.g_every = 1, .moves = fine_tuning::gates_and_outputs};
  bcd.step(
      0, gates, [&] { m.zero_gradients(); }, pass, pass, [&] { outputs.step(0.1); });
  std::string moved;
  for (std::size_t i = 0; i < before.size(); ++i) {
    auto const& p = m.parameters()[i];
    if (!std::equal(before[i].begin(), before[i].end(), p.value.data)) moved += std::string(p.name) + ' ';
  }
  CHECK(sorted(moved) == sorted("attn.W_1 attn.b_1 attn.W_2 attn.b_2 attn.W_o attn.b_o heads.W_o "));
}
TEST_CASE("block coordinate descent: the order of steps") {
  std::string log;
  struct {
    std::string& log;
    void step(double rate) { log += "g" + std::to_string(rate).substr(0, 3) + ' '; }
  } gates{log};
  BlockCoordinate const bcd{.g_every = 3, .gate_rate = 0.5};
  for (Index period = 0; period < 4; ++period) {
    bcd.step(
        period, gates, [&] { log += "zero "; }, [&] { log += "mixture "; }, [&] { log += "expert "; },
        [&] { log += "move; "; });
  }
  CHECK(log == "zero expert move; zero expert move; zero mixture g0.5 zero expert move; zero expert move; ");
  CHECK_FALSE(BlockCoordinate{.g_every = 0}.g_step_in(4));
  log.clear();
  BlockCoordinate const only_gates{.gate_rate = 0.5, .moves = fine_tuning::gates};
  for (Index period = 0; period < 2; ++period) {
    only_gates.step(
        period, gates, [&] { log += "zero "; }, [&] { log += "mixture "; }, [&] { log += "expert "; },
        [&] { log += "move; "; });
  }
  CHECK(log == "zero mixture g0.5 zero mixture g0.5 ");
  CHECK(BlockCoordinate{}.g_step_in(4));
}
TEST_CASE("gradient descent") {
  double value[] = {1, 2, 3}, gradient[] = {1, 0, -2};
  Sgd<double> sgd({{"w", view<double>(value, 1, 3), view<double>(gradient, 1, 3)}});
  sgd.step(0.5);
  CHECK(value[0] == 0.5);
  CHECK(value[1] == 2);
  CHECK(value[2] == 4);
}
TEST_CASE("gradient descent on parameters of bfloat16 loses no small step") {
  bfloat16 value[] = {bfloat16(1.f), bfloat16(-3.f)}, gradient[] = {bfloat16(1.f), bfloat16(-2.f)};
  std::vector<parameter<bfloat16>> const p{{"w", view<bfloat16>(value, 1, 2), view<bfloat16>(gradient, 1, 2)}};
  Sgd<bfloat16> sgd(p);
  for (int step = 0; step < 100; ++step) sgd.step(1e-3);  // a fourth of the distance between two numbers below 1
  CHECK(value[0] == bfloat16(0.9f));
  CHECK(value[1] == bfloat16(-2.8f));
  REQUIRE(sgd.state().size() == 1);
  CHECK(sgd.state()[0].name == "weight.w");
  CHECK(std::abs(sgd.state()[0].value(0, 1) + 2.8f) < 1e-4f);
  value[0] = bfloat16(2.f);
  sgd.parameters_changed();
  sgd.step(1e-3);
  CHECK(value[0] == bfloat16(2.f));

  std::vector<bfloat16> w(1000, bfloat16(1.f)), g(1000, bfloat16(1.f));
  view<bfloat16> const vw(w.data(), 1, 1000), vg(g.data(), 1, 1000);
  Sgd<bfloat16> lean({{"w", vw, vg}}, {.narrow = narrow_parameters::stochastic_rounding, .seed = 1});
  for (int step = 0; step < 100; ++step) lean.step(1e-3);
  double sum = 0;
  for (auto const x : w) sum += static_cast<double>(x);
  CHECK(std::abs(sum / 1000 - 0.9) < 3e-3);
  CHECK(lean.state().empty());
}
TEST_CASE("block coordinate descent lowers a loss, and a G step moves only gates") {
  Module<L, Reference<double>> mixture(1);
  Module<L::expert<choice::drawn>, Reference<double>> expert(share_parameters{}, mixture);
  ParameterGroups<double> groups;
  groups.add(mixture);
  Sgd<double> gates(groups.gates), rest(moved_by_f_steps(groups, fine_tuning::all));
  std::vector<double> x(4 * 6), target(4 * 6), dy(4 * 6);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<double>(3 * i));
    target[i] = std::cos(static_cast<double>(i));
  }
  view<double const> const vx(x.data(), 6, 4);
  auto const pass = [&](auto& module) {
    auto const y = module.forward(vx, uniform(2, 3));
    double loss = 0;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dy[i] = y.data[i] - target[i];
      loss += dy[i] * dy[i] / 2;
    }
    module.backward({dy.data(), 6, 4});
    return loss;
  };
  mixture.zero_gradients();
  double const before = pass(mixture);
  double const start = groups.rest.front().value.data[0];
  BlockCoordinate const bcd{.g_every = 2, .gate_rate = 0.1};
  double const gate_start = groups.gates.front().value.data[0];
  for (Index step = 0; step < 60; ++step) {
    bcd.step(
        step, gates, [&] { mixture.zero_gradients(); }, [&] { pass(mixture); }, [&] { pass(expert); },
        [&] { rest.step(0.05); });
    if (step == 0) CHECK(groups.gates.front().value.data[0] == gate_start);
  }
  CHECK(groups.gates.front().value.data[0] != gate_start);
  CHECK(groups.rest.front().value.data[0] != start);
  CHECK(pass(mixture) < 0.8 * before);
}

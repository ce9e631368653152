// SPDX-License-Identifier: MIT
// Leaves by name: a map of tensors binds a program in a loop; names of uses and of repeated layers; errors.

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "../error_of.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/program/module.hpp"

namespace named_leaves_test {

using namespace headmix;
using namespace headmix::test;

namespace {

using Layer = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
using Compute = Cpu<float>;

struct D : size<6> {};
struct block {
  struct x : input<tokens, D> {};
  struct U : param<D, D> {};
  static constexpr auto attn = use<Layer, "attn">(x{});
  static constexpr auto y = x{} + attn.y % U{};
  using losses = type_list<>;
  using observed = type_list<>;
};
struct Network {
  struct x : input<tokens, D> {};
  struct W : param<D, D> {};
  static constexpr auto blocks = repeat<3, block, "blocks">(x{});
  static constexpr auto y = blocks.y % W{};
  using losses = type_list<>;
  using observed = type_list<>;
};

struct tensor {
  view<float> value, gradient;
};
/// Memory of an engine: a value and a gradient for each parameter of a module, with its values.
template <class M>
struct Engine {
  std::vector<std::vector<float>> memory;
  std::map<std::string, tensor> tensors;

  explicit Engine(M const& m) {
    for (auto const& p : m.parameters()) {
      auto const n = p.value.size();
      memory.emplace_back(p.value.data, p.value.data + n);
      float* const value = memory.back().data();
      memory.emplace_back(static_cast<std::size_t>(n));
      view<float> const shape(nullptr, p.value.count, p.value.rows, p.value.cols);
      tensor t{shape, shape};
      t.value.data = value, t.gradient.data = memory.back().data();
      tensors.emplace(p.name, t);
    }
  }
};

template <class L>
void check_loop(std::size_t parameters) {
  using M = Module<L, Compute>;
  M m(3);
  Engine<M> engine(m);
  REQUIRE(engine.tensors.size() == parameters);
  Compute backend;
  Program<typename M::layer_roots, Compute> program(backend);
  std::vector<float> x(42), dx(42), dy(42);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(Random(1).normal(i));
    dy[i] = static_cast<float>(Random(2).normal(i));
  }
  program.bind("x", view<float const>(x.data(), 7, 6), {dx.data(), 7, 6});
  for (named_leaf const& l : program.named_leaves()) {
    if (l.kind != leaf_kind::parameter) continue;
    tensor const& t = engine.tensors.at(std::string(l.name));
    CHECK((t.value.count == l.count && t.value.rows == l.rows && t.value.cols == l.cols));
    CHECK((l.has_gradient && !l.is_bound));
    program.bind(l.name, t.value, t.gradient);
  }
  for (named_leaf const& l : program.named_leaves()) CHECK(l.is_bound);
  AlignedBuffer workspace(program.workspace_bytes());
  program.bind_workspace(workspace.bytes());
  auto const y = program.forward(), expected = m.forward({x.data(), 7, 6});
  CHECK(std::vector<float>(y.data, y.data + 42) == std::vector<float>(expected.data, expected.data + 42));
  program.backward({dy.data(), 7, 6}), m.backward({dy.data(), 7, 6});
  for (auto const& p : m.parameters()) {
    view<float> const found = engine.tensors.at(std::string(p.name)).gradient;
    CHECK(std::vector<float>(found.data, found.data + found.size()) ==
          std::vector<float>(p.gradient.data, p.gradient.data + p.gradient.size()));
  }
  CHECK(dx == std::vector<float>(m.input_gradient().data, m.input_gradient().data + 42));
}

TEST_CASE("names: a map of tensors binds a layer in a loop") { check_loop<Layer>(5); }
TEST_CASE("names: a map of tensors binds a network with repeated layers in a loop") { check_loop<Network>(3 * 6 + 1); }

namespace first {
struct W : param<D, D> {};
}  // namespace first
namespace second {
struct W : param<D, D> {};
}  // namespace second
struct x : input<tokens, D> {};
struct id : selection<tokens, size<1>, D> {};
struct scale : constant<D> {};
constexpr auto several = gather_rows(first::W{}, id{}) % second::W{} * scale{} + dropout<1, 2>(x{});
using Several = Program<roots<std::remove_cv_t<decltype(several)>>, Compute>;

TEST_CASE("names: leaves of one name are bound by their qualified names") {
  Compute backend;
  Several p(backend);
  float memory[36] = {};
  auto const e = error_of([&] { p.bind("W", view<float>(memory, 6, 6)); });
  CHECK(says(e, "bind(): W is the name of 2 leaves: "));
  std::vector<std::string> names;
  for (named_leaf const& l : p.named_leaves()) {
    if (l.name != "W") continue;
    names.emplace_back(l.qualified);
    CHECK(says(e, names.back().c_str()));
    p.bind(l.qualified, view<float>(memory, 6, 6));
  }
  REQUIRE(names.size() == 2);
  CHECK(names[0] != names[1]);
  for (named_leaf const& l : p.named_leaves()) CHECK(l.is_bound == (l.name == "W"));
}
TEST_CASE("names: kinds, extents and gradients of leaves") {
  Compute backend;
  Several p(backend);
  auto const text = [](auto const& program) {
    std::string all;
    for (named_leaf const& l : program.named_leaves()) {
      all += message(l.name, " ", detail::text_of(l.kind), " ", l.count, " ", l.rows, " ", l.cols,
                     l.has_gradient ? " gradient" : "", "; ");
    }
    return all;
  };
  CHECK(text(p) ==
        "W parameter 1 6 6 gradient; id selection 1 -1 1; W parameter 1 6 6 gradient; scale constant 1 1 6; "
        "x input 1 -1 6 gradient; random_key random key 1 1 6; ");
  p.bind_tokens(uniform(2, 4));
  CHECK(says(text(p), "id selection 1 8 1; "));
  Program<roots<std::remove_cv_t<decltype(several)>>, Compute, inference> q(backend);
  CHECK(!says(text(q), "gradient"));
  Program<roots<std::remove_cv_t<decltype(several)>>, Compute, gradients_by<second::W>> by_one(backend);
  std::size_t gradients = 0;
  for (named_leaf const& l : by_one.named_leaves()) gradients += l.has_gradient ? 1 : 0;
  CHECK(gradients == 1);
}
TEST_CASE("names: errors say the names that there are, and are those of bind() by type") {
  Compute backend;
  Several p(backend);
  float memory[48] = {};
  Int ids[8] = {};
  CHECK(says(error_of([&] { p.bind("Wq", view<float>(memory, 6, 6)); }),
             "bind(): expected the name of a leaf, found \"Wq\"; the leaves are "));
  CHECK(says(error_of([&] { p.bind("", view<float>(memory, 6, 6)); }), "id, "));
  CHECK(says(error_of([&] { p.bind("id", view<float>(memory, 8, 1)); }),
             "bind(): id is a selection: expected Int, found numbers of the backend"));
  CHECK(says(error_of([&] { p.bind("scale", view<Int const>(ids, 1, 6)); }),
             "bind(): scale is a constant: expected numbers of the backend, found Int"));
  auto const by_name = error_of([&] { p.bind("x", view<float>(memory, 8, 6), {memory, 8, 5}); });
  CHECK(by_name == error_of([&] { p.bind(x{}, view<float>(memory, 8, 6), {memory, 8, 5}); }));
  CHECK(says(by_name, "the gradient of x has extents [8, 5], its value has [8, 6]"));
  p.bind("id", view<Int const>(ids, 8, 1)), p.bind("x", view<float>(memory, 8, 6));
  p.bind("scale", view<float>(memory, 1, 5));
  for (named_leaf const& l : p.named_leaves()) {
    if (l.kind == leaf_kind::parameter) p.bind(l.qualified, view<float>(memory, 6, 6));
  }
  Int key[6] = {};
  p.bind("random_key", view<Int const>(key, 1, 6));
  CHECK(says(error_of([&] { static_cast<void>(p.workspace_bytes()); }), "scale has 5 columns, expected 6"));
  p.bind("scale", view<float>(memory, 1, 6));
  CHECK(p.workspace_bytes() > 0);
}

}  // namespace

}  // namespace named_leaves_test

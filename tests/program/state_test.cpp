// SPDX-License-Identifier: MIT
// The state of a program: only completed passes count, and after an error no pass uses older values.

#include "headmix/program/run/state.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"

namespace state_test {

namespace {

using namespace headmix;
using doctest::Contains;

struct D : headmix::size<4> {};
struct x : input<tokens, D> {};
struct w : param<D, D> {};

/// The reference with a softmax and a matrix product that fail on request.
struct Failing : Reference<double> {
  bool* fails = nullptr;
  template <class T, class A>
  void softmax(view<T> y, view<A const> a) const {
    if (*fails) throw std::runtime_error("softmax");
    Reference<double>::softmax(y, a);
  }
  template <class T, class A, class B>
  void gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) const {
    if (*fails && accumulate) throw std::runtime_error("gemm");  // of a gradient
    Reference<double>::gemm(y, a, b, accumulate);
  }
};

using Y = std::remove_cv_t<decltype(softmax(x{} % w{}))>;

struct Fixture {
  bool fails = false;
  Failing backend;
  Program<roots<Y>, Failing> program;
  std::vector<double> a = std::vector<double>(64, 0.5), b = a, g = std::vector<double>(16, 0.0);
  AlignedBuffer workspace{1 << 16}, other{1 << 16};

  Fixture() : backend{{}, &fails}, program(backend) {
    bind(3);
    program.bind(w{}, {a.data(), 4, 4}, {g.data(), 4, 4});
    program.bind_workspace(workspace.bytes());
  }
  void bind(Index rows) { program.bind(x{}, {a.data(), rows, 4}); }
  void backward(Index rows = 3) { program.backward({b.data(), rows, 4}); }
};

#define CHECK_REFUSED(f, reason)                                                                        \
  CHECK_THROWS_WITH_AS((f).backward(),                                                                  \
                       Contains("backward() needs a forward() over the same memory and extents before " \
                                "it: " reason),                                                         \
                       Error)

TEST_CASE("state: passes share the kept part of a workspace, and each has a rest of its own") {
  Fixture one, parts;
  for (std::size_t i = 0; i < one.a.size(); ++i) one.a[i] = parts.a[i] = 0.1 * static_cast<double>(i % 7);
  one.program.forward();
  one.backward();
  std::size_t const all = parts.program.workspace_bytes(), kept = parts.program.kept_bytes();
  CHECK(kept > 0);
  CHECK(kept < all);
  AlignedBuffer first(all - kept), second(all - kept);
  auto const memory = parts.other.bytes();
  parts.program.bind_workspace(memory.first(kept), first.bytes().first(8));
  CHECK_THROWS_WITH_AS(parts.program.forward(), Contains("the rest of the workspace has 8 bytes"), Error);
  parts.program.bind_workspace(memory.first(kept - 64), first.bytes());
  CHECK_THROWS_WITH_AS(parts.program.forward(), Contains(message("the program needs ", kept).c_str()), Error);
  CHECK_THROWS_WITH_AS(parts.program.bind_workspace(memory.first(kept), first.bytes().subspan(8)),
                       Contains("must be aligned"), Error);
  parts.program.bind_workspace(memory.first(kept), first.bytes());
  parts.program.forward();
  auto const used = first.bytes();
  std::fill(used.begin(), used.end(), std::byte{0xFF});
  parts.program.bind_workspace(memory.first(kept), second.bytes());
  CHECK_THROWS_AS(parts.backward(), Error);
  parts.program.resume();
  parts.backward();
  CHECK(one.g == parts.g);
  parts.program.bind(x{}, {reinterpret_cast<double*>(second.bytes().data()), 3, 4});
  CHECK_THROWS_AS(parts.program.forward(), Error);  // in the rest
}
TEST_CASE("state: a forward pass is resumed by another program, from a copy of its workspace") {
  Fixture first, second;
  for (std::size_t i = 0; i < first.a.size(); ++i) first.a[i] = second.a[i] = 0.1 * static_cast<double>(i % 7);
  first.program.forward();
  auto const from = first.workspace.bytes(), to = second.other.bytes();
  std::copy(from.begin(), from.end(), to.begin());
  first.backward();
  CHECK_THROWS_AS(second.backward(), Error);
  second.program.bind_workspace(to.first(8));
  CHECK_THROWS_WITH_AS(second.program.resume(), Contains("the workspace has 8 bytes"), Error);
  second.program.bind_workspace(to);
  second.program.resume();
  CHECK(second.program.state() == program_stage::forward_done);
  second.backward();
  CHECK(first.g == second.g);
  CHECK(first.g != std::vector<double>(16, 0.0));
}

TEST_CASE("state: a step that completes advances, a change falls back as far as it must") {
  Fixture f;
  CHECK(f.program.state() == program_stage::bound);
  f.program.bind_workspace(f.workspace.bytes().first(f.program.workspace_bytes()));
  CHECK(f.program.state() == program_stage::planned);
  f.program.forward();
  CHECK((f.program.state() == program_stage::forward_done && f.program.has_run()));
  f.backward();
  CHECK((f.program.state() == program_stage::backward_done && f.program.has_run()));
  f.backward();  // repeated
  f.bind(3);     // with the same memory
  CHECK(f.program.state() == program_stage::backward_done);
  f.program.bind(x{}, {f.b.data(), 3, 4});
  CHECK((f.program.state() == program_stage::planned && !f.program.has_run()));
  f.program.forward();
  f.bind(2);
  CHECK(f.program.state() == program_stage::bound);
}
TEST_CASE("state: a backward pass is refused with the reason") {
  Fixture f;
  CHECK_REFUSED(f, "no forward() has run");
  f.program.forward();
  f.program.bind(x{}, {f.b.data(), 3, 4});
  CHECK_REFUSED(f, "x was bound to other memory");
  f.program.forward();
  f.bind(2);
  CHECK_REFUSED(f, "x was bound to memory of other extents");
  f.bind(3);
  CHECK_REFUSED(f, "x was bound to memory of other extents");  // the first reason is kept
  f.program.forward();
  f.program.bind_workspace(f.other.bytes());
  CHECK_REFUSED(f, "another workspace was bound");
  f.program.forward();
  f.program.bind_tokens(uniform(3, 1));
  CHECK_REFUSED(f, "other sequences were bound");
  f.program.forward();
  Int const past[] = {0, 2, 1};
  segments later = uniform(3, 1);
  later.past = past;
  f.program.bind_tokens(later);
  CHECK_REFUSED(f, "other sequences were bound");
  f.program.forward();
  f.program.set(tokens{}, 3);
  CHECK_REFUSED(f, "a size was set");
}
TEST_CASE("state: a kernel that fails leaves no forward pass, and fails again") {
  Fixture f;
  f.program.forward();
  f.fails = true;
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(f.program.forward(), "softmax", std::runtime_error);
    CHECK(!f.program.has_run());
    CHECK_REFUSED(f, "the last forward() failed");
  }
  f.fails = false;
  CHECK_REFUSED(f, "the last forward() failed");
  f.program.forward();
  f.backward();
}
TEST_CASE("state: a backward pass that fails can be tried again over the same forward pass") {
  Fixture f;
  f.program.forward();
  f.fails = true;
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(f.backward(), "gemm", std::runtime_error);
    CHECK(f.program.state() == program_stage::forward_done);
  }
  f.fails = false;
  f.backward();
  CHECK(f.program.state() == program_stage::backward_done);
}
TEST_CASE("state: an error of bindings is reported by every try, before and after a good pass") {
  for (bool const good_first : {false, true}) {
    Fixture f;
    if (good_first) f.program.forward();
    f.program.bind(w{}, {f.a.data(), 3, 4});
    for (int i = 0; i < 2; ++i) {
      CHECK_THROWS_WITH_AS(static_cast<void>(f.program.workspace_bytes()), Contains("w has 3 rows, expected 4"), Error);
      CHECK_THROWS_WITH_AS(f.program.forward(), Contains("w has 3 rows, expected 4"), Error);
    }
    CHECK_REFUSED(f, "the last forward() failed");
    f.program.bind(w{}, {f.a.data(), 4, 4}, {f.g.data(), 4, 4});
    f.program.forward();
    f.backward();
  }
}
TEST_CASE("state: what an operation refuses is refused by every try of a module") {
  using L = MultiHead<8, 2, 4, relative_position_bias<2, 2, 4>>;  // made for 4 keys
  for (bool const good_first : {false, true}) {
    Module<L, Reference<double>> m(1);
    std::vector<double> const in(600 * 8, 0.5);
    if (good_first) m.forward({in.data(), 4, 8});
    for (int i = 0; i < 2; ++i) {
      CHECK_THROWS_WITH_AS(m.forward({in.data(), 600, 8}), Contains("is for 4 keys, sequence 0 has 600"), Error);
      CHECK_THROWS_WITH_AS(m.backward({in.data(), 600, 8}), Contains("the last forward() failed"), Error);
    }
    // An error before the first binding counts as well.
    m.forward({in.data(), 4, 8});
    CHECK_THROWS_AS(m.forward({in.data(), 4, 8}, uniform(3, 1)), Error);
    CHECK_THROWS_WITH_AS(m.backward({in.data(), 4, 8}), Contains("the last forward() failed"), Error);
    m.forward({in.data(), 4, 8});
    m.backward({in.data(), 4, 8});
  }
}

TEST_CASE("state: after set_randomness() a backward pass would meet another pass than it follows") {
  using L = Moa<4, 2, NoisyTopK<3, 2>, causal, output_dropout<1, 2>>;
  Module<L, Reference<double>> m(1);
  std::vector<double> const in(32, 0.5);
  auto const forward = [&] { m.forward({in.data(), 8, 4}); };
  auto const backward = [&] { m.backward({in.data(), 8, 4}, {0, 0}); };
  m.set_randomness(randomness(5, 1));
  forward();
  m.set_randomness(randomness(5, 1));  // the same key
  backward();
  for (randomness const other : {randomness(5, 2), randomness::off()}) {
    m.set_randomness(other);
    for (int i = 0; i < 2; ++i) {
      CHECK_THROWS_WITH_AS(backward(),
                           "headmix: backward() cannot follow the last forward(): set_randomness() was called after it",
                           Error);
    }
    static_cast<void>(m.loss<0>());  // results of the pass remain valid
    forward();
    backward();
  }
}
TEST_CASE("state: a result is no input of the pass that overwrites it") {
  using L = Moa<4, 2, SoftmaxTopK<3, 2>, causal>;
  Module<L, Reference<double>> m(1), other(2);
  std::vector<double> const in(400, 0.5);
  auto const y = m.forward({in.data(), 8, 4});
  CHECK_THROWS_WITH_AS(m.forward(y), Contains("x lies in the workspace, which the pass overwrites"), Error);
  CHECK_THROWS_WITH_AS(m.backward({in.data(), 8, 4}), Contains("the last forward() failed"), Error);
  // Also if the workspace would grow, and its memory belongs to another owner.
  auto const longer = m.forward({in.data(), 90, 4}, uniform(90, 1));
  CHECK_THROWS_WITH_AS(m.forward(longer, uniform(1, 90)), Contains("x lies in the workspace"), Error);
  // Gradients that a pass adds to must not overlap either, at whatever time they were bound.
  Fixture f;
  f.program.forward();
  f.program.bind(w{}, {f.a.data(), 4, 4}, {f.workspace.as<double>(), 4, 4});
  CHECK_THROWS_WITH_AS(f.backward(), Contains("the gradient of w lies in the workspace"), Error);
  // dy may overlap it, and so may the input of another module.
  auto const again = m.forward({in.data(), 8, 4});
  other.forward(again);
  m.backward(again);
}

}  // namespace

}  // namespace state_test

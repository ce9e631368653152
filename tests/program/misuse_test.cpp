// SPDX-License-Identifier: MIT
// Misuse between binding, running and running again: an error with both numbers, or the right result.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "../error_of.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/testing/gradcheck.hpp"

namespace misuse_test {

namespace {

using namespace headmix;
using headmix::test::error_of, headmix::test::says;

struct D : headmix::size<4> {};
struct Two : headmix::size<2> {};
struct Three : headmix::size<3> {};
struct x : input<tokens, D> {};
struct w : param<D, D> {};
struct memory : param<Three, D> {};
struct target : selection<tokens, headmix::size<1>, D> {};

template <Expr Y>
struct program {
  Reference<double> backend;
  Program<roots<Y>, Reference<double>> program{backend};
};
template <Expr Y>
program<Y> over(Y) {
  return {};
}

TEST_CASE("misuse: a leaf bound to a null pointer") {
  auto p = over(exp(x{}));
  p.program.bind(x{}, {nullptr, 3, 4});
  AlignedBuffer workspace(p.program.workspace_bytes());  // planning needs no memory
  p.program.bind_workspace(workspace.bytes());
  auto const e = error_of([&] { p.program.forward(); });
  CHECK(says(e, "x is bound to a null pointer"));
  CHECK(says(e, "[3, 4]"));
}
TEST_CASE("misuse: a leaf of negative extent") {
  auto p = over(exp(x{}));
  double v[8] = {};
  CHECK(says(error_of([&] { p.program.bind(x{}, {v, -2, 4}); }), "x has a negative extent: [-2, 4]"));
}
TEST_CASE("misuse: a gradient whose elements share memory") {
  auto p = over(exp(x{}));
  double v[8] = {}, g[8] = {};
  view<double> rows_on_each_other{g, 2, 4};
  rows_on_each_other.row_stride = 0;
  CHECK(says(error_of([&] { p.program.bind(x{}, {v, 2, 4}, rows_on_each_other); }), "the gradient of x"));
  CHECK(says(error_of([&] { p.program.bind(x{}, {v, 2, 4}, {v, 2, 4}); }), "memory of its own"));
}
TEST_CASE("misuse: offsets that do not end at the last row") {
  auto p = over(exp(x{}));
  Int const offsets[] = {0, 1, 2};
  auto const e = error_of([&] { p.program.bind_tokens({offsets, 2, 4}); });
  CHECK(says(e, "the offsets end at 2, there are 4 rows"));
}
TEST_CASE("misuse: offsets that were written since they were bound") {
  auto p = over(attention<full>(x{}, x{}, x{}));
  double v[20] = {};
  Int offsets[] = {0, 2, 5};
  p.program.bind(x{}, {v, 5, 4});
  p.program.bind_tokens(ragged(offsets, 2));
  AlignedBuffer workspace(p.program.workspace_bytes());
  p.program.bind_workspace(workspace.bytes());
  auto const pass = [&] { return error_of([&] { p.program.forward(); }); };
  CHECK(pass().empty());
  offsets[1] = 40'000'000;
  CHECK(says(pass(), "offsets must never fall; offset 2 is 5 after 40000000"));
  offsets[1] = 3;
  CHECK(pass().empty());
}
TEST_CASE("misuse: set() and the sequences disagree about the tokens") {
  auto p = over(exp(x{}));
  double v[8] = {};
  p.program.bind(x{}, {v, 2, 4});
  p.program.set(tokens{}, 3);
  p.program.bind_tokens(uniform(1, 2));
  auto const e = error_of([&] { (void)p.program.workspace_bytes(); });
  CHECK(says(e, "set() says 3"));
  CHECK(says(e, "2 rows"));
}
TEST_CASE("misuse: keys in more rows than there are key tokens") {
  struct Split : let<decltype(split_rows<Two>(x{}))> {};
  auto p = over(attention<full>(Split{}, Split{}, Split{}));
  double v[8] = {};
  p.program.bind(x{}, {v, 2, 4});
  auto const e = error_of([&] { (void)p.program.workspace_bytes(); });
  CHECK(says(e, "keys and values have 4 rows for 2 key tokens"));
}
TEST_CASE("misuse: one block of keys for two sequences of queries") {
  auto p = over(attention<full>(x{}, memory{}, memory{}));
  double v[16] = {};
  p.program.bind(x{}, {v, 4, 4});
  p.program.bind(memory{}, {v, 3, 4});
  p.program.bind_tokens(uniform(2, 2));
  CHECK(says(error_of([&] { (void)p.program.workspace_bytes(); }), "2 sequences of queries and 1 of keys"));
}
TEST_CASE("misuse: a split leaf with gaps, through a name") {
  struct named : let<x> {};
  auto p = over(exp(split_rows<Two>(named{})));
  double v[16] = {};
  view<double> gaps{v, 2, 4};
  gaps.row_stride = 8;
  p.program.bind(x{}, gaps);
  CHECK(says(error_of([&] { (void)p.program.workspace_bytes(); }), "has the strides [8, 1], expected [4, 1]"));
}
TEST_CASE("misuse: other memory is bound between forward and backward") {
  auto p = over(exp(x{}));
  double v[8] = {}, other[8] = {}, dy[8] = {};
  p.program.bind(x{}, {v, 2, 4});
  AlignedBuffer workspace(p.program.workspace_bytes());
  p.program.bind_workspace(workspace.bytes());
  p.program.forward();
  p.program.bind(x{}, {other, 2, 4});
  CHECK(says(error_of([&] { p.program.backward({dy, 2, 4}); }), "needs a forward()"));
}
TEST_CASE("misuse: dy is a null pointer") {
  auto p = over(exp(x{}));
  double v[8] = {};
  p.program.bind(x{}, {v, 2, 4});
  AlignedBuffer workspace(p.program.workspace_bytes());
  p.program.bind_workspace(workspace.bytes());
  p.program.forward();
  CHECK(says(error_of([&] { p.program.backward({nullptr, 2, 4}); }), "dy is a null pointer"));
}
TEST_CASE("misuse: no experts are to be chosen") {
  struct K : headmix::size<dynamic> {};
  auto p = over(gather_cols(x{}, arg_top_k<K>(x{})));
  double v[8] = {};
  p.program.bind(x{}, {v, 2, 4});
  p.program.set(K{}, 0);
  CHECK(says(error_of([&] { (void)p.program.workspace_bytes(); }), "K = 0"));
}
TEST_CASE("misuse: gradcheck is not told a size") {
  CHECK(says(error_of([] { gradcheck(exp(x{})); }), "an extent of x is dynamic"));
}
TEST_CASE("misuse: a loss is asked for before a forward pass") {
  Module<Moa<4, 2, SoftmaxTopK<3, 2>>, Reference<double>> m(1);
  CHECK(says(error_of([&] { (void)m.loss<0>(); }), "needs a forward()"));
}

TEST_CASE("misuse: a gradient that shares memory with its value") {
  auto p = over(exp(x{}));
  double v[40];
  CHECK(says(error_of([&] { p.program.bind(x{}, {v, 2, 4}, {v + 1, 2, 4}); }), "it shares some with the value"));
  view<double> overlapping(v + 20, 3, 4);
  overlapping.row_stride = 3;
  CHECK(says(error_of([&] { p.program.bind(x{}, {v, 3, 4}, overlapping); }), "[3, 4] with strides [3, 1] has not"));
  // Value and gradient are halves of a matrix, so they do not overlap.
  view<double> value(v, 3, 4), gradient(v + 4, 3, 4);
  value.row_stride = gradient.row_stride = 8;
  p.program.bind(x{}, value, gradient);
}
TEST_CASE("misuse: sizes whose products no memory can hold, or that are negative") {
  constexpr Index large = Index{1} << 32;
  using F = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>, causal>;
  auto const make = [](Index d) {
    Module<F, Reference<double>> m(1, {}, at<F::model_dim>(d), at<F::head_dim>(d), at<F::experts>(d), at<F::top_k>(1));
  };
  CHECK(says(error_of([&] { make(large); }), "would have the extents 4294967296 x 4294967296, more than the"));
  CHECK(says(error_of([&] { make(Index{1} << 20); }), "would have the extents 1048576 x 1048576 x 1048576, more"));
  CHECK(says(error_of([&] { make(-5); }), "size model_dim must not be negative; found -5"));
  CHECK(says(error_of([&] { static_cast<void>(uniform(large, large)); }),
             "sizes are too large: 4294967296 * 4294967296 is more than"));
  CHECK(says(error_of([&] { static_cast<void>(view<float>(nullptr, large, large)); }), "sizes are too large: "));
  CHECK(says(error_of([&] { static_cast<void>(view<float>(nullptr, large, large, 2)); }), "sizes are too large: "));
  CHECK(says(error_of([&] { Padding(view<Int const>(nullptr, -1, 4)); }), "the mask has"));

  Module<Moa<4, 2, SoftmaxTopK<3, 2>>, Reference<double>> m(1);
  double v[16] = {};
  CHECK(says(error_of([&] { m.forward({v, -4, 4}); }), "x has a negative extent: [-4, 4]"));
  CHECK(says(error_of([&] { m.forward({v, 4, 4}, uniform(1, -4)); }), "a negative number of rows: -4"));
  Int const offsets[] = {0, 4};
  CHECK(says(error_of([&] { m.forward({v, 4, 4}, ragged(offsets, -1)); }), "at least one sequence, found -1"));
  view<double> rows(v, 1, 4);
  rows.row_stride = 0;
  rows.rows = Index{1} << 48;
  CHECK(says(error_of([&] { m.forward(rows); }), "more than the"));
}
/// An executor whose number of threads changes.
struct moody {
  Index threads = 1;
  int* countdown = nullptr;  ///< tasks until one fails
  [[nodiscard]] Index concurrency() const { return threads; }
  template <class F>
  void parallel_for(Index n, F&& f) const {
    for (Index i = 0; i < n; ++i) {
      if (countdown != nullptr && (*countdown)-- == 0) throw std::runtime_error("cancelled");
      f(i);
    }
  }
};
TEST_CASE("misuse: an executor whose concurrency is not positive, or changes") {
  for (Index const threads : {0, -3}) {
    moody executor{threads};
    CHECK(error_of([&] { Cpu<float, moody> cpu(executor); }) ==
          "headmix: the concurrency() of the executor must be at least 1; found " + std::to_string(threads));
  }
  using L = Moa<4, 2, SoftmaxTopK<3, 2>, causal>;
  moody executor;
  Module<L, Cpu<float, moody>> m(1, Cpu<float, moody>(executor));
  std::vector<float> const in(400, 0.5f);
  view<float const> const x(in.data(), 100, 4);
  m.forward(x);
  m.backward(x);
  executor.threads = 8;
  CHECK(says(error_of([&] { m.backward(x); }), "was 1 when the backend was made and is 8 now"));
  for (int i = 0; i < 2; ++i) {
    CHECK(says(error_of([&] { m.forward(x); }), "was 1 when the backend was made and is 8 now"));
    CHECK(says(error_of([&] { m.backward(x); }), "the last forward() failed"));
  }
  executor.threads = 1;
  m.forward(x);
  m.backward(x);
}
TEST_CASE("misuse: an executor that throws in the middle of a pass leaves none to go back from") {
  using L = Moa<4, 2, SoftmaxTopK<3, 2>, causal>;
  int countdown = -1;
  moody executor{2, &countdown};
  Module<L, Cpu<float, moody>> m(1, Cpu<float, moody>(executor));
  std::vector<float> in(2000 * 4);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(Random(1).normal(i));
  view<float const> const x(in.data(), 2000, 4);
  auto const gradient = [&] {
    m.zero_gradients();
    m.backward(x);
    auto const& g = m.get<L::W_q>().gradient;
    return std::vector<float>(g.data, g.data + g.size());
  };
  m.forward(x);
  auto const right = gradient();
  int thrown = 0;
  for (int tasks = 0; tasks < 8; ++tasks) {
    countdown = tasks;
    try {
      m.forward(x);
    } catch (std::runtime_error const&) {
      ++thrown;
      countdown = -1;
      CHECK(says(error_of([&] { m.backward(x); }), "the last forward() failed"));
    }
    countdown = -1;
    m.forward(x);
    CHECK(gradient() == right);
  }
  CHECK(thrown > 3);
}
TEST_CASE("a gradient that is bound after planning is right") {
  using L = Moa<40, 24, SoftmaxTopK<3, 2>, causal>;
  using Tape_ = Program<roots<std::remove_cv_t<decltype(L::y)>>, Cpu<float>>;
  std::vector<std::vector<float>> results;
  for (bool const late : {false, true}) {
    Cpu<float> cpu;
    Tape_ program(cpu);
    program.set(tokens{}, 50);
    std::vector<AlignedBuffer> buffers;
    std::vector<view<float>> gradients;
    auto const bind = [&](bool with_gradient) {
      std::size_t i = 0;
      for_each(Tape_::leaves{}, [&]<class E>() {
        Index const n = program.extent<count<E>>(), r = program.extent<rows<E>>(), c = program.extent<cols<E>>();
        if (buffers.size() == 2 * i) {
          buffers.emplace_back(static_cast<std::size_t>(n * r * c) * 4);
          buffers.emplace_back(static_cast<std::size_t>(n * r * c) * 4);
          float* const p = buffers[2 * i].as<float>();
          for (Index j = 0; j < n * r * c; ++j)
            p[j] = static_cast<float>(Random(1, i).uniform(static_cast<std::uint64_t>(j)) - 0.5);
          gradients.push_back({buffers[2 * i + 1].as<float>(), n, r, c});
        }
        program.bind(E{}, {buffers[2 * i].as<float>(), n, r, c}, with_gradient ? gradients[i] : view<float>{});
        ++i;
      });
    };
    bind(!late);
    AlignedBuffer workspace(program.workspace_bytes());
    program.bind_workspace(workspace.bytes());
    bind(true);
    auto const y = program.forward();
    std::vector<float> const dy(static_cast<std::size_t>(y.size()), 1.0f);
    program.backward({dy.data(), y.rows, y.cols});
    results.emplace_back();
    for (auto const& g : gradients) results.back().insert(results.back().end(), g.data, g.data + g.size());
  }
  CHECK(results[0] == results[1]);
}
TEST_CASE("a module keeps the offsets of its sequences") {
  using L = Moa<4, 2, SoftmaxTopK<3, 2>, causal>;
  Module<L, Reference<double>> kept(1), gone(1);
  std::vector<double> const in{0, 1, 2, 3, 4, 5, 6, 7, 1, 0, 1, 0, 2, 2, 1, 3}, dy(16, 1.0);
  std::vector<Int> const offsets{0, 1, 4};
  kept.forward({in.data(), 4, 4}, ragged(offsets.data(), 2));
  {
    std::vector<Int> short_lived = offsets;
    gone.forward({in.data(), 4, 4}, ragged(short_lived.data(), 2));
    short_lived.assign(3, 99);
  }
  kept.backward({dy.data(), 4, 4}, {0, 0});
  gone.backward({dy.data(), 4, 4}, {0, 0});
  for (Index i = 0; i < 16; ++i) CHECK(kept.input_gradient().data[i] == gone.input_gradient().data[i]);
}
TEST_CASE("a backward pass without loss weights is one with weights of zero") {
  using L = Moa<4, 2, SoftmaxTopK<3, 2>, causal>;
  Module<L, Reference<double>> without(1), zero(1);
  std::vector<double> const in{0, 1, 2, 3, 4, 5, 6, 7, 1, 0, 1, 0, 2, 2, 1, 3}, dy(16, 1.0);
  without.forward({in.data(), 4, 4});
  zero.forward({in.data(), 4, 4});
  without.backward({dy.data(), 4, 4});
  zero.backward({dy.data(), 4, 4}, {0, 0});
  auto const &a = without.get<L::r::W_g>().gradient, &b = zero.get<L::r::W_g>().gradient;
  for (Index i = 0; i < a.size(); ++i) CHECK(a.data[i] == b.data[i]);
}
TEST_CASE("weights of losses in memory of the backend are those of the host") {
  using L = Moa<4, 2, SoftmaxTopK<3, 2>, causal>;
  std::vector<double> const in{0, 1, 2, 3, 4, 5, 6, 7, 1, 0, 1, 0, 2, 2, 1, 3}, dy(16, 1.0);
  Module<L, Reference<double>> host(1), values(1);
  host.forward({in.data(), 4, 4});
  host.backward({dy.data(), 4, 4}, {0.5, -2});
  // The module's program, whose leaves stay bound.
  values.forward({in.data(), 4, 4});
  double numbers[] = {1, 1};
  std::vector<view<double const>> const weights{{&numbers[0], 1, 1}, {&numbers[1], 1, 1}};
  auto const backward = [&] {
    values.program().backward({dy.data(), 4, 4}, std::span<view<double const> const>(weights));
  };
  backward();
  values.zero_gradients();
  numbers[0] = 0.5, numbers[1] = -2;  // read by each pass
  backward();
  for (std::size_t p = 0; p < host.parameters().size(); ++p) {
    auto const &a = host.parameters()[p].gradient, &b = values.parameters()[p].gradient;
    for (Index i = 0; i < a.size(); ++i) CHECK(a.data[i] == b.data[i]);
  }
}
TEST_CASE("softmax does not hide what is not a number, and gives exactly nothing to minus infinity") {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (Index const n : {Index{3}, Index{16}, Index{21}}) {
    std::vector<float> a(static_cast<std::size_t>(n), 1.0f), y(a.size());
    auto const check = [&](auto backend) {
      a[1] = -infinite;
      backend.softmax(view<float>(y.data(), 1, n), view<float const>(a.data(), 1, n));
      CHECK(y[1] == 0.0f);
      CHECK(std::abs(y[0] - 1.0f / static_cast<float>(n - 1)) < 1e-6f);
      a[1] = std::numeric_limits<float>::quiet_NaN();
      backend.softmax(view<float>(y.data(), 1, n), view<float const>(a.data(), 1, n));
      CHECK(std::isnan(y[0]));
      std::fill(a.begin(), a.end(), -infinite);
      backend.softmax(view<float>(y.data(), 1, n), view<float const>(a.data(), 1, n));
      for (float const p : y) CHECK(p == 0.0f);
      std::fill(a.begin(), a.end(), 1.0f);
    };
    check(Reference<float>{});
    check(Cpu<float>{});
  }
}
TEST_CASE("a row without target has no cross entropy and no gradient") {
  auto p = over(cross_entropy(x{}, target{}));
  double v[8] = {1, 2, 3, 4, 4, 3, 2, 1}, g[8] = {}, dy[2] = {1, 1};
  Int const targets[] = {-1, 2};
  p.program.bind(x{}, {v, 2, 4}, {g, 2, 4});
  p.program.bind(target{}, {targets, 2, 1});
  AlignedBuffer workspace(p.program.workspace_bytes());
  p.program.bind_workspace(workspace.bytes());
  auto const y = p.program.forward();
  CHECK(y(0, 0) == 0);
  CHECK(y(1, 0) > 0);
  p.program.backward({dy, 2, 1});
  for (int j = 0; j < 4; ++j) CHECK(g[j] == 0);
  CHECK(g[6] < 0);
}

}  // namespace

}  // namespace misuse_test

#pragma once
// SPDX-License-Identifier: MIT
// Expressions as users write them, run by a program: fused ones are one kernel, others a kernel for each operation.

#include <vector>

#include "common.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/expr/pointwise.hpp"
#include "headmix/program/program.hpp"

namespace bench {

struct D : headmix::size<headmix::dynamic> {};
struct E : headmix::size<headmix::dynamic> {};
struct K : headmix::size<headmix::dynamic> {};
struct x : headmix::input<headmix::tokens, D> {};
struct gain : headmix::param<D> {};
struct bias : headmix::param<D> {};
struct table : headmix::param<E, D> {};
struct chosen : headmix::selection<headmix::tokens, K, E> {};
struct id : headmix::selection<headmix::tokens, headmix::size<1>, E> {};

/// A program for Y with its memory. Numbers are in [0.5, 1.5), selections are spread over all valid choices.
template <class Y, class Backend>
struct Expression {
  using program_type = headmix::Program<headmix::roots<Y>, Backend>;
  struct Leaf {
    headmix::AlignedBuffer value, gradient;
    view<float> matrix;  ///< gradient of the leaf; no data for a selection
  };
  program_type program;
  std::vector<Leaf> leaves;
  headmix::AlignedBuffer workspace;
  view<float const> y{};

  Expression(Backend& backend, Index t, Index d, Index e, Index k) : program(backend) {
    using namespace headmix;
    program.set(D{}, d);
    program.set(E{}, e);
    program.set(K{}, k);
    program.set(tokens{}, t);
    for_each(typename program_type::leaves{}, [&]<class L>() { bind<L>(e); });
    workspace = AlignedBuffer(program.workspace_bytes());
    program.bind_workspace(workspace.bytes());
  }
  void run(bool backward, view<float const> dy) {
    y = program.forward();
    if (backward) program.backward(dy);
  }

 private:
  template <class L>
  void bind(Index experts) {
    using namespace headmix;
    Index const n = program.template extent<count<L>>(), r = program.template extent<rows<L>>(),
                c = program.template extent<cols<L>>();
    std::size_t const size = static_cast<std::size_t>(n * r * c), bytes = size * sizeof(float);
    leaves.push_back({AlignedBuffer(bytes), AlignedBuffer(bytes), {}});
    Leaf& leaf = leaves.back();
    Random const random(leaves.size());
    if constexpr (Selection<L>) {
      auto* const p = leaf.value.template as<Int>();
      for (std::size_t i = 0; i < size; ++i) {
        std::size_t const row = i / static_cast<std::size_t>(c), column = i % static_cast<std::size_t>(c);
        auto const all = static_cast<std::uint64_t>(experts);
        p[i] = static_cast<Int>((random.below(row, all) + column) % all);
      }
      program.bind(L{}, {p, n, r, c});
    } else {
      auto* const p = leaf.value.template as<float>();
      for (std::size_t i = 0; i < size; ++i) p[i] = static_cast<float>(random.uniform(i) + 0.5);
      leaf.matrix = {leaf.gradient.template as<float>(), n, r, c};
      program.bind(L{}, {p, n, r, c}, leaf.matrix);
    }
  }
};

/// The timed backend against plain loops: the result and every gradient.
template <class Y>
void check_expression(std::string const& name, Index threads) {
  constexpr Index t = 70, d = 40, e = 8, k = 3;
  Cpu<float> cpu(pool(threads));
  headmix::Reference<float> reference;
  Expression<Y, Cpu<float>> ours(cpu, t, d, e, k);
  Expression<Y, headmix::Reference<float>> plain(reference, t, d, e, k);
  ours.run(false, {});
  Matrix<float> const dy(ours.y.rows, ours.y.cols);
  ours.run(true, dy.get());
  plain.run(true, dy.get());
  check_equal<float>(name, ours.y, plain.y, 1e-4);
  for (std::size_t i = 0; i < ours.leaves.size(); ++i) {
    view<float const> const a = ours.leaves[i].matrix, b = plain.leaves[i].matrix;
    if (b.data) check_equal<float>(name + ": a gradient", a, b, 1e-4);
  }
}

/// Rows `name_forward` and `name_backward` of an expression over T tokens of width D, with E experts (or rows of a
/// table) and K choices.
template <class Y>
void add(std::string const& name, Y) {
  for (bool const backward : {false, true}) {
    add(name + (backward ? "_backward" : "_forward") + "/cpu/float", {"T", "D", "E", "K"}, {{1024, 512, 32, 8}}, {1},
        [name, backward](benchmark::State& state) {
          Index const t = state.range(0), threads = state.range(4);
          check_expression<Y>(name, threads);
          Cpu<float> cpu(pool(threads));
          Expression<Y, Cpu<float>> e(cpu, t, state.range(1), state.range(2), state.range(3));
          e.run(false, {});
          Matrix<float> const dy(e.y.rows, e.y.cols);
          time_calls(state, [&] { e.run(backward, dy.get()); });
          count_tokens(state, t);
        });
  }
}

}  // namespace bench

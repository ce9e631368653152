#pragma once
// SPDX-License-Identifier: MIT
// Small programs of a few leaves, for any backend.

#include <cstdint>
#include <type_traits>
#include <vector>

#include "headmix/contract/memory.hpp"
#include "headmix/core/random.hpp"
#include "headmix/expr/attention.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/expr/rotary.hpp"
#include "headmix/program/program.hpp"

namespace headmix::test::programs {

struct D : headmix::size<dynamic> {};
struct H : headmix::size<37> {};
struct E : headmix::size<5> {};
struct K : headmix::size<2> {};
struct x : input<tokens, D> {};
struct W : param<D, H> {};
struct U : param<D, H> {};
struct V : param<D, headmix::size<24>> {};
struct b : param<H> {};
struct g : param<H> {};
struct W_e : param<E, D, H> {};
struct table : param<E, H> {};
struct id : selection<tokens, headmix::size<1>, E> {};
struct choice : selection<tokens, K, E> {};
struct positive : let<decltype(exp(x{} % W{}))> {};

using numbers = std::vector<double>;

/// The result and the gradient of every leaf of y, on leaves whose numbers are exact in T.
template <class T, class Backend, Expr Y>
std::vector<numbers> run(Backend backend, Y, Index n, Index width = 7) {
  using scalar = typename Backend::scalar;
  Program<roots<Y>, Backend> program(backend);
  program.set(tokens{}, n);
  program.set(D{}, width);
  std::vector<backend_memory<Backend>> memory;
  std::vector<view<scalar>> gradients;
  auto const fill = [&]<class N>(std::vector<N> const& values) {
    memory.emplace_back(values.size() * sizeof(N));
    upload(backend, memory.back().template as<N>(), values.data(), values.size());
    return memory.back().template as<N>();
  };
  auto const read = [&]<class N>(N const* from, Index size) {
    std::vector<N> values(static_cast<std::size_t>(size));
    download(backend, values.data(), from, values.size());
    return numbers(values.begin(), values.end());
  };
  auto const random = [](Index size, std::uint64_t stream, double shift) {
    std::vector<scalar> values;
    for (Index i = 0; i < size; ++i) {
      T const value = static_cast<T>(Random(3, stream).uniform(static_cast<std::uint64_t>(i)) + shift);
      values.push_back(static_cast<scalar>(static_cast<double>(value)));
    }
    return values;
  };
  for_each(typename decltype(program)::leaves{}, [&]<class L>() {
    Index const c = program.template extent<count<L>>(), r = program.template extent<rows<L>>(),
                w = program.template extent<cols<L>>();
    if constexpr (std::is_same_v<L, random_key>) {
      randomness const key(5, 6, 7, 8);
      program.bind(L{}, {fill(std::vector<Int>(key.word, key.word + 6)), c, r, w});
    } else if constexpr (Selection<L>) {
      std::vector<Int> chosen;
      for (Index i = 0; i < r * w; ++i) {
        chosen.push_back(static_cast<Int>(Random(4, memory.size()).below(static_cast<std::uint64_t>(i), 6)) - 1);
      }
      program.bind(L{}, {fill(chosen), c, r, w});
    } else {
      scalar* const values = fill(random(c * r * w, memory.size(), -0.4));
      memory.emplace_back(static_cast<std::size_t>(c * r * w) * sizeof(scalar));
      gradients.push_back({memory.back().template as<scalar>(), c, r, w});
      program.bind(L{}, {values, c, r, w}, gradients.back());
    }
  });
  backend_memory<Backend> workspace(program.workspace_bytes());
  program.bind_workspace(workspace.bytes());
  auto const y = program.forward();
  using result = std::remove_const_t<std::remove_pointer_t<decltype(y.data)>>;
  std::vector<result> dy;
  for (scalar const d : random(y.size(), 1000, -0.5)) dy.push_back(static_cast<result>(static_cast<double>(d)));
  result const* const seed = fill(dy);
  program.backward({seed, y.rows, y.cols});
  std::vector<numbers> all = {read(y.data, y.size())};
  for (auto const& d : gradients) all.push_back(read(static_cast<scalar const*>(d.data), d.size()));
  return all;
}

}  // namespace headmix::test::programs

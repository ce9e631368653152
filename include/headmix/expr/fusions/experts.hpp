#pragma once
// SPDX-License-Identifier: MIT
// The hidden layer of experts as one step: products of the same rows with one or two stacks of weights, and a pointwise
// tree over the products. One kernel if the backend is FusedExperts.

#include <array>

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/fusion.hpp"
#include "headmix/expr/pointwise.hpp"

namespace headmix {
namespace ops {

/// y = the tree over the products, and the products themselves, each only if its data is not null.
template <class SlotsPerRow>
struct expert_linear_map : operation {
  static constexpr bool needs_scratch = true;
  template <class T, class Tree>
  static std::size_t scratch(auto const& run, view<T> y, view<T> p, lazy<Tree> const& tree, view<T const> x,
                             view<T const> w, auto, auto) {
    return scratch_of<T, 1>(run, y, tree, {p}, x, {w});
  }
  template <class T, class Tree>
  static std::size_t scratch(auto const& run, view<T> y, view<T> p, view<T> q, lazy<Tree> const& tree, view<T const> x,
                             view<T const> w, view<T const> v, auto, auto) {
    return scratch_of<T, 2>(run, y, tree, {p, q}, x, {w, v});
  }
  template <class T, class Tree>
  static void eval(auto const& run, view<T> y, view<T> p, lazy<Tree> const& tree, view<T const> x, view<T const> w,
                   auto perm, auto offsets) {
    eval_of<T, 1>(run, y, tree, {p}, x, {w}, perm, offsets);
  }
  template <class T, class Tree>
  static void eval(auto const& run, view<T> y, view<T> p, view<T> q, lazy<Tree> const& tree, view<T const> x,
                   view<T const> w, view<T const> v, auto perm, auto offsets) {
    eval_of<T, 2>(run, y, tree, {p, q}, x, {w, v}, perm, offsets);
  }

 private:
  template <class T, std::size_t Stacks>
  static std::size_t scratch_of(auto const& run, auto y, auto const& tree, std::array<view<T>, Stacks> const& products,
                                auto x, std::array<view<T const>, Stacks> const& w) {
    return run.backend.grouped_gemm_map_scratch(y, tree.tree, products, x, w);
  }
  template <class T, std::size_t Stacks>
  static void eval_of(auto const& run, auto y, auto const& tree, std::array<view<T>, Stacks> const& products, auto x,
                      std::array<view<T const>, Stacks> const& w, auto perm, auto offsets) {
    run.backend.grouped_gemm_map(y, tree.tree, products, x, w, perm, offsets, run.template extent<SlotsPerRow>(),
                                 run.scratch);
  }
};

}  // namespace ops

namespace detail {

/// True if the matrix Y is computed pointwise from the products P and from no other matrix of their shape.
template <class Y, class... P>
inline constexpr bool is_map_of = Pointwise<Y>&& Y::kind_of == kind::real&& count<Y>::value == 1 &&
                                  ((std::is_same_v<typename Y::extents, typename P::extents> &&
                                    reads_element<Y, P>)&&...);

template <class Slots, class Y, class Products, class... Operands>
using expert_map =
    fused<ops::expert_linear_map<Slots>, type_list<Y>, Products, type_list<over_products<Y, Products>, Operands...>>;

template <FusedExperts Backend, class Slots, class E, class X, class W, class Perm, class Offsets, class Y, class... T>
requires(is_map_of<Y, node<ops::expert_linear<Slots, E>, X, W, Perm, Offsets>>)  //
    inline constexpr fused_as<
        expert_map<Slots, Y, type_list<node<ops::expert_linear<Slots, E>, X, W, Perm, Offsets>>, X, W, Perm, Offsets>,
        type_list<node<ops::expert_linear<Slots, E>, X, W, Perm, Offsets>>,
        type_list<T...>> fusion<Backend, type_list<run_kernel<node<ops::expert_linear<Slots, E>, X, W, Perm, Offsets>>,
                                                   materialize<Y>, T...>>{};

/// Two products with the same rows, and a pointwise tree over both: one kernel.
template <FusedExperts Backend, class Slots, class E, class X, class W, class V, class Perm, class Offsets, class Y,
          class... T>
requires(is_map_of<Y, node<ops::expert_linear<Slots, E>, X, W, Perm, Offsets>,
                   node<ops::expert_linear<Slots, E>, X, V, Perm, Offsets>>)  //
    inline constexpr fused_as<
        expert_map<Slots, Y,
                   type_list<node<ops::expert_linear<Slots, E>, X, W, Perm, Offsets>,
                             node<ops::expert_linear<Slots, E>, X, V, Perm, Offsets>>,
                   X, W, V, Perm, Offsets>,
        type_list<node<ops::expert_linear<Slots, E>, X, W, Perm, Offsets>,
                  node<ops::expert_linear<Slots, E>, X, V, Perm, Offsets>>,
        type_list<T...>> fusion<Backend, type_list<run_kernel<node<ops::expert_linear<Slots, E>, X, W, Perm, Offsets>>,
                                                   run_kernel<node<ops::expert_linear<Slots, E>, X, V, Perm, Offsets>>,
                                                   materialize<Y>, T...>>{};

}  // namespace detail
}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// The parameters of a layer and the multiply-accumulates (MACs) of its forward pass, from the layer's own equations:
// the type of a layer's y contains all its operands, so counting is a sum over them, with no separate formula to
// maintain.
//
//   using layer = Moa<512, 128, SoftmaxTopK<8, 8>>;
//   static_assert(count_parameters<layer>({.router = false}) == (2 * 8 + 2) * 128 * 512);
//   Index const n = count_macs<layer>(at<tokens>(10));
//
// Zhang et al. 2022 give, for T tokens, widths d and d_h, and k of E experts,
//
//   MACs        MoA         k T^2 d_h + 2 (k + 1) T d_h d   (18)
//               multi-head  T^2 d + 4 T d^2                 (19)
//   parameters  MoA         (2 E + 2) d_h d                 (20)
//
// Executed work differs from these: q k^T and p v are a T^2 term each, where the papers have one for both; a mask skips
// scores; and the router has T d E MACs and d E parameters, which the papers omit. The flags of `counted` omit terms.
// The cost of each operation is in expr/macs.hpp.

#include <algorithm>
#include <type_traits>

#include "headmix/core/error.hpp"
#include "headmix/expr/macs.hpp"
#include "headmix/expr/repeat.hpp"
#include "headmix/program/lower/schedule.hpp"
#include "headmix/program/table/extent_formula.hpp"

namespace headmix {

/// The counted terms: all, unless a flag is cleared, e.g. `count_macs<L>({.attention_term = false}, ...)`.
struct counted {
  bool bias = true;    ///< parameters that are added to rows: leaves that derive from `bias_param`
  bool router = true;  ///< parameters of routers, leaves that derive from `router_param`, and products with them
  bool attention_term = true;  ///< the MACs of q k^T and p v, the T^2 term
  bool inference = false;      ///< y as a program without gradients computes it, if the layer defines it differently
};

namespace detail {

/// Extents with the sizes of the caller.
template <Extent... X>
struct given_sizes : size_value<X>... {
  static_assert(((X::value == dynamic) && ...), "headmix: this size is static; it needs no value");

  template <Extent Y>
  [[nodiscard]] constexpr Index extent() const {
    if constexpr (Y::value != dynamic) {
      return Y::value;
    } else {
      static_assert(has_all(named_sizes<Y>{}), "headmix: a dynamic size has no value; give it: at<...>(n)");
      Index const sizes[] = {number<X>()..., number<sequences>()};
      return evaluate(formula_of<names, Y>, sizes, true);
    }
  }
  /// The sequences, of equal length, of the rows counted by Y.
  template <Extent Y>
  [[nodiscard]] constexpr segments segments_of() const {
    if constexpr (is_multiple_of<Y, tokens>) {
      return divided(extent<tokens>());
    } else if constexpr (is_multiple_of<Y, context_tokens>) {
      return divided(extent<context_tokens>());
    } else {
      return uniform(1, extent<Y>());
    }
  }

 private:
  /// `sequences` defaults to 1.
  using names = push_unique<type_list<X...>, sequences>;
  template <class... Y>
  static constexpr bool has_all(type_list<Y...>) {
    return (contains<names, Y> && ...);
  }
  template <Extent Y>
  constexpr Index number() const {
    if constexpr (contains<type_list<X...>, Y>) {
      Index const found = size_value<Y>::n;
      if (0 > found) fail("a size must not be negative; found ", found);
      return found;
    } else {
      return 1;  // sequences
    }
  }
  constexpr segments divided(Index rows) const {
    Index const parts = extent<sequences>();
    check_divides(rows, parts);
    return uniform(parts, rows / parts);
  }
};

template <Extent... X>
void as_bias(bias_param<X...> const&);
template <class L>
concept Bias = requires(L const& leaf) {
  as_bias(leaf);
};

template <class... L>
constexpr bool all_of_router(type_list<L...>) {
  return sizeof...(L) > 0 && (RouterParameter<L> && ...);
}
/// True if one of the operands is made of a router's parameters alone.
template <class... A>
constexpr bool reads_router(type_list<A...>) {
  return (all_of_router(leaves_of<roots<A>>{}) || ...);
}

/// The values whose parameters a module of the layer owns.
template <class L>
struct layer_roots {
  using list = concat<type_list<std::remove_cvref_t<decltype(L::y)>>, typename L::losses, typename L::observed>;
};

/// The number of instances of a parameter.
template <class P>
constexpr Index times_of(auto const& sizes) {
  if constexpr (RepeatedLeaf<P>) {
    return sizes.template extent<typename P::repeated_by::count>();
  } else {
    return 1;
  }
}
}  // namespace detail

/// The number of parameters that a Module of layer L owns; packed ones are the weights in them. Dynamic sizes of the
/// layer follow as `at<L::model_dim>(512)`; one that is missing is a compile error.
template <class L, Extent... X>
[[nodiscard]] constexpr Index count_parameters(counted what, size_value<X>... given) {
  detail::given_sizes<X...> const sizes = {given...};
  checked n = 0;
  for_each(leaves_of<detail::layer_roots<L>>{}, [&]<class P>() {
    if constexpr (Parameter<P>) {
      if (!what.bias && detail::Bias<P>) return;
      if (!what.router && RouterParameter<P>) return;
      n += checked(detail::times_of<P>(sizes)) * sizes.template extent<count<P>>() * sizes.template extent<rows<P>>() *
           sizes.template extent<cols<P>>();
    } else if constexpr (PackedParameter<P>) {
      n += checked(detail::times_of<P>(sizes)) * sizes.template extent<count<P>>() *
           sizes.template extent<typename P::in>() * sizes.template extent<typename P::out>();
    }
  });
  return n.value;
}
/// count_parameters with all terms.
template <class L, Extent... X>
[[nodiscard]] constexpr Index count_parameters(size_value<X>... given) {
  return count_parameters<L>(counted{}, given...);
}

namespace detail {
template <class A>
inline constexpr repeat_edge edge_at = repeat_edge::none;
template <class R, repeat_edge Edge, class A>
inline constexpr repeat_edge edge_at<node<ops::at_edge<R, Edge>, A>> = Edge;

/// MACs below Roots with repeated parts counted once.
template <class Roots, class Sizes>
constexpr Index macs_once(Roots, counted what, Sizes const& sizes) {
  checked n = 0;
  for_each(nodes_of<Roots>{}, [&]<class A>() {
    if constexpr (requires { macs(A{}, sizes); }) {
      if (what.router || !reads_router(typename A::args{})) n += macs(A{}, sizes);
    }
    if constexpr (requires { attention_macs(A{}, sizes); }) {
      if (what.attention_term) n += attention_macs(A{}, sizes);
    }
  });
  return n.value;
}
/// The operand of node E if repetition R reads it from outside.
template <class R, class E>
struct input_of_repetition {
  using type = type_list<>;
};
template <class R, class A>
struct input_of_repetition<R, node<ops::at_edge<R, repeat_edge::begin>, A>> {
  using type = type_list<A>;
};
template <class R, class A>
struct input_of_repetition<R, node<ops::shared_input<R>, A>> {
  using type = type_list<A>;
};
/// The values outside of repetition R that its instances read: the operands of its input edges in Nodes.
template <class R, class Nodes>
struct inputs_of_repetition;
template <class R, class... E>
struct inputs_of_repetition<R, type_list<E...>> {
  using list = concat<typename input_of_repetition<R, E>::type...>;
};
/// A value below the end of a repeated part, and not below what the part reads from outside, is counted once per
/// instance.
template <class Y, class Sizes>
constexpr Index macs_below(Y, counted what, Sizes const& sizes) {
  using nodes = nodes_of<roots<Y>>;
  checked n = macs_once(roots<Y>{}, what, sizes);
  for_each(nodes{}, [&]<class A>() {
    if constexpr (edge_at<A> == repeat_edge::end) {
      using R = typename A::op::repeated_by;
      Index const once = macs_once(roots<first_in<typename A::args>>{}, what, sizes);
      Index const outside = macs_once(inputs_of_repetition<R, nodes>{}, what, sizes);
      n += checked(sizes.template extent<typename R::count>() - 1) * (once - outside);
    }
  });
  return n.value;
}
}  // namespace detail

/// The MACs of y of layer L. Matrix products, products with experts and attention count; sums, softmax, norms and other
/// pointwise work do not, nor do losses, which only training computes.
///
/// Sizes are `at<tokens>(n)`, with keys from another input `at<context_tokens>(n)`, and the dynamic ones of the layer;
/// a missing size is a compile error. Tokens are all of one sequence, or of `at<sequences>(n)` sequences of equal
/// length.
template <class L, Extent... X>
[[nodiscard]] constexpr Index count_macs(counted what, size_value<X>... given) {
  detail::given_sizes<X...> const sizes = {given...};
  if constexpr (requires { L::y_inference; }) {
    if (what.inference) return detail::macs_below(L::y_inference, what, sizes);
  }
  return detail::macs_below(L::y, what, sizes);
}
/// count_macs with all terms.
template <class L, Extent... X>
[[nodiscard]] constexpr Index count_macs(size_value<X>... given) {
  return count_macs<L>(counted{}, given...);
}

}  // namespace headmix

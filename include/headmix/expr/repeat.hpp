#pragma once
// SPDX-License-Identifier: MIT
// The edges of a part of a program that is repeated, each time with its own leaves and on the result of the time
// before. An expression contains the part once; the tables of the program are unrolled when it is made
// (program/run/unroll.hpp), so compile time does not grow with the number of repetitions.

#include "headmix/core/view.hpp"
#include "headmix/expr/repeat_edge.hpp"
#include "headmix/expr/rewrite.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {

/// The repetition of a leaf or an edge: `Count` times under a name; Recompute: the backward pass computes its values
/// again.
template <Extent Count, name_text Name, bool Recompute>
struct repetition {
  using count = Count;
  static constexpr bool recompute = Recompute;
  /// The name, as in the names of leaves.
  static constexpr auto text = Name;
  static constexpr char const* name = text.text;
};
namespace detail {
/// "name.*"
template <std::size_t Size>
consteval auto with_star(name_text<Size> const& name) {
  char text[Size + 2] = {};
  std::copy_n(name.text, Size - 1, text);
  text[Size - 1] = '.', text[Size] = '*';
  return name_text<Size + 2>(text);
}
}  // namespace detail

/// The repetition of a network that is used under a name.
template <class R, name_text Name>
struct repetition_in : R {};

namespace ops {
/// An edge of repetition R: it copies the value that enters or leaves.
template <class R, repeat_edge Edge>
struct at_edge : operation {
  using repeated_by = R;
  static constexpr repeat_edge edge = Edge;
  static constexpr bool differentiable = Edge == repeat_edge::begin || Edge == repeat_edge::end;
  static constexpr bool takes_stacks = true;
  template <class A>
  using shape_of = typename A::extents;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> a) {
    run.copy(y, a, false);
  }
  template <Expr D>
  static constexpr auto vjp(D dy, auto, auto) {
    constexpr repeat_edge back = Edge == repeat_edge::begin ? repeat_edge::gradient_end : repeat_edge::gradient_begin;
    return grads(make<at_edge<R, back>>(dy));
  }
};
/// The sum over all repetitions of a number, or of the gradients by a shared_input.
template <class R, repeat_edge Edge = repeat_edge::total>
struct repeat_total : operation {
  using repeated_by = R;
  static constexpr repeat_edge edge = Edge;
  static constexpr bool accumulates = true;
  template <class A>
  using shape_of = typename A::extents;
  /// Gradients in the storage type are summed in the accumulator's.
  template <class A>
  static constexpr kind kind_of = (Edge == repeat_edge::gradient_total) && (A::kind_of == kind::real)
                                      ? kind::accumulator
                                      : A::kind_of;
  template <class T, class U>
  static void eval(auto const& run, view<T> y, bool accumulate, view<U const> a) {
    run.copy(y, a, accumulate);
  }
  template <Expr D>
  static constexpr auto vjp(D dy, auto, auto) {
    return grads(dy);
  }
};
/// A value from outside of repetition R that all repetitions read. Its gradient is the sum of theirs, from the last
/// repetition to the first one.
template <class R>
struct shared_input : reshape {
  static constexpr bool gathers_gradients = true;
  template <class A>
  using shape_of = typename A::extents;
  template <class T>
  static constexpr view<T> apply(auto const&, view<T> a) {
    return a;
  }
  /// The sum has a buffer that nothing else adds to, so that the whole part can run before the other terms.
  template <Expr D>
  static constexpr auto vjp(D, auto, auto) {
    return grads(let<applied<repeat_total<R, repeat_edge::gradient_total>, D>>{});
  }
};
}  // namespace ops

/// A leaf with memory of its own in every repetition.
template <class L>
concept RepeatedLeaf = Leaf<L> && requires {
  typename L::repeated_by;
};

/// Leaf P of a repeated layer.
template <Leaf P, class R>
struct repeated_leaf : P {
  using repeated_by = R;
  /// The characters of the name.
  static constexpr auto joined = detail::joined_name<P, detail::with_star(R::text)>();
  /// The name in messages and lists of parameters, with a star for the number of the repetition.
  static constexpr char const* name = joined.data();
};

/// A repeated leaf of a network that is used under a name.
template <RepeatedLeaf P, name_text Name>
struct leaf_in<P, Name> : P {
  using repeated_by = repetition_in<typename P::repeated_by, Name>;
  /// The characters of the name.
  static constexpr auto joined = detail::joined_name<P, Name>();
  /// The name in messages and lists of parameters.
  static constexpr char const* name = joined.data();
};

namespace detail {
/// The edges of a network that is used under a name.
template <class Op, name_text Name>
struct edge_in {
  using type = Op;
};
template <class R, repeat_edge Edge, name_text Name>
struct edge_in<ops::at_edge<R, Edge>, Name> {
  using type = ops::at_edge<repetition_in<R, Name>, Edge>;
};
template <class R, name_text Name>
struct edge_in<ops::repeat_total<R>, Name> {
  using type = ops::repeat_total<repetition_in<R, Name>>;
};
template <class R, name_text Name>
struct edge_in<ops::shared_input<R>, Name> {
  using type = ops::shared_input<repetition_in<R, Name>>;
};

template <class L>
struct repetition_of {
  using type = type_list<>;
};
template <RepeatedLeaf L>
struct repetition_of<L> {
  using type = type_list<typename L::repeated_by>;
};
template <class Leaves>
struct repetitions_of;
template <class... L>
struct repetitions_of<type_list<L...>> {
  using type = unique<concat<typename repetition_of<L>::type...>>;
};
}  // namespace detail

/// The repetitions that a list of leaves belongs to.
template <class Leaves>
using repetitions_in = typename detail::repetitions_of<Leaves>::type;

}  // namespace headmix

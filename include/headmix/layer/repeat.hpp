#pragma once
// SPDX-License-Identifier: MIT
// A layer applied several times in sequence, each instance with its own parameters and random numbers: the blocks of a
// network. The compiler sees one block.

#include "headmix/expr/random.hpp"
#include "headmix/layer/use.hpp"

namespace headmix {

namespace detail {

/// The replacements of the leaves of layer L in a repetition.
template <class L, class R, class Carried, class... Given>
struct leaves_in_repeat {
  /// A value that all instances read.
  template <class E>
  static constexpr auto shared(E value) {
    if constexpr (E::grad) {
      return make<ops::shared_input<R>>(value);
    } else {
      return value;
    }
  }
  template <class P>
  static constexpr auto leaf_for() {
    using value = typename value_given<P, Given...>::type;
    if constexpr (std::is_same_v<P, typename L::x>) {
      return Carried{};
    } else if constexpr (!std::is_void_v<value>) {
      return shared(value{});
    } else if constexpr (is_context_of<L, P>) {
      static_assert(!is_context_of<L, P>,
                    "headmix: the layer has a second input; give it its value: repeat<n, Layer, \"name\">(x, context)");
    } else if constexpr (is_valid_rows_of<L, P> || std::is_same_v<P, valid_rows_of_uses>) {
      return valid_rows_of_uses{};
    } else if constexpr (is_context_valid_rows_of<L, P> || std::is_same_v<P, context_valid_rows_of_uses>) {
      return context_valid_rows_of_uses{};
    } else if constexpr (Parameter<P> || PackedParameter<P> || ModuleBuffer<P> || std::is_base_of_v<random_key, P>) {
      static_assert(!RepeatedLeaf<P>, "headmix: a layer that repeats another one cannot be repeated itself");
      return repeated_leaf<P, R>{};
    } else {
      return shared(leaf_in<P, R::text>{});
    }
  }
  template <class P>
  using of = decltype(leaf_for<P>());
  template <class Op>
  using operation = typename edge_in<Op, with_star(R::text)>::type;
  /// The prefix of the names of values.
  static constexpr auto prefix = with_star(R::text);
};

template <class R, class List>
struct totals_of;
template <class R, class... E>
struct totals_of<R, type_list<E...>> {
  using type = type_list<applied<ops::repeat_total<R>, E>...>;
};

}  // namespace detail

/// Option of repeat(): the backward pass recomputes the values of each instance from its input, so that only the values
/// of one instance are kept.
struct recompute {};

/// A repeated layer; see repeat().
template <LayerPolicy L, class R, Expr X, class... Given>
struct layer_repeat {
  static_assert(std::is_same_v<rows<X>, rows<typename L::x>> &&
                    std::is_same_v<rows<std::remove_cvref_t<decltype(L::y)>>, rows<X>>,
                "headmix: a layer that is repeated has as many rows in x and y as what it is used on");
  static_assert(extents_agree<cols<X>::value, cols<typename L::x>::value> &&
                    extents_agree<cols<std::remove_cvref_t<decltype(L::y)>>::value, cols<X>::value>,
                "headmix: a layer that is repeated is as wide in x and y as what it is used on");
  static_assert(X::grad, "headmix: a layer is repeated on a value that has a gradient, of an input or a parameter");
  /// The input of an instance: x, or the result of the previous instance.
  struct carried : let<applied<ops::at_edge<R, repeat_edge::begin>, X>> {
    /// The name in listings.
    static constexpr char const* name = detail::name_under<detail::with_star(R::text), "x">.data();
  };
  using leaves = detail::leaves_in_repeat<L, R, carried, Given...>;
  /// The counterpart in this repetition of an expression or a leaf of the layer.
  template <Expr E>
  using as = detail::rewritten_as<leaves, E>;

  /// L::y of the last instance.
  struct definition {
    using type = applied<ops::at_edge<R, repeat_edge::end>, as<std::remove_cvref_t<decltype(L::y)>>>;
  };
  /// The result of the last instance as a value of its own.
  struct result : detail::let_by<definition> {
    /// The name in listings.
    static constexpr char const* name = detail::name_under<R::text, "y">.data();
  };
  /// The result of the last instance.
  static constexpr auto y = result{};
  /// The losses, summed over all instances.
  using losses = typename detail::totals_of<R, typename detail::all_rewritten<leaves, typename L::losses>::type>::type;
  /// The selections, one per instance.
  using observed = typename detail::all_rewritten<leaves, typename L::observed>::type;
};

namespace detail {
template <class L, class R, class X, class... Given>
struct repeated {
  using type = layer_repeat<L, R, X, typename input_of<L, Given>::type...>;
};
template <class L, class R, class X, class... Given>
requires(RefusedLayer<L> || (is_refused<X> || ... || is_refused<Given>)) struct repeated<L, R, X, Given...> {
  using type = refused_use;
};
}  // namespace detail

/// Layer L applied `Count` times in sequence, to x and then to the previous result: parameters are named `Name.0.W_q`,
/// `Name.1.W_q` and so on. A number of instances that is given at run time is an extent,
/// `struct depth : size<dynamic> {};`, with its value in the constructor: `at<depth>(12)`. The result has `y`,
/// `losses`, `observed` and `as<Leaf>`.
///
/// All instances read the same further inputs: a context, a conditioning, positions. Their values are further
/// arguments, as of use(); an input without a value is a leaf under the name. The gradient by such a value is the sum
/// of those of the instances, from the last one to the first.
template <Extent Count, LayerPolicy L, name_text Name, class... Options, Expr X, class... Given>
constexpr typename detail::repeated<L, repetition<Count, Name, (std::is_same_v<Options, recompute> || ...)>, X,
                                    Given...>::type
repeat(X, Given...) {
  static_assert((std::is_same_v<Options, recompute> && ...), "headmix: the only option of repeat is `recompute`");
  return {};
}
/// repeat() for a static number of instances.
template <Index Count, LayerPolicy L, name_text Name, class... Options, Expr X, class... Given>
constexpr auto repeat(X x, Given... given) {
  static_assert(Count >= 1, "headmix: a layer is repeated at least once");
  return repeat<size<Count>, L, Name, Options...>(x, given...);
}

}  // namespace headmix

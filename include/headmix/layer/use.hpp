#pragma once
// SPDX-License-Identifier: MIT
// Layers as functions of expressions. Every use has its own parameters and random numbers, under its name. A network is
// a layer whose y is composed of other layers:
//
//   struct Block {
//     struct x : input<tokens, size<512>> {};
//     struct gain : param<size<512>> { using initializer = ones; };
//     static constexpr auto attn = use<Moa<512, 64, SoftmaxTopK<8, 2>, causal>, "attn">(rms_norm(x{}, gain{}));
//     static constexpr auto y = x{} + attn.y;
//     using losses = losses_of<attn>;
//     using observed = observed_of<attn>;
//   };

#include "headmix/expr/layer_policy.hpp"
#include "headmix/expr/padding.hpp"
#include "headmix/expr/repeat.hpp"

namespace headmix {

/// The valid rows of the input of a network of padded layers: all uses of padded layers in the network read this leaf,
/// and the network names it, `using valid_rows = valid_rows_of_uses;`.
struct valid_rows_of_uses : row_numbers<tokens, padded_tokens> {
  /// The name of the leaf in a layer.
  static constexpr char const* name = "valid_rows";
};
/// The valid rows of the second input: `using context_valid_rows = context_valid_rows_of_uses;`.
struct context_valid_rows_of_uses : row_numbers<context_tokens, padded_context_tokens> {
  /// The name of the leaf in a layer.
  static constexpr char const* name = "context_valid_rows";
};

/// The value of an input of a layer; see feed().
template <Leaf Input, Expr E>
struct input_value {};
/// The value of an input of a layer other than x, as an argument of use() or repeat():
/// `use<Block, "block">(x, feed<Block::c>(value))`.
template <Leaf Input, Expr E>
constexpr input_value<Input, E> feed(E) {
  static_assert(extents_agree<rows<E>::value, rows<Input>::value> && extents_agree<cols<E>::value, cols<Input>::value>,
                "headmix: feed<Input>(value): the value has other extents than the input");
  static_assert((E::kind_of == kind::integer) == (Input::kind_of == kind::integer),
                "headmix: feed<Input>(value): one is a selection and the other one is numbers");
  return {};
}

namespace detail {

template <class L, class P>
concept is_context_of = requires {
  requires std::is_same_v<P, typename L::context>;
};
template <class L, class P>
concept is_valid_rows_of = requires {
  requires std::is_same_v<P, typename L::valid_rows>;
};
template <class L, class P>
concept is_context_valid_rows_of = requires {
  requires std::is_same_v<P, typename L::context_valid_rows>;
};

template <class P, class... A>
constexpr bool is_read(type_list<A...>*);
/// True if P is E or below E.
template <class P, class E>
inline constexpr bool reads = std::is_same_v<P, E> || detail::is_read<P>(static_cast<typename E::args*>(nullptr));
template <class P, class... A>
constexpr bool is_read(type_list<A...>*) {
  return (reads<P, A> || ...);
}
template <class L>
struct context_of {
  using type = void;
};
template <class L>
requires requires { typename L::context; }
struct context_of<L> {
  using type = typename L::context;
};
/// An argument of use() or repeat(): an input, or the value of the input `context`.
template <class L, class A>
struct input_of {
  using type = input_value<typename context_of<L>::type, A>;
  static_assert(
      !std::is_void_v<typename context_of<L>::type>,
      "headmix: the layer has no input `context`; give a value to another input by feed<Layer::input>(value)");
};
template <class L, class P, class E>
struct input_of<L, input_value<P, E>> {
  using type = input_value<P, E>;
  static_assert(!std::is_same_v<P, typename L::x>, "headmix: the value of the input x is the first argument");
  using roots = concat<type_list<std::remove_cvref_t<decltype(L::y)>>, typename L::losses>;
  static_assert(detail::is_read<P>(static_cast<roots*>(nullptr)),
                "headmix: feed<Input>(value): the layer has no such input");
};
/// The value of input P among the values of inputs, or void.
template <class P, class... Given>
struct value_given {
  using type = void;
};
template <class P, class E, class... Given>
struct value_given<P, input_value<P, E>, Given...> {
  using type = E;
};
template <class P, class Q, class E, class... Given>
struct value_given<P, input_value<Q, E>, Given...> : value_given<P, Given...> {};

/// The replacements of the leaves of layer L in a use: expressions for its inputs, and leaves under the use's name for
/// all others.
template <class L, name_text Name, class X, class... Given>
struct leaves_in_use {
  template <class P>
  static constexpr auto leaf_for() {
    using value = typename value_given<P, Given...>::type;
    if constexpr (std::is_same_v<P, typename L::x>) {
      return X{};
    } else if constexpr (!std::is_void_v<value>) {
      return value{};
    } else if constexpr (is_context_of<L, P>) {
      static_assert(!is_context_of<L, P>,
                    "headmix: the layer has a second input; give it its value: use<Layer, \"name\">(x, context)");
    } else if constexpr (is_valid_rows_of<L, P> || std::is_same_v<P, valid_rows_of_uses>) {
      return valid_rows_of_uses{};
    } else if constexpr (is_context_valid_rows_of<L, P> || std::is_same_v<P, context_valid_rows_of_uses>) {
      return context_valid_rows_of_uses{};
    } else {
      return leaf_in<P, Name>{};
    }
  }
  template <class P>
  using of = decltype(leaf_for<P>());
  template <class Op>
  using operation = typename edge_in<Op, Name>::type;
  /// The prefix of the names of values.
  static constexpr auto prefix = Name;
};

template <class L, class Leaves>
struct inference_in_use {};
template <class L, class Leaves>
requires requires { L::y_inference; }
struct inference_in_use<L, Leaves> {
  /// The layer's result without gradients: for the `y_inference` of the network.
  static constexpr auto y_inference = rewritten_as<Leaves, std::remove_cvref_t<decltype(L::y_inference)>>{};
};

}  // namespace detail

/// A layer applied to an expression; see use().
template <LayerPolicy L, name_text Name, Expr X, class... Given>
struct layer_use : detail::inference_in_use<L, detail::leaves_in_use<L, Name, X, Given...>> {
  static_assert(std::is_same_v<rows<X>, rows<typename L::x>>,
                "headmix: a layer is used on an expression of other rows than its input has");
  static_assert(extents_agree<cols<X>::value, cols<typename L::x>::value>,
                "headmix: a layer is used on an expression of another width than its input has");
  using leaves = detail::leaves_in_use<L, Name, X, Given...>;
  /// The counterpart in this use of an expression or a leaf of the layer: `m.get<Net::attn_t::as<Heads::W_q>>()`.
  template <Expr E>
  using as = detail::rewritten_as<leaves, E>;

  /// L::y of this use.
  struct definition {
    using type = as<std::remove_cvref_t<decltype(L::y)>>;
  };
  /// The layer's result as a value of its own.
  struct result : detail::let_by<definition> {
    /// The name in listings.
    static constexpr char const* name = detail::name_under<Name, "y">.data();
  };
  /// The layer's result.
  static constexpr auto y = result{};
  /// The losses and selections of this use, for the lists of a network.
  using losses = typename detail::all_rewritten<leaves, typename L::losses>::type;
  using observed = typename detail::all_rewritten<leaves, typename L::observed>::type;
};

namespace detail {
/// A refused use of a layer, or a use on a refused value: no further error is reported.
struct refused_use {
  static constexpr refused y{};
  using losses = type_list<>;
  using observed = type_list<>;
  template <class>
  using as = refused;
};
template <class L>
concept RefusedLayer = Refused<std::remove_cvref_t<decltype(L::y)>>;
template <class A>
inline constexpr bool is_refused = Refused<A>;
template <class P, class E>
inline constexpr bool is_refused<input_value<P, E>> = Refused<E>;
template <class L, name_text Name, class X, class... Given>
struct used {
  using type = layer_use<L, Name, X, typename input_of<L, Given>::type...>;
};
template <class L, name_text Name, class X, class... Given>
requires(RefusedLayer<L> || (is_refused<X> || ... || is_refused<Given>)) struct used<L, Name, X, Given...> {
  using type = refused_use;
};
}  // namespace detail

/// Layer L on the value x, with its own parameters and random numbers, whose names begin with `Name`: two uses of a
/// layer under one name share them. The result has `y`, the lists `losses` and `observed`, and `as<Leaf>`.
///
/// Further arguments are the values of further inputs: an expression is that of the input `context`, the source of keys
/// and values; feed<Input>(value) names another one. An input without a value is a leaf under the name.
template <LayerPolicy L, name_text Name, Expr X, class... Given>
constexpr typename detail::used<L, Name, X, Given...>::type use(X, Given...) {
  return {};
}

/// The concatenated losses of uses.
template <auto... Use>
using losses_of = concat<typename std::remove_cvref_t<decltype(Use)>::losses...>;
/// The concatenated selections of uses.
template <auto... Use>
using observed_of = concat<typename std::remove_cvref_t<decltype(Use)>::observed...>;

}  // namespace headmix

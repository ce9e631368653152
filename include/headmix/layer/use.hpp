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

/// The replacements of the leaves of layer L in a use: expressions for its inputs, and leaves under the use's name for
/// all others.
template <class L, name_text Name, class X, class Context>
struct leaves_in_use {
  template <class P>
  static constexpr auto leaf_for() {
    if constexpr (std::is_same_v<P, typename L::x>) {
      return X{};
    } else if constexpr (is_context_of<L, P>) {
      static_assert(!std::is_void_v<Context>,
                    "headmix: the layer has a second input; give it its value: use<Layer, \"name\">(x, context)");
      return Context{};
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
template <LayerPolicy L, name_text Name, Expr X, class Context = void>
struct layer_use : detail::inference_in_use<L, detail::leaves_in_use<L, Name, X, Context>> {
  static_assert(std::is_same_v<rows<X>, rows<typename L::x>>,
                "headmix: a layer is used on an expression of other rows than its input has");
  static_assert(extents_agree<cols<X>::value, cols<typename L::x>::value>,
                "headmix: a layer is used on an expression of another width than its input has");
  using leaves = detail::leaves_in_use<L, Name, X, Context>;
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
template <class L, name_text Name, class X, class Context = void>
struct used {
  using type = layer_use<L, Name, X, Context>;
};
template <class L, name_text Name, class X, class Context>
requires(RefusedLayer<L> || Refused<X> || __is_base_of(refusal, Context)) struct used<L, Name, X, Context> {
  using type = refused_use;
};
}  // namespace detail

/// Layer L on the value x, with its own parameters and random numbers, whose names begin with `Name`: two uses of a
/// layer under one name share them. The result has `y`, the lists `losses` and `observed`, and `as<Leaf>`.
template <LayerPolicy L, name_text Name, Expr X>
constexpr typename detail::used<L, Name, X>::type use(X) {
  return {};
}
/// A layer with a second input, the source of keys and values.
template <LayerPolicy L, name_text Name, Expr X, Expr Context>
constexpr typename detail::used<L, Name, X, Context>::type use(X, Context) {
  return {};
}

/// The concatenated losses of uses.
template <auto... Use>
using losses_of = concat<typename std::remove_cvref_t<decltype(Use)>::losses...>;
/// The concatenated selections of uses.
template <auto... Use>
using observed_of = concat<typename std::remove_cvref_t<decltype(Use)>::observed...>;

}  // namespace headmix

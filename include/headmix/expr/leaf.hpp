#pragma once
// SPDX-License-Identifier: MIT
// Leaves: named values that the caller binds to memory. `struct W_q : param<E, D, H> {};` is a parameter called "W_q".

#include "headmix/expr/expr.hpp"
#include "headmix/expr/initializer.hpp"

namespace headmix {

namespace detail {
template <class... X>
struct leaf_shape;
template <class C>
struct leaf_shape<C> {
  using type = shape<size<1>, C>;
};
template <class R, class C>
struct leaf_shape<R, C> {
  using type = shape<R, C>;
};
template <class Count, class R, class C>
struct leaf_shape<Count, R, C> {
  using type = shape<R, C, Count>;
};
}  // namespace detail

/// Memory of the caller. `X...` is [cols], [rows, cols] or [count, rows, cols].
template <kind Kind, bool Grad, Extent... X>
struct leaf {
  static_assert(sizeof...(X) >= 1 && sizeof...(X) <= 3, "headmix: a leaf has one to three extents");
  using args = type_list<>;
  using extents = typename detail::leaf_shape<X...>::type;
  static constexpr kind kind_of = Kind;
  static constexpr detail::form form_of = detail::form::leaf;
  static constexpr bool grad = Grad;
};

/// An activation from outside; its gradient can be requested.
template <Extent... X>
struct input : leaf<kind::real, true, X...> {};

/// A learned parameter. `initial` is its initializer, Xavier's; hide it in the derived leaf for another one.
template <Extent... X>
struct param : leaf<kind::real, true, X...> {
  using initializer = xavier_uniform<>;
};

/// A parameter that is added to every row; it starts at zero.
template <Extent... X>
struct bias_param : param<X...> {
  using initializer = zeros;
};
/// A parameter of a router; it starts at zero, where all experts tie.
template <Extent... X>
struct router_param : param<X...> {
  using initializer = zeros;
};

namespace detail {
template <Extent... X>
void as_router_param(router_param<X...> const&);
}  // namespace detail
/// A leaf that derives from router_param.
template <class L>
concept RouterParameter = requires(L const& leaf) {
  detail::as_router_param(leaf);
};

/// The role of W_o and b_o of an attention, which map heads to the model's width. Derive a leaf from it, `struct W_o :
/// param<H, D>, attention_output {};`; it keeps the role under names and in repetitions.
struct attention_output {};
/// A leaf that derives from attention_output.
template <class L>
concept AttentionOutput = Leaf<L> && std::is_base_of_v<attention_output, L>;

namespace detail {
/// (X + 15) / 16, rounded down.
template <Extent X, bool Static = X::value != dynamic>
struct sixteenths {
  using type = quotient<plus<X, size<15>>, size<16>>;
};
template <Extent X>
struct sixteenths<X, true> {
  using type = size<(X::value + 15) / 16>;
};
}  // namespace detail
/// The words of a packed ternary matrix [In, Out] (core/ternary.hpp).
template <Extent In, Extent Out>
using packed_words = plus<size<2>, times<Out, typename detail::sixteenths<In>::type>>;

/// `Count` packed ternary matrices [In, Out], for inference: no gradient, and zeros until copy_parameters() packs
/// learned weights.
template <Extent Count, Extent In, Extent Out>
struct packed_param : leaf<kind::integer, false, Count, size<1>, packed_words<In, Out>> {
  using in = In;
  using out = Out;
};
template <class L>
concept PackedParameter = Leaf<L> && requires {
  typename L::in;
  typename L::out;
};

/// State of the module without a gradient: a bias of a selection, a running mean. It starts by its rule, is saved and
/// copied with the parameters, and no optimiser changes it; the owner of the module does, see Module::buffers().
template <Extent... X>
struct buffer : leaf<kind::real, false, X...> {
  using initializer = zeros;
};

/// A value without a gradient.
template <Extent... X>
struct constant : leaf<kind::real, false, X...> {};

/// A constant of finite numbers above 0. A forward pass refuses other numbers if the host can read them.
template <Extent... X>
struct positive_constant : constant<X...> {};
namespace detail {
template <Extent... X>
void as_positive_constant(positive_constant<X...> const&);
}  // namespace detail
/// A leaf that derives from positive_constant.
template <class L>
concept PositiveConstant = Leaf<L> && requires(L const& leaf) {
  detail::as_positive_constant(leaf);
};

/// Memory that operations read and write, kept for later passes, e.g. by a decoder. An operation gets it as a mutable
/// view.
template <Extent... X>
struct cache_memory : leaf<kind::real, false, X...> {};
namespace detail {
template <Extent... X>
void as_cache_memory(cache_memory<X...> const&);
}  // namespace detail
/// A leaf that derives from cache_memory.
template <class L>
concept CacheMemory = Leaf<L> && requires(L const& leaf) {
  detail::as_cache_memory(leaf);
};

/// Int values in [0, Domain): token identifiers, targets, a selection from outside. -1 chooses nothing.
template <Extent Rows, Extent Cols, Extent Domain>
struct selection : leaf<kind::integer, false, Rows, Cols> {
  using domain = Domain;
};

template <class L>
concept Parameter = Leaf<L> && requires {
  typename L::initializer;
  requires L::grad;
};
/// A leaf that derives from buffer.
template <class L>
concept ModuleBuffer = Leaf<L> && requires {
  typename L::initializer;
  requires !L::grad;
};

/// The number Num / Den, as an expression (floating-point template arguments are not portable).
template <long long Num, long long Den = 1>
struct number {
  static_assert(Den > 0, "headmix: number<Num, Den> is Num / Den with a positive Den");
  using args = type_list<>;
  using extents = shape<size<1>, size<1>>;
  static constexpr kind kind_of = kind::real;
  static constexpr detail::form form_of = detail::form::scalar_constant;
  static constexpr bool grad = false;
  template <class T, class Run>
  static constexpr T value(Run const&) {
    return static_cast<T>(static_cast<double>(Num) / static_cast<double>(Den));
  }
};

/// The value of an extent, as an expression. A derived type may have `requirements`, like the `checks` of operations:
/// they are checked when a program with this operand is bound.
template <Extent X>
struct value_of {
  using counted = X;
  using args = type_list<>;
  using extents = shape<size<1>, size<1>>;
  static constexpr kind kind_of = kind::real;
  static constexpr detail::form form_of = detail::form::scalar_constant;
  static constexpr bool grad = false;
  template <class T, class Run>
  static constexpr T value(Run const& run) {
    return static_cast<T>(run.template extent<X>());
  }
};

/// X - 1, or 1 for X = 1: the divisor in the variance of X numbers.
template <Extent X>
struct degrees_of_freedom : value_of<X> {
  template <class T, class Run>
  static constexpr T value(Run const& run) {
    Index const n = run.template extent<X>();
    return static_cast<T>(n > 1 ? n - 1 : 1);
  }
};

/// The value of an extent to divide by: 1 when it is 0, so that a mean over nothing is 0.
template <Extent X>
struct at_least_one : value_of<X> {
  template <class T, class Run>
  static constexpr T value(Run const& run) {
    Index const n = run.template extent<X>();
    return static_cast<T>(n == 0 ? 1 : n);
  }
};

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// The concept of a router. `route<X>` names, for every row of X, the chosen experts and their weights.

#include "headmix/expr/loss.hpp"

namespace headmix {

namespace archetype {
/// A dynamic width, so that messages print the numbers of a layer.
struct D : size<dynamic> {};
/// A stand-in for a router's input.
struct x : input<tokens, D> {};
/// A stand-in for the queries of E heads.
template <Extent E>
struct queries : input<tokens, times<E, D>> {};
}  // namespace archetype

/// A router with the queries of all heads, [rows, E d_h], as input, instead of the layer's input.
template <class R>
concept ReadsQueries = requires {
  requires R::reads_queries;
};

namespace detail {
template <class R>
struct archetype_route {
  using type = typename R::template route<archetype::x>;
};
template <ReadsQueries R>
struct archetype_route<R> {
  using type = typename R::template route<archetype::queries<typename R::experts>>;
};
/// A route of the router over the stand-in input, for checks.
template <class R>
using route_of = typename archetype_route<R>::type;
}  // namespace detail

/// A router has sizes `experts` and `top_k` (chosen per row) and a template `route<X>` with
/// `index`, Int [rows, top_k], `gate`, [rows, top_k], and `losses`, a `type_list` of [1, 1] values (often empty).
///
/// Always-on experts are the first columns of `index`. `inference_route<X>` may give the same result in another way,
/// for programs without gradients. A second use of a router in one program needs a tag, `route<X, struct second>`, to
/// have its own parameters.
template <class R>
concept RouterPolicy = requires {
  requires Extent<typename R::experts>;
  requires Extent<typename R::top_k>;
  requires Selection<std::remove_cvref_t<decltype(detail::route_of<R>::index)>>;
  requires Expr<std::remove_cvref_t<decltype(detail::route_of<R>::gate)>>;
  typename detail::route_of<R>::losses;
  // One weight for each of the top_k choices.
  requires extents_agree<cols<std::remove_cvref_t<decltype(detail::route_of<R>::index)>>::value, R::top_k::value>;
  requires extents_agree<cols<std::remove_cvref_t<decltype(detail::route_of<R>::gate)>>::value, R::top_k::value>;
};

namespace detail {
template <class R>
concept has_router_sizes = Extent<typename R::experts> && Extent<typename R::top_k>;
template <class R>
concept has_route = requires {
  typename route_of<R>;
};
template <class R>
concept has_index = Selection<std::remove_cvref_t<decltype(route_of<R>::index)>>;
template <class R>
concept has_gate = Expr<std::remove_cvref_t<decltype(route_of<R>::gate)>>;
template <class R>
concept has_route_losses = requires {
  typename route_of<R>::losses;
};
/// For messages with both numbers.
template <Index Columns, Index TopK>
inline constexpr bool columns_are_top_k = extents_agree<Columns, TopK>;

/// The first part that a router lacks.
enum class router_part { none, sizes, route, index, gate, losses };
template <class R>
constexpr router_part missing_router_part() {
  if constexpr (RouterPolicy<R>) {
    return router_part::none;
  } else if constexpr (!has_router_sizes<R>) {
    return router_part::sizes;
  } else if constexpr (!has_route<R>) {
    return router_part::route;
  } else if constexpr (!has_index<R>) {
    return router_part::index;
  } else if constexpr (!has_gate<R>) {
    return router_part::gate;
  } else {
    return has_route_losses<R> ? router_part::none : router_part::losses;
  }
}
template <class R, router_part Missing = missing_router_part<R>()>
struct reported_router : std::false_type {
  static_assert(
      Missing != router_part::sizes,
      "headmix: this argument of a layer is its router, such as SoftmaxTopK<8, 2>, and the type has not the sizes "
      "of one. A router of your own has struct experts : size<8> {}; and struct top_k : size<2> {};");
  static_assert(Missing != router_part::route,
                "headmix: a router has no route: write template <Expr X, class Tag = void> struct route");
  static_assert(Missing != router_part::index,
                "headmix: the route of a router has no chosen experts: write static constexpr auto index = ..., a "
                "selection, such as arg_top_k<top_k>(p)");
  static_assert(Missing != router_part::gate,
                "headmix: the route of a router has no weights of the chosen experts: write static constexpr auto gate "
                "= ..., such as gather_cols(p, index)");
  static_assert(Missing != router_part::losses,
                "headmix: the route of a router has no list of losses: write using losses = type_list<>;");
};
template <class R>
struct reported_router<R, router_part::none> : std::bool_constant<RouterPolicy<R>> {
  using route = route_of<R>;
  static_assert(columns_are_top_k<cols<std::remove_cvref_t<decltype(route::index)>>::value, R::top_k::value>,
                "headmix: index of a router has top_k columns, see 'columns_are_top_k<columns, top_k>': "
                "arg_top_k<top_k>(p) chooses as many");
  static_assert(columns_are_top_k<cols<std::remove_cvref_t<decltype(route::gate)>>::value, R::top_k::value>,
                "headmix: gate of a router has top_k columns, a weight for each chosen expert, see "
                "'columns_are_top_k<columns, top_k>': gather_cols(p, index) chooses them");
};
}  // namespace detail

/// RouterPolicy, as a template takes it from the user: what is missing is named in words.
template <class R>
concept GivenRouter = detail::reported_router<R>::value;

namespace detail {
template <class R, Expr X>
struct inference_route_of {
  using type = typename R::template route<X>;
};
template <class R, Expr X>
requires requires { typename R::template inference_route<X>; }
struct inference_route_of<R, X> {
  using type = typename R::template inference_route<X>;
};
template <class Route>
struct observed_in {
  using type = type_list<std::remove_cvref_t<decltype(Route::index)>>;
};
template <class Route>
requires requires { typename Route::observed; }
struct observed_in<Route> {
  using type = typename Route::observed;
};
}  // namespace detail
/// The route for a program without gradients.
template <class R, Expr X>
using inference_route_of = typename detail::inference_route_of<R, X>::type;
/// The observable selections of a route: its list `observed`, or `index`.
template <class Route>
using observed_in = typename detail::observed_in<Route>::type;

/// Experts 0 .. Shared - 1 of every row, followed by its choices among the other experts.
template <Extent Shared, Selection Chosen>
constexpr auto shared_and(Chosen chosen) {
  if constexpr (Shared::value == 0) {
    return chosen;
  } else {
    using E = plus<Shared, domain<Chosen>>;
    return concat_cols(iota_cols<size<0>, Shared, E>(chosen), offset_cols<Shared, E>(chosen));
  }
}
/// A weight of 1 for each shared expert, followed by the weights of the other experts.
template <Extent Shared, Expr G>
constexpr auto ones_and(G gate) {
  if constexpr (Shared::value == 0) {
    return gate;
  } else {
    return concat_cols(ones_of<rows<G>, Shared>(), gate);
  }
}

namespace archetype {
/// The minimal router.
struct router {
  struct experts : size<4> {};
  struct top_k : size<2> {};
  template <Expr X>
  struct route {
    static constexpr auto index = arg_top_k<top_k>(X{});
    static constexpr auto gate = gather_cols(X{}, index);
    using losses = type_list<>;
  };
};
}  // namespace archetype
static_assert(RouterPolicy<archetype::router>, "headmix: archetype::router is no RouterPolicy");

}  // namespace headmix

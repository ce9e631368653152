#pragma once
// SPDX-License-Identifier: MIT
// An expression is an empty type that describes a value. Equal types are equal values: a graph with shared nodes is the
// set of distinct types that it mentions, and they run in the order "operands first".

#include <concepts>
#include <type_traits>

#include "headmix/core/scalar.hpp"
#include "headmix/core/type_list.hpp"
#include "headmix/expr/extent.hpp"
#include "headmix/expr/refused.hpp"

namespace headmix {

namespace detail {
/// The source of the value of an expression.
enum class form {
  leaf,             ///< memory that the caller binds
  scalar_constant,  ///< one number, known when the program runs
  pointwise,        ///< element by element; fused into whatever reads it
  view,             ///< the operand's memory, read in another order
  kernel,           ///< one kernel call, one buffer (or several, see `output`)
  output,           ///< a further buffer of a kernel
  let               ///< a name for another expression
};
}  // namespace detail

/// Rows and columns of a value; `Count` matrices of them for a stack (one weight matrix per expert).
template <Extent Rows, Extent Cols, Extent Count = size<1>>
struct shape {
  using rows = Rows;
  using cols = Cols;
  using count = Count;
};

/// An empty type with a shape, a kind of scalar, a form and operands.
template <class E>
concept Expr = __is_empty(E) && requires {
  typename E::extents;
  typename E::args;
  { E::kind_of } -> std::convertible_to<kind>;
  { E::form_of } -> std::convertible_to<detail::form>;
  { E::grad } -> std::convertible_to<bool>;
};

/// Number of rows, an extent.
template <Expr E>
using rows = typename E::extents::rows;
/// Number of columns, an extent.
template <Expr E>
using cols = typename E::extents::cols;
/// Number of matrices, an extent.
template <Expr E>
using count = typename E::extents::count;

template <class E>
concept Leaf = Expr<E> && E::form_of == detail::form::leaf;
template <class E>
concept Pointwise = Expr<E> &&(E::form_of == detail::form::pointwise || E::form_of == detail::form::scalar_constant);
/// Int values in [0, domain), -1 for nothing.
template <class E>
concept Selection = Expr<E> && E::kind_of == kind::integer&& requires {
  typename E::domain;
};

/// One past the largest value of a selection: the number of columns that it chooses from.
template <Selection E>
using domain = typename E::domain;

/// Sides of a requirement, named in the message.
template <Expr E>
struct rows_of {
  using extent = headmix::rows<E>;
  using of = E;
  static constexpr char const* text = "rows";
};
/// Columns, as a side of a requirement.
template <Expr E>
struct cols_of {
  using extent = headmix::cols<E>;
  using of = E;
  static constexpr char const* text = "columns";
};
/// Matrices, as a side of a requirement.
template <Expr E>
struct count_of {
  using extent = headmix::count<E>;
  using of = E;
  static constexpr char const* text = "matrices";
};
template <Selection E>
struct domain_of {
  using extent = headmix::domain<E>;
  using of = E;
  static constexpr char const* text = "choices";
};
/// An extent, as a side of a requirement.
template <Extent X>
struct extent_value {
  using extent = X;
};

/// Stands for a refused expression.
struct refused : detail::refusal {
  using args = type_list<>;
  using extents = shape<size<dynamic>, size<dynamic>, size<dynamic>>;
  using domain = size<dynamic>;
  static constexpr kind kind_of = kind::integer;
  static constexpr detail::form form_of = detail::form::leaf;
  static constexpr bool grad = false;
};

namespace detail {
template <class... A>
struct missing_gradient;
}  // namespace detail

/// Base of operations; an operation derives from it and hides the members that differ.
///
/// An operation provides `shape_of<A...>`; a kernel also `eval(run, outputs..., [accumulate,] operands...)`; a
/// differentiable one `vjp(dy, operands..., y)`, which returns `gradients`, one expression (or `none`) per operand.
struct operation {
  static constexpr detail::form form_of = detail::form::kernel;
  static constexpr bool differentiable = true;
  /// True if `vjp` deliberately is not the derivative, e.g. of a rounding: gradcheck must be told of it.
  static constexpr bool estimates_gradient = false;
  /// True if the incoming gradient is rounded to storage, whatever the type of the value.
  static constexpr bool rounds_gradient = false;
  /// Buffers that a kernel writes. Buffer 0 is the value of the node, `output<Which>(node)` names the others.
  static constexpr int outputs = 1;
  /// True if `eval` skips an output whose data is null, which is one that nobody reads.
  static constexpr bool optional_outputs = false;
  /// The further output whose number of columns is `columns(run, outputs..., operands...)` when a program is planned; 0
  /// for none.
  static constexpr int sized_output = 0;
  /// True if the number of rows of the result, an extent `received_rows`, is `received(run, outputs..., operands...)`
  /// just before `eval`. All values of this extent then have so many rows.
  static constexpr bool receives = false;
  /// True if work that `eval` starts may continue after it returns (contract/communicator.hpp, Asynchronous): its
  /// operands keep their memory as long as its result does.
  static constexpr bool is_asynchronous = false;
  /// Number of first outputs that may share memory with operands that nobody else reads: output 0 with operand 0, each
  /// other one with the output before.
  static constexpr int in_place = 0;
  /// True if `eval` takes a flag and can add to its output instead of overwriting it.
  static constexpr bool accumulates = false;
  /// True if `is_sum` says of pointers to two lists of operands whether the sum of the results is one operation, which
  /// `sum_of` of the lists returns. Gradients are then sums of fewer terms.
  static constexpr bool sums_pairs = false;
  /// True if the kernel needs scratch memory: `scratch(run, outputs..., operands...)` bytes.
  static constexpr bool needs_scratch = false;
  /// True if row i of the result depends only on row i of each operand, or on its only row. `in_row(run, output,
  /// [accumulate,] operands...)` returns this function of a row as a step (contract/row_steps.hpp).
  static constexpr bool is_row_local = false;
  /// True if `validate<Extents...>(run)` checks, before anything runs, what extents alone do not say. Extents are those
  /// of the operands, each a shape.
  static constexpr bool validates = false;
  /// True if an operand may be a stack of matrices; otherwise stacks are refused.
  static constexpr bool takes_stacks = false;
  /// True for a view whose gradient is summed in a buffer before `vjp` passes it on; that of other views is an
  /// expression.
  static constexpr bool gathers_gradients = false;
  /// True for a view whose row i is row i of its operand, or a part of it.
  static constexpr bool keeps_rows = false;
  /// True if operands arrive as unevaluated trees (contract/lowered_tree.hpp) instead of views.
  static constexpr bool fuses_operands = false;
  /// Advice at the end of the message about operands that do not fit.
  static constexpr char const* hint = "";
  template <class... A>
  static constexpr kind kind_of = ((A::kind_of == kind::accumulator) || ...) ? kind::accumulator : kind::real;
  /// A list of `equal<>`, `at_most<>`, `multiple_of<>` over `rows_of<A>` and other extents.
  template <class... A>
  using checks = type_list<>;
  /// Refuses the gradient of an operation without a vjp of its own.
  template <Expr... A>
  static constexpr auto vjp(A...) {
    return detail::missing_gradient<A...>::gradients_of_operands();
  }
};

/// Base of every applied operation, so that argument-dependent lookup finds the operators of this namespace.
struct expression {};

namespace detail {
template <class Op, class... A>
concept HasDomain = requires {
  typename Op::template domain_of<A...>;
};
template <class Domain>
struct with_domain : expression {
  using domain = Domain;
};
struct without_domain : expression {};
template <bool Chooses>
struct domain_base {
  template <class Op, class... A>
  using type = with_domain<typename Op::template domain_of<A...>>;
};
template <>
struct domain_base<false> {
  template <class, class...>
  using type = without_domain;
};
/// Base of a node; it has the `domain` of a selection.
template <class Op, class... A>
using choices = typename domain_base<HasDomain<Op, A...>>::template type<Op, A...>;
/// The `domain` of a let for the expression Definition::type, if that is a selection.
template <class Definition>
struct choices_of {};
template <class Definition>
requires requires { typename Definition::type::domain; }
struct choices_of<Definition> {
  using domain = typename Definition::type::domain;
};

/// An operation applied to operands.
template <class Op, Expr... A>
struct node : detail::choices<Op, A...> {
  using op = Op;
  using args = type_list<A...>;
  using extents = typename Op::template shape_of<A...>;
  static constexpr kind kind_of = Op::template kind_of<A...>;
  static constexpr form form_of = Op::form_of;
  static constexpr bool grad = Op::differentiable && (A::grad || ...);
};
}  // namespace detail

/// Buffer `Which` of a kernel that writes several. The gradient flows through buffer 0 only.
template <int Which, Expr Node>
struct output {
  static_assert(Which >= 1 && Which < Node::op::outputs, "headmix: the operation has no such output");
  using args = type_list<Node>;
  using extents = typename Node::op::template output_shape<Which, typename Node::args>;
  static constexpr kind kind_of = Node::op::template output_kind<Which>;
  static constexpr detail::form form_of = detail::form::output;
  static constexpr bool grad = false;
};

namespace detail {
/// A let for the expression Definition::type, which names of types do not spell out.
template <class Definition>
struct let_by : choices_of<Definition>, refusal_of<Definition> {
  using init = typename Definition::type;
  using args = type_list<init>;
  using extents = typename init::extents;
  static constexpr kind kind_of = init::kind_of;
  static constexpr form form_of = form::let;
  static constexpr bool grad = init::grad;
};
}  // namespace detail

/// A name for an expression: `struct h : let<decltype(x{} % W{})> {};`. It shortens names of types, and a pointwise
/// value gets a buffer of its own.
template <Expr E>
struct let : detail::let_by<std::type_identity<E>> {};

/// Stands for the gradient of an operand without one.
struct none {};
/// One expression, or `none`, for each operand.
template <class... G>
struct gradients {
  static constexpr int size = sizeof...(G);
};
/// The return type of `vjp`: one expression or `none` per operand.
template <class... G>
constexpr gradients<G...> grads(G...) {
  return {};
}

namespace detail {
/// For the message: every operation on the path of a gradient has a vjp.
template <class Op>
inline constexpr bool has_vjp = false;
template <class... A>
struct missing_gradient {
  static constexpr auto gradients_of_operands() {
    using result = nth<sizeof...(A) - 1, type_list<A...>>;
    static_assert(
        has_vjp<typename result::op>,
        "headmix: an operation has no gradient, see 'has_vjp<operation>': give it static constexpr auto vjp(auto "
        "dy, auto a, auto y) { return grads(...); } with an a for each operand, or say static constexpr bool "
        "differentiable = false");
    return no_gradients(typename result::args{});
  }
  template <class... Operand>
  static constexpr gradients<std::conditional_t<true, none, Operand>...> no_gradients(type_list<Operand...>) {
    return {};
  }
};

template <class Op, Index Found, class Rule, Index Expected>
inline constexpr bool extents_fit = false;
// Assertions are in functions that refused expressions call when used: a class whose own assertion failed has no values
// for clang, and functions whose signatures fail are passed over, with an error at every use.

/// Extents X and Y of the operands A break a rule: GCC prints the text, clang the numbers.
template <class Op, class Rule, class X, class Y, Index Found, Index Expected, class... A>
constexpr bool say_extents() {
#ifdef __clang__
  static_assert(
      extents_fit<Op, Found, typename Rule::rule, Expected>,
      "headmix: the extents of the operands do not fit; see 'extents_fit<operation, found, rule, expected>'. a % "
      "b is the product of [M, K] and [K, N], and a * b is element by element");
#else
  static_assert(sizeof(refused_because<printed_text<extents_message<Op, Rule, X, Y, A...>>()>) > 0,
                "headmix: the extents of the operands do not fit");
#endif
  return true;
}
template <class Op, class Rule, class X, class Y, class... A>
struct refused_extents : refused {
  using said = std::bool_constant<say_extents<Op, Rule, X, Y, X::extent::value, Y::extent::value, A...>()>;
};
template <template <class, class> class... Rule, class... X, class... Y>
auto check_statically(type_list<Rule<X, Y>...>*)
    -> std::bool_constant<((X::extent::value == dynamic || Y::extent::value == dynamic ||
                            Rule<X, Y>::holds(X::extent::value, Y::extent::value)) &&
                           ...)>;
/// True unless known extents break a requirement of the list.
template <class Checks>
using static_checks = decltype(detail::check_statically(detail::pack<Checks>()));

template <class Op, class Args, class Checks>
struct first_broken;
template <class Op, class... A, template <class, class> class Rule, class X, class Y, class... More>
struct first_broken<Op, type_list<A...>, type_list<Rule<X, Y>, More...>>
    : std::conditional_t<static_checks<type_list<Rule<X, Y>>>::value,
                         first_broken<Op, type_list<A...>, type_list<More...>>,
                         std::type_identity<refused_extents<Op, Rule<X, Y>, X, Y, A...>>> {};

/// Reasons to refuse the operands of an operation.
enum class problem { none, stack, selection, number_of_operands, extents };
template <problem Found>
constexpr bool say_problem() {
  static_assert(Found != problem::stack, "headmix: this operation takes matrices, and an operand is a stack of them");
  static_assert(Found != problem::selection,
                "headmix: there is no arithmetic with selections; see one_hot, gather_cols and scatter_cols");
  static_assert(Found != problem::number_of_operands, "headmix: a pointwise operation has one or two operands");
  return true;
}
template <problem Found, class Op, class... A>
struct refused_operands : refused {
  using said = std::bool_constant<say_problem<Found>()>;
};
template <class Op, class... A>
auto find_problem() -> std::integral_constant<
    problem, !Op::takes_stacks && !((A::extents::count::value == 1) && ...)              ? problem::stack
             : Op::form_of == form::pointwise && !((A::kind_of != kind::integer) && ...) ? problem::selection
             : Op::form_of == form::pointwise && (sizeof...(A) > 2)                      ? problem::number_of_operands
             : !static_checks<typename Op::template checks<A...>>::value                 ? problem::extents
                                                                                         : problem::none>;
/// The result of an operation: a node, or why its operands are refused.
template <problem Found>
struct outcome {
  template <class Op, class... A>
  using type = refused_operands<Found, Op, A...>;
};
template <>
struct outcome<problem::none> {
  template <class Op, class... A>
  using type = node<Op, A...>;
};
template <>
struct outcome<problem::extents> {
  template <class Op, class... A>
  using type = typename first_broken<Op, type_list<A...>, typename Op::template checks<A...>>::type;
};
template <class... A>
std::bool_constant<(__is_base_of(refusal, A) || ...)> any_refused();
template <bool IsRefused>
struct application {
  template <class Op, class... A>
  using type = typename outcome<decltype(detail::find_problem<Op, A...>())::value>::template type<Op, A...>;
};
template <>
struct application<true> {
  template <class, class...>
  using type = refused;
};
}  // namespace detail

/// The return type of `make`: an operation applied to operands. Known extents that do not fit are a compile error that
/// prints both numbers; the type is then `refused`.
template <class Op, Expr... A>
using applied = typename detail::application<decltype(detail::any_refused<A...>())::value>::template type<Op, A...>;
/// Applies an operation.
template <class Op, Expr... A>
constexpr applied<Op, A...> make(A...) {
  return {};
}

/// Buffer `Which` of a kernel.
template <int Which, Expr Node>
constexpr output<Which, Node> get_output(Node) {
  return {};
}
/// A buffer of a refused expression is refused.
template <int>
constexpr refused get_output(refused) {
  return {};
}

}  // namespace headmix

// SPDX-License-Identifier: MIT
// The algebra of extents and the shapes of expressions.

#include "headmix/headmix.hpp"

namespace static_extents {

using namespace headmix;

namespace {

struct D : size<8> {};
struct N : size<dynamic> {};
struct P : size<dynamic> {};
struct x : input<tokens, D> {};
struct w : param<D, N> {};
struct stack : param<P, D, N> {};

template <class A, class B>
inline constexpr bool same = std::is_same_v<A, B>;
template <class E, class R, class C, class Count = size<1>>
inline constexpr bool has_shape = same<rows<E>, R>&& same<cols<E>, C>&& same<count<E>, Count>;

// Products and quotients.
static_assert(times<size<2>, size<3>>::value == 6);
static_assert(same<times<size<1>, tokens>, tokens> && same<times<tokens, size<1>>, tokens>);
static_assert(same<times<size<2>, tokens>, product<size<2>, tokens>> && times<size<2>, tokens>::value == dynamic);
static_assert(same<over<times<N, tokens>, N>, tokens> && same<over<times<N, tokens>, tokens>, N>);
static_assert(same<over<times<size<2>, tokens>, size<2>>, tokens>);
static_assert(same<over<N, N>, size<1>> && same<over<D, size<1>>, D>);
static_assert(over<D, size<2>>::value == 4);
static_assert(over<N, size<2>>::value == dynamic && same<over<N, size<2>>, quotient<N, size<2>>>);
static_assert(same<over<times<N, N>, N>, N>);
static_assert(plus_one<D>::value == 9 && plus_one<N>::value == dynamic);
static_assert(size<0>::value == 0 && dynamic == -1);

// The sizes in an extent.
static_assert(same<named_sizes<D>, type_list<>> && same<named_sizes<N>, type_list<N>>);
static_assert(same<named_sizes<times<N, tokens>>, type_list<N, tokens>>);
static_assert(same<named_sizes<plus_one<P>>, type_list<P>>);
static_assert(same<named_sizes<over<N, times<P, tokens>>>, type_list<N, P, tokens>>);

// Rows that belong to tokens.
static_assert(is_multiple_of<tokens, tokens> && is_multiple_of<times<N, tokens>, tokens> &&
              is_multiple_of<times<tokens, N>, tokens>);
static_assert(is_multiple_of<times<size<2>, times<N, tokens>>, tokens>);
static_assert(!is_multiple_of<N, tokens> && !is_multiple_of<context_tokens, tokens> &&
              is_multiple_of<context_tokens, context_tokens>);

// Requirements.
static_assert(equal<int, int>::holds(3, 3) && !equal<int, int>::holds(3, 4));
static_assert(at_most<int, int>::holds(3, 3) && !at_most<int, int>::holds(4, 3));
static_assert(multiple_of<int, int>::holds(6, 3) && !multiple_of<int, int>::holds(7, 3));
static_assert(multiple_of<int, int>::holds(0, 3) && !multiple_of<int, int>::holds(3, 0));
static_assert(extents_agree<3, 3> && extents_agree<dynamic, 3> && extents_agree<3, dynamic> && !extents_agree<3, 4>);
static_assert(Extent<D> && Extent<tokens> && Extent<times<N, tokens>> && !Extent<int> && !Extent<x>);

// Shapes.
struct row : param<D> {};
struct col : input<tokens, size<1>> {};
struct one : constant<size<1>> {};
static_assert(has_shape<x, tokens, D> && has_shape<row, size<1>, D> && has_shape<stack, D, N, P>);
static_assert(has_shape<decltype(x{} % w{}), tokens, N> && has_shape<decltype(t(x{})), D, tokens>);
static_assert(has_shape<decltype(t(stack{})), N, D, P>);
static_assert(has_shape<decltype(x{} + row{}), tokens, D> && has_shape<decltype(row{} + x{}), tokens, D>);
static_assert(has_shape<decltype(row{} * col{}), tokens, D> && has_shape<decltype(one{} * col{}), tokens, size<1>>);
static_assert(has_shape<decltype(stack{} * one{}), D, N, P>);
static_assert(has_shape<decltype(row_sum(x{})), tokens, size<1>> && has_shape<decltype(col_sum(x{})), size<1>, D>);
static_assert(has_shape<decltype(sum(stack{})), size<1>, size<1>> && has_shape<decltype(mean(x{})), size<1>, size<1>>);
static_assert(has_shape<decltype(group_sum<N>(repeat_rows<N>(x{}))), tokens, D>);
static_assert(has_shape<decltype(repeat_rows<N>(x{})), times<N, tokens>, D>);
static_assert(has_shape<decltype(split_rows<size<2>>(x{})), times<size<2>, tokens>, size<4>>);
static_assert(has_shape<decltype(merge_rows<size<2>>(split_rows<size<2>>(x{}))), tokens, size<8>>);
static_assert(has_shape<decltype(softmax(x{})), tokens, D>);
static_assert(has_shape<decltype(log_sum_exp(x{})), tokens, size<1>>);
static_assert(has_shape<decltype(arg_top_k<size<2>>(x{})), tokens, size<2>>);
static_assert(same<domain<decltype(arg_top_k<size<2>>(x{}))>, D>);
using chosen = decltype(arg_top_k<size<2>>(x{}));
static_assert(has_shape<decltype(one_hot(chosen{})), tokens, D> &&
              has_shape<decltype(gather_cols(x{}, chosen{})), tokens, size<2>>);
static_assert(has_shape<decltype(scatter_cols(gather_cols(x{}, chosen{}), chosen{})), tokens, D>);
struct experts : param<D, D, N> {};
static_assert(has_shape<decltype(expert_linear(x{}, experts{}, chosen{})), times<size<2>, tokens>, N>);
static_assert(has_shape<decltype(get_output<1>(sort_by_expert(chosen{}))), size<1>, plus_one<D>>);
static_assert(
    has_shape<decltype(combine(gather_cols(x{}, chosen{}), expert_linear(x{}, experts{}, chosen{}))), tokens, N>);
static_assert(has_shape<decltype(attention<full, size<2>>(x{}, x{}, x{})), tokens, D>);
static_assert(has_shape<decltype(rotary<size<2>>(x{}, one{})), tokens, D>);

// Kinds.
static_assert(x::kind_of == kind::real && chosen::kind_of == kind::integer);
static_assert(decltype(upcast(x{} % w{}))::kind_of == kind::accumulator &&
              decltype(softmax(upcast(x{})))::kind_of == kind::accumulator);
static_assert(decltype(upcast(x{} % w{}) * x{})::kind_of == kind::accumulator &&
              decltype(x{} * x{})::kind_of == kind::real);
static_assert(decltype(attention<full>(x{}, x{}, x{}))::kind_of == kind::real);

}  // namespace

}  // namespace static_extents

#pragma once
// SPDX-License-Identifier: MIT
// Groups of calls that a backend runs as one kernel: functions of the same rows on backends with FusedRows, since
// routers, gates and losses are many small functions of short rows and launches cost more than the arithmetic; products
// of one left operand on backends with StackedProducts, as queries, keys and values are.

#include <cstdint>

#include "headmix/expr/linear.hpp"
#include "headmix/program/lower/call_order.hpp"
#include "headmix/program/lower/program_lists.hpp"

namespace headmix::detail {

// ---- functions of rows ----

/// The most columns of a row in a group: a warp works on one row.
inline constexpr Index most_short_columns = 1024;

/// True for values of few columns whose rows are counted by Rows, or that have one row.
template <class Rows, class E>
inline constexpr bool has_short_rows = count<E>::value == 1 &&
                                       1 <= cols<E>::value&& cols<E>::value <= most_short_columns &&
                                       (std::is_same_v<rows<E>, Rows> || rows<E>::value == 1);
template <class Rows, class E>
inline constexpr bool has_short_rows<Rows, extents_of<E>> = true;
template <class Rows, class E>
inline constexpr bool has_short_rows<Rows, number_in<E>> = true;
template <class Rows, class Values>
inline constexpr bool have_short_rows = false;
template <class Rows, class... E>
inline constexpr bool have_short_rows<Rows, type_list<E...>> = (has_short_rows<Rows, E> && ...);

/// One step of a row kernel: a kernel, and whether it adds to its output.
template <class Kernel, bool Accumulate>
struct row_part {};
/// Several kernels of the same rows as one kernel.
template <class Rows, class... Part>
struct row_kernel;
template <class Rows, class... Kernel, bool... Accumulate>
struct row_kernel<Rows, row_part<Kernel, Accumulate>...> : plain_kernel {
  template <class Run>
  static void run(run_context<typename Run::backend_type> const& context, value_reader outputs, bool) {
    Run const run{context};
    value_reader operands{outputs.values, outputs.next + sizeof...(Kernel)};
    Index const n = run.template extent<Rows>();
    in_order{[&](auto const&... step) { run.backend.each_row(n, step...); },
             Kernel::in_row(run, outputs, operands, Accumulate)...};
  }
};

/// The key of calls that treat each of the rows counted by Rows independently.
template <class Rows>
struct same_rows {
  static constexpr double most_bytes = 3840;  // CUDA: 4096 bytes of kernel arguments
  static constexpr bool in_parallel = false;
  template <class Run, class Kernel>
  using step = decltype(Kernel::in_row(std::declval<Run const&>(), std::declval<value_reader&>(),
                                       std::declval<value_reader&>(), false));
  template <class Run, class Call>
  static constexpr double share = sizeof(step<Run, kernel_of_call<Call>>) / most_bytes;
  template <class... C>
  using kernel = row_kernel<Rows, row_part<kernel_of_call<C>, effect_of_call<C>::accumulate>...>;
};

// ---- products ----

/// The matrices as a stack, an empty one unless they lie at equal distances.
template <class T, std::size_t Count>
view<T> stack_of(std::array<view<T>, Count> const& v) {
  auto const address = [](T* p) { return reinterpret_cast<std::intptr_t>(p); };
  view<T> stack = v[0], none = v[0];
  none.count = 0;
  auto const distance = address(v[1].data) - address(v[0].data);
  if (distance <= 0 || distance % static_cast<std::intptr_t>(sizeof(T)) != 0) return none;
  for (std::size_t i = 1; i < Count; ++i) {
    bool const same = v[i].row_stride == v[0].row_stride && v[i].col_stride == v[0].col_stride;
    if (!same || address(v[i].data) - address(v[i - 1].data) != distance) return none;
  }
  stack.count = static_cast<Index>(Count);
  stack.stack_stride = distance / static_cast<std::intptr_t>(sizeof(T));
  return stack;
}

/// Several products of one left operand as one kernel.
template <class T, class A, class B, bool Accumulate, std::size_t Count>
struct stacked_product : plain_kernel {
  static constexpr bool stacks_outputs = true;
  template <class Run>
  static void run(run_context<typename Run::backend_type> const& context, value_reader outputs, bool) {
    Run const run{context};
    value_reader operands{outputs.values, outputs.next + Count};
    std::array<view<T>, Count> y;
    std::array<view<B const>, Count> b;
    view<A const> a;
    for (std::size_t i = 0; i < Count; ++i) {
      y[i] = typed<T>(outputs.memory());
      a = typed<A const>(operands.memory());
      b[i] = typed<B const>(operands.memory());
    }
    view<T> const results = stack_of(y);
    view<B const> const right = stack_of(b);
    if (results.count > 0 && right.count > 0) {
      run.backend.gemm_stack(results, a, right, Accumulate);
    } else {
      for (std::size_t i = 0; i < Count; ++i) run.backend.gemm(y[i], a, b[i], Accumulate);
    }
  }
};

/// The key of products of one left operand with right operands of the same extents.
template <class Left, class Extents, class T, class A, class B, bool Accumulate>
struct same_left {
  static constexpr bool in_parallel = true;
  template <class, class>
  static constexpr double share = 0.25;
  template <class... C>
  using kernel = stacked_product<T, A, B, Accumulate, sizeof...(C)>;
};

// ---- what may be made together, and is ----

/// The key of a call's group, void for none.
template <class Call, class Backend>
struct common_of {
  using type = void;
};
template <class Call, class Backend>
requires(FusedRows<Backend>&& kernel_of_call<Call>::is_row_local && !effect_of_call<Call>::accumulates_gradient &&
         count_of_types<outputs_of_call<Call>>::value == 1)  //
    struct common_of<Call, Backend> {
  using rows_of_result = rows<first_in<outputs_of_call<Call>>>;
  using type =
      std::conditional_t<have_short_rows<rows_of_result, values_of_call<Call>>, same_rows<rows_of_result>, void>;
};
template <kind K, class T, class A, class B, class Y, class Left, class Right, bool Accumulate, class Backend>
requires(StackedProducts<Backend>)  //
    struct common_of<call<kernel<ops::matmul<K>, type_list<view<T>>, type_list<view<A const>, view<B const>>>,
                          type_list<Y>, type_list<Left, Right>, Accumulate, false>,
                     Backend> {
  using type = same_left<Left, typename Right::extents, T, A, B, Accumulate>;
};

/// True for operands that order calls, or that the kernel writes.
template <class Operand>
inline constexpr bool fixes_order = std::is_same_v<Operand, unread>;
template <class T>
inline constexpr bool fixes_order<view<T>> = !std::is_const_v<T>;
template <class Kernel>
inline constexpr bool is_fixed = Kernel::at::edge != repeat_edge::none || Kernel::is_asynchronous || Kernel::receives;
template <class Op, class Out, class... In>
inline constexpr bool is_fixed<kernel<Op, Out, type_list<In...>>> = edge_of<Op>::edge != repeat_edge::none ||
                                                                    Op::is_asynchronous || Op::receives ||
                                                                    (fixes_order<In> || ...);

template <class Run, class All, class Call, class Common>
constexpr call_role role_of() {
  if constexpr (std::is_void_v<Common>) {
    return {-1, 0, false, is_fixed<kernel_of_call<Call>>};
  } else {
    return {position_in<All, Common>::value, Common::template share<Run, Call>, Common::in_parallel,
            is_fixed<kernel_of_call<Call>>};
  }
}
template <class Run, class... C>
constexpr auto roles_of(type_list<C...>*) {
  using backend = typename Run::backend_type;
  using all = unique<type_list<typename common_of<C, backend>::type...>>;
  return std::array<call_role, sizeof...(C)>{role_of<Run, all, C, typename common_of<C, backend>::type>()...};
}

/// The call of a group of calls; that of a single call is the call itself.
template <bool IsOne>
struct together {
  template <class Backend, class... C>
  using type = call<typename common_of<first_in<type_list<C...>>, Backend>::type::template kernel<C...>,
                    concat<outputs_of_call<C>...>, concat<operands_of_call<C>...>, false, false>;
};
template <>
struct together<true> {
  template <class, class... C>
  using type = first_in<type_list<C...>>;
};
template <class Order, std::size_t First, class Members>
struct joined_calls;
template <class Order, std::size_t First, std::size_t... Member>
struct joined_calls<Order, First, std::index_sequence<Member...>> {
  using type = typename together<sizeof...(Member) == 1>::template type<
      typename Order::backend, nth<Order::value.call[First + Member], typename Order::calls>...>;
};
/// The call of group number Group.
template <class Order, std::size_t Group, std::size_t Begin = Order::begin_of(Group),
          std::size_t End = Order::begin_of(Group + 1)>
using group_of_calls = typename joined_calls<Order, Begin, std::make_index_sequence<End - Begin>>::type;
template <class Order, std::size_t... Group>
auto calls_in_order(std::index_sequence<Group...>) -> type_list<group_of_calls<Order, Group>...>*;

/// True for backends that run several calls as one kernel.
template <class Backend>
inline constexpr bool groups_calls = FusedRows<Backend> || StackedProducts<Backend>;

/// By view: whether its rows are those of its source, or parts of them.
template <class E>
inline constexpr bool is_view_of_rows = false;
template <class Op, class... A>
inline constexpr bool is_view_of_rows<node<Op, A...>> = Op::keeps_rows;
template <class... E>
constexpr auto views_of_rows(type_list<E...>*) {
  return std::array<bool, sizeof...(E)>{is_view_of_rows<E>...};
}
/// The order and the groups of the calls of a program P.
/// @tparam Tables  the rows of the calls without groups
template <class P, class Tables>
struct order_of_calls {
  using backend = typename P::backend;
  using calls = calls_in<P>;
  static constexpr auto stored = static_cast<std::size_t>(count_of_types<stored_in<P>>::value);
  static constexpr auto single = static_cast<std::size_t>(count_of_types<calls>::value);
  static constexpr auto roles = detail::roles_of<typename P::run>(static_cast<calls*>(nullptr));
  static constexpr auto bases = bases_of<stored>(Tables::sources);
  static constexpr auto keep_rows =
      rows_kept<stored>(Tables::sources, detail::views_of_rows(static_cast<derived_in<P>*>(nullptr)));
  static constexpr auto repeats = repeats_of<stored>(Tables::leaf_rows, Tables::rows, Tables::numbers, bases);
  static constexpr auto value =
      call_ordering<single, stored>(roles, Tables::rows, Tables::numbers, bases, keep_rows, repeats)
          .order(Tables::forward_calls);
  static constexpr std::size_t begin_of(std::size_t group) { return static_cast<std::size_t>(value.begin[group]); }
};
/// The calls of a program, one for each group.
template <class Order>
using grouped_calls = list_of<decltype(detail::calls_in_order<Order>(std::make_index_sequence<Order::value.groups>{}))>;

}  // namespace headmix::detail

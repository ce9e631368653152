#pragma once
// SPDX-License-Identifier: MIT
// Calls about the same rows become one call of each_row, for backends that are FusedRows: routers, gates and losses are
// many small functions of short rows, and a kernel for each costs more than what it computes.

#include <algorithm>

#include "headmix/program/binding_table.hpp"
#include "headmix/program/call.hpp"
#include "headmix/program/plan.hpp"

namespace headmix::detail {

/// What grouping sees of a call.
struct row_call {
  int rows = -1;          ///< which extent its rows are, -1 where it is not about each row by itself
  bool is_fixed = false;  ///< no call is moved from one side of it to the other
  std::size_t bytes = 0;  ///< of its step
};

/// The order in which calls are made: calls that are joined to the one before are made with it.
template <std::size_t Calls>
struct call_order {
  std::array<int, Calls> call = {};
  std::array<bool, Calls> joined = {};
  std::size_t groups = 0, forward_groups = 0;

  /// Where group g begins; where the last one ends for g = groups.
  [[nodiscard]] constexpr std::size_t begin(std::size_t g) const {
    std::size_t i = 0;
    for (std::size_t seen = 0; i < Calls; ++i) {
      if (!joined[i] && seen++ == g) break;
    }
    return i;
  }
};

/// Puts calls together that may be made together. Every value keeps its meaning: a call passes another one only if
/// neither writes what the other one reads or writes.
template <std::size_t Calls>
class row_grouping {
 public:
  /// @param base    by value: the value whose memory it has, -1 for none
  /// @param repeat  by value: the repeated part that makes it, -1 for none
  constexpr row_grouping(std::array<row_call, Calls> const& local, std::array<call_row, Calls> const& calls,
                         std::span<int const> numbers, std::span<int const> base, std::span<int const> repeat)
      : local_(local), calls_(calls), numbers_(numbers), base_(base) {
    for (std::size_t c = 0; c < Calls; ++c) repeat_[c] = repeat_of(c, repeat);
  }

  constexpr call_order<Calls> order(std::size_t forward_calls) {
    for (std::size_t c = 0; c < Calls; ++c) {
      if (c == forward_calls) first_ = size_;
      place(static_cast<int>(c));
    }
    for (std::size_t i = 0; i < Calls; ++i) {
      if (order_.joined[i]) continue;
      ++order_.groups;
      if (i < (forward_calls < Calls ? first_ : Calls)) ++order_.forward_groups;
    }
    return order_;
  }

 private:
  static constexpr std::size_t most_bytes = 3840;  // of the 4096 that a kernel's operands may have
  static constexpr std::size_t reach = 32;         // calls that one may be away from those it joins

  [[nodiscard]] constexpr std::span<int const> values_of(int c) const {
    call_row const& row = calls_[static_cast<std::size_t>(c)];
    return numbers_.subspan(static_cast<std::size_t>(row.begin), static_cast<std::size_t>(row.values));
  }
  [[nodiscard]] constexpr int base_of(int n) const { return n < 0 ? -1 : base_[static_cast<std::size_t>(n)]; }
  [[nodiscard]] constexpr int repeat_of(std::size_t c, std::span<int const> repeat) const {
    for (int const n : values_of(static_cast<int>(c))) {
      if (int const b = base_of(n); b >= 0 && repeat[static_cast<std::size_t>(b)] >= 0) {
        return repeat[static_cast<std::size_t>(b)];
      }
    }
    return -1;
  }
  /// Whether a writes what b reads or writes.
  [[nodiscard]] constexpr bool feeds(int a, int b) const {
    auto const written = values_of(a), touched = values_of(b);
    for (int i = 0; i < calls_[static_cast<std::size_t>(a)].outputs; ++i) {
      int const w = base_of(written[static_cast<std::size_t>(i)]);
      for (int const n : touched) {
        if (w >= 0 && base_of(n) == w) return true;
      }
    }
    return false;
  }
  [[nodiscard]] constexpr bool commute(int a, int b) const { return !feeds(a, b) && !feeds(b, a); }
  /// Whether b reads, in another shape, what a writes: not only the same row of it.
  [[nodiscard]] constexpr bool reshapes(int a, int b) const {
    int const w = base_of(values_of(a)[0]);
    for (int const n : values_of(b)) {
      if (n >= 0 && n != w && base_of(n) == w) return true;
    }
    return false;
  }
  [[nodiscard]] constexpr row_call const& local(std::size_t i) const {
    return local_[static_cast<std::size_t>(order_.call[i])];
  }
  /// Whether call c can be a step of the group [begin, end).
  [[nodiscard]] constexpr bool fits(int c, std::size_t begin, std::size_t end) const {
    auto const k = static_cast<std::size_t>(c);
    std::size_t bytes = local_[k].bytes;
    for (std::size_t i = begin; i < end; ++i) {
      bytes += local(i).bytes;
      if (reshapes(order_.call[i], c) || reshapes(c, order_.call[i])) return false;
    }
    return local_[k].rows >= 0 && local(begin).rows == local_[k].rows && bytes <= most_bytes &&
           repeat_[k] == repeat_[static_cast<std::size_t>(order_.call[begin])];
  }
  constexpr void insert(std::size_t at, int c, bool joins) {
    for (std::size_t i = size_++; i > at; --i) {
      order_.call[i] = order_.call[i - 1];
      order_.joined[i] = order_.joined[i - 1];
    }
    order_.call[at] = c;
    order_.joined[at] = joins;
  }
  /// Whether the calls [begin, end) may come behind all that follow them.
  [[nodiscard]] constexpr bool can_wait(std::size_t begin, std::size_t end) const {
    for (std::size_t i = end; i < size_; ++i) {
      for (std::size_t k = begin; k < end; ++k) {
        if (local(i).is_fixed || !commute(order_.call[k], order_.call[i])) return false;
      }
    }
    return true;
  }
  /// Moves the calls [begin, end) behind all that follow them.
  constexpr void postpone(std::size_t begin, std::size_t end) {
    for (std::size_t moves = end - begin; moves > 0; --moves) {
      int const c = order_.call[begin];
      bool const joins = order_.joined[begin];
      for (std::size_t i = begin + 1; i < size_; ++i) {
        order_.call[i - 1] = order_.call[i];
        order_.joined[i - 1] = order_.joined[i];
      }
      order_.call[size_ - 1] = c;
      order_.joined[size_ - 1] = joins;
    }
  }
  /// Puts call c behind all before it, or where it joins the nearest group that it can be in: c moves up to that one,
  /// or that one down to c.
  constexpr void place(int c) {
    if (local_[static_cast<std::size_t>(c)].rows >= 0) {
      bool may_move = true;
      for (std::size_t end = size_; end > first_ && size_ - end <= reach;) {
        std::size_t begin = end - 1;
        while (order_.joined[begin]) --begin;
        if (fits(c, begin, end)) {
          if (may_move) return insert(end, c, true);
          if (can_wait(begin, end)) {
            postpone(begin, end);
            return insert(size_, c, true);
          }
        }
        for (std::size_t i = begin; i < end; ++i) {
          if (local(i).is_fixed) end = 0;
          may_move = may_move && commute(order_.call[i], c);
        }
        end = end == 0 ? 0 : begin;
      }
    }
    insert(size_, c, false);
  }

  std::array<row_call, Calls> const& local_;
  std::array<call_row, Calls> const& calls_;
  std::span<int const> numbers_, base_;
  std::array<int, Calls> repeat_ = {};
  call_order<Calls> order_ = {};
  std::size_t size_ = 0, first_ = 0;  // calls that have their place, and which of them others may still join
};

/// True where the rows of a value are those counted by Rows, or one, and its columns are few.
template <class Rows, class E>
inline constexpr bool has_short_rows = count<E>::value == 1 && 1 <= cols<E>::value&& cols<E>::value <= 256 &&
                                       (std::is_same_v<rows<E>, Rows> || rows<E>::value == 1);
template <class Rows, class E>
inline constexpr bool has_short_rows<Rows, extents_of<E>> = true;
template <class Rows, class E>
inline constexpr bool has_short_rows<Rows, number_in<E>> = true;
template <class Rows, class Values>
inline constexpr bool have_short_rows = false;
template <class Rows, class... E>
inline constexpr bool have_short_rows<Rows, type_list<E...>> = (has_short_rows<Rows, E> && ...);

/// The extent that counts the rows of a call that is about each row by itself, else void.
template <class Call, bool IsLocal = Call::kernel::is_row_local && !Call::into_leaf && Call::outputs::size == 1>
struct local_rows {
  using type = void;
};
template <class Call>
struct local_rows<Call, true> {
  using of_result = rows<typename first_of<typename Call::outputs>::type>;
  using type = std::conditional_t<have_short_rows<of_result, typename Call::values>, of_result, void>;
};

/// True for operands of which the order of calls is all that matters, or which a kernel writes.
template <class Operand>
inline constexpr bool fixes_order = std::is_same_v<Operand, unread>;
template <class T>
inline constexpr bool fixes_order<view<T>> = !std::is_const_v<T>;
template <class Kernel>
inline constexpr bool is_fixed = Kernel::at::edge != repeat_edge::none || Kernel::goes_on || Kernel::receives;
template <class Op, class Out, class... In>
inline constexpr bool is_fixed<kernel<Op, Out, type_list<In...>>> = edge_of<Op>::edge != repeat_edge::none ||
                                                                    Op::goes_on || Op::receives ||
                                                                    (fixes_order<In> || ...);

template <class Run, class Kernel>
using step_in_row = decltype(Kernel::in_row(std::declval<Run const&>(), std::declval<value_reader&>(),
                                            std::declval<value_reader&>(), false));
template <class Run, class Rows, class Call>
constexpr row_call row_call_of() {
  using own = typename local_rows<Call>::type;
  if constexpr (std::is_void_v<own>) {
    return {-1, is_fixed<typename Call::kernel>, 0};
  } else {
    return {position_in<Rows, own>::value, is_fixed<typename Call::kernel>,
            sizeof(step_in_row<Run, typename Call::kernel>)};
  }
}
template <class Run, class... C>
constexpr auto row_calls(type_list<C...>) {
  using all_rows = unique<type_list<typename local_rows<C>::type...>>;
  return std::array<row_call, sizeof...(C)>{row_call_of<Run, all_rows, C>()...};
}

/// By value, the value whose memory it has.
template <std::size_t Stored, std::size_t Derived>
constexpr auto bases_of(std::array<int, Derived> const& sources) {
  std::array<int, Stored + Derived> base = {};
  for (std::size_t i = 0; i < base.size(); ++i) {
    int n = static_cast<int>(i);
    while (n >= static_cast<int>(Stored)) n = sources[static_cast<std::size_t>(n) - Stored];
    base[i] = n;
  }
  return base;
}
/// By stored value, the repeated part that makes it: what comes in, repeated leaves, and what is made of them.
template <std::size_t Stored, std::size_t Calls, class Leaves>
constexpr auto repeats_of(Leaves const& leaves, std::array<call_row, Calls> const& calls, std::span<int const> numbers,
                          std::span<int const> base) {
  std::array<int, Stored> repeat = {};
  for (int& r : repeat) r = -1;
  for (std::size_t l = 0; l < leaves.size(); ++l) repeat[l] = repeat[leaves.size() + l] = leaves[l].repeat;
  for (call_row const& row : calls) {
    auto const values = numbers.subspan(static_cast<std::size_t>(row.begin), static_cast<std::size_t>(row.values));
    bool const begins = row.edge == repeat_edge::begin || row.edge == repeat_edge::gradient_begin;
    int found = begins ? row.repeat : -1;
    for (int const n : values) {
      int const b = n < 0 ? -1 : base[static_cast<std::size_t>(n)];
      if (row.edge == repeat_edge::none && b >= 0 && repeat[static_cast<std::size_t>(b)] >= 0) {
        found = repeat[static_cast<std::size_t>(b)];
      }
    }
    for (int i = 0; found >= 0 && i < row.outputs; ++i) {
      repeat[static_cast<std::size_t>(values[static_cast<std::size_t>(i)])] = found;
    }
  }
  return repeat;
}

/// One of several steps: a kernel, and whether it adds to its output.
template <class Kernel, bool Accumulate>
struct row_part {};
/// The kernel that is several kernels of rows.
template <class Rows, class... Part>
struct row_kernel;
template <class Rows, class... Kernel, bool... Accumulate>
struct row_kernel<Rows, row_part<Kernel, Accumulate>...> {
  using at = edge_of<void>;
  template <class Run>
  static void run(Run const& run, value_reader outputs, bool) {
    value_reader operands{outputs.values, outputs.next + sizeof...(Kernel)};
    Index const n = run.template extent<Rows>();
    in_order{[&](auto const&... step) { run.backend.each_row(n, step...); },
             Kernel::in_row(run, outputs, operands, Accumulate)...};
  }
  static constexpr bool is_row_local = false;
  static constexpr bool needs_scratch = false;
  static constexpr int sized_output = 0;
  static constexpr bool receives = false;
  static constexpr bool goes_on = false;
};

template <class... C>
struct together {
  using rows_of_all = rows<typename first_of<typename first_of<type_list<C...>>::type::outputs>::type>;
  using type = call<row_kernel<rows_of_all, row_part<typename C::kernel, C::accumulate>...>,
                    concat<typename C::outputs...>, concat<typename C::operands...>, false, false>;
};
template <class C>
struct together<C> {
  using type = C;
};
template <class Calls, class Order, std::size_t First, class Members>
struct group_of_calls;
template <class Calls, class Order, std::size_t First, std::size_t... Member>
struct group_of_calls<Calls, Order, First, std::index_sequence<Member...>>
    : together<nth<Order::value.call[First + Member], Calls>...> {};
template <class Calls, class Order, class Groups>
struct calls_in_order;
template <class Calls, class Order, std::size_t... Group>
struct calls_in_order<Calls, Order, std::index_sequence<Group...>> {
  template <std::size_t G>
  using group = group_of_calls<Calls, Order, Order::value.begin(G),
                               std::make_index_sequence<Order::value.begin(G + 1) - Order::value.begin(G)>>;
  using type = type_list<typename group<Group>::type...>;
};

/// The calls of a program with lists P, those about the same rows together.
/// @tparam Tables  a program's tables of the calls one by one
template <class P, class Tables>
struct grouped_calls {
  struct order {
    static constexpr auto locals = row_calls<typename P::run>(typename Tables::calls{});
    static constexpr auto bases = bases_of<static_cast<std::size_t>(P::stored::size)>(Tables::sources);
    static constexpr auto repeats =
        repeats_of<static_cast<std::size_t>(P::stored::size)>(Tables::leaf_rows, Tables::rows, Tables::numbers, bases);
    static constexpr auto value =
        row_grouping(locals, Tables::rows, Tables::numbers, bases, repeats).order(Tables::forward_calls);
  };
  using type =
      typename calls_in_order<typename Tables::calls, order, std::make_index_sequence<order::value.groups>>::type;
  static constexpr std::size_t forward_calls = order::value.forward_groups;
};

}  // namespace headmix::detail

#pragma once
// SPDX-License-Identifier: MIT
// Values of tokens and values of sequences: the sequence of a row, and means over a sequence, over the positions so
// far, or over the latest positions.

#include <limits>

#include "headmix/expr/select.hpp"

namespace headmix {
namespace ops {

/// y_i = the sequence that row i belongs to
template <class Rows>
struct sequence_numbers : operation {
  static constexpr bool differentiable = false;
  template <class...>
  static constexpr kind kind_of = kind::integer;
  template <class...>
  using shape_of = shape<Rows, size<1>>;
  template <class...>
  using domain_of = sequences;
  static void eval(auto const& run, auto y) { run.backend.sequence_numbers(y, run.template segments_of<Rows>()); }
};

/// y_ij = table_{index_i, j}, for a table of choices.
struct gather_choices : operation {
  static constexpr bool differentiable = false;
  template <class...>
  static constexpr kind kind_of = kind::integer;
  template <class Table, class Chosen>
  using shape_of = shape<rows<Chosen>, cols<Table>>;
  template <class Table, class Chosen>
  using domain_of = headmix::domain<Table>;
  template <class Table, class Chosen>
  using checks =
      type_list<equal<cols_of<Chosen>, extent_value<size<1>>>, equal<headmix::domain_of<Chosen>, rows_of<Table>>>;
  static void eval(auto const& run, auto y, auto table, auto index) { run.backend.gather_rows(y, table, index); }
};

/// y_t = the mean of a_s, t - Window < s <= t, in the sequence of t; or the transpose of this map. Rows is the extent
/// of rows with sequences; if Padded, a includes their padding.
template <class Window, class Rows, bool Transposed, bool Padded>
struct window_mean : operation {
  static constexpr bool validates = true;
  template <class...>
  static void validate(auto const& run) {
    if (run.template segments_of<Rows>().past != nullptr) {
      fail("window_mean: the sequences say what came before their rows (segments::past), which a Decoder alone keeps");
    }
  }
  template <class A>
  using shape_of = shape<rows<A>, cols<A>>;
  template <class>
  using checks = type_list<at_most<extent_value<size<1>>, extent_value<Window>>>;
  static void eval(auto const& run, auto y, auto a) {
    segments s = run.template segments_of<Rows>();
    if constexpr (Padded) s = uniform(s.count, y.rows / s.count);
    run.backend.window_mean(y, a, s, run.template extent<Window>(), Transposed);
  }
  static constexpr auto vjp(auto dy, auto, auto) {
    return grads(make<window_mean<Window, Rows, !Transposed, Padded>>(dy));
  }
};

}  // namespace ops

/// The sequence number of each of Rows rows (`tokens`, `context_tokens`): Int [Rows, 1].
template <Extent Rows>
constexpr auto sequence_numbers() {
  return make<ops::sequence_numbers<Rows>>();
}
/// Rows of a table of choices, Int [V, K] and Int [R, 1] -> Int [R, K].
template <Selection Table, Selection Chosen>
constexpr auto gather_choices(Table table, Chosen index) {
  return make<ops::gather_choices>(table, index);
}

/// A window over all positions so far.
struct all_before : size<(std::numeric_limits<Int>::max)()> {};

/// The mean over the latest Window positions of the sequence, including its own: [tokens, C] -> [tokens, C].
template <Extent Window, Expr A>
constexpr auto window_mean(A a) {
  return make<ops::window_mean<Window, rows<A>, false, false>>(a);
}
namespace detail {
/// The sum over the valid rows of a window, divided by the number of all its positions.
template <Extent Window, Expr A, Expr ValidRows>
constexpr auto padded_window_mean(A a, ValidRows valid_rows) {
  return gather_rows(make<ops::window_mean<Window, rows<A>, false, true>>(scatter_rows(a, valid_rows)), valid_rows);
}
}  // namespace detail
/// The mean over the valid rows among the latest Window positions of padded sequences; padding has positions too.
/// `valid_rows` numbers the valid rows among all.
template <Extent Window, Expr A, Expr ValidRows>
constexpr auto window_mean(A a, ValidRows valid_rows) {
  constexpr auto count = ones_of<rows<A>, size<1>>();
  return detail::padded_window_mean<Window>(a, valid_rows) / detail::padded_window_mean<Window>(count, valid_rows);
}
/// A value of the sequence for each of its rows: [sequences, C] -> [Rows, C].
template <Extent Rows, Expr A>
constexpr auto of_sequence(A a) {
  return gather_rows(a, sequence_numbers<Rows>());
}
/// The mean over the rows of a sequence, 0 for one without rows: [tokens, C] -> [sequences, C].
template <Expr A>
constexpr auto sequence_mean(A a) {
  constexpr auto numbers = sequence_numbers<rows<A>>();
  constexpr auto length = scatter_rows(ones_of<rows<A>, size<1>>(), numbers);
  return scatter_rows(a, numbers) / maximum(length, number<1>{});
}

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// Choosing: the k best columns of a row, values at chosen columns, rows of a table. A choice of -1 means "nothing".

#include "headmix/expr/reduce.hpp"

namespace headmix {
namespace ops {

/// The columns of the K largest values of each row, best first; equal values in the order of columns, NaN last.
template <class K>
struct top_k : operation {
  template <class...>
  static constexpr kind kind_of = kind::integer;
  static constexpr bool differentiable = false;
  template <class A>
  using shape_of = shape<rows<A>, K>;
  template <class A>
  using domain_of = cols<A>;
  template <class A>
  using checks = type_list<at_most<extent_value<size<1>>, extent_value<K>>, at_most<extent_value<K>, cols_of<A>>>;
  static void eval(auto const& run, auto y, auto a) { run.backend.top_k(y, a); }
};

template <class E>
struct scatter_cols;

/// y_ij = a_{i, index_ij}
struct gather_cols : operation {
  template <class A, class Chosen>
  using shape_of = shape<rows<A>, cols<Chosen>>;
  template <class A, class Chosen>
  static constexpr kind kind_of = A::kind_of;
  template <class A, class Chosen>
  using checks = type_list<equal<rows_of<Chosen>, rows_of<A>>, equal<headmix::domain_of<Chosen>, cols_of<A>>>;
  static void eval(auto const& run, auto y, auto a, auto index) { run.backend.gather_cols(y, a, index); }
  static constexpr bool is_row_local = true;
  template <class T>
  static row_step::gather<T> in_row(auto const&, view<T> y, view<T const> a, view<Int const> index) {
    return {y, a, index};
  }
  static constexpr auto vjp(auto dy, auto a, auto index, auto) {
    return grads(make<scatter_cols<cols<decltype(a)>>>(dy, index), none{});
  }
};

/// Zeros, with the given values added at the chosen columns of each row.
template <class E>
struct scatter_cols : operation {
  template <class A, class Chosen>
  using shape_of = shape<rows<A>, E>;
  template <class A, class Chosen>
  static constexpr kind kind_of = A::kind_of;
  template <class A, class Chosen>
  using checks = type_list<equal<rows_of<Chosen>, rows_of<A>>, equal<cols_of<Chosen>, cols_of<A>>,
                           equal<headmix::domain_of<Chosen>, extent_value<E>>>;
  static void eval(auto const& run, auto y, auto a, auto index) { run.backend.scatter_cols(y, a, index); }
  static constexpr bool is_row_local = true;
  template <class T>
  static row_step::scatter<T> in_row(auto const&, view<T> y, view<T const> a, view<Int const> index) {
    return {y, a, index};
  }
  static constexpr auto vjp(auto dy, auto, auto index, auto) { return grads(make<gather_cols>(dy, index), none{}); }
};

/// The number of times that each column is chosen in its row: 0 or 1 for distinct choices.
template <class E>
struct one_hot : operation {
  static constexpr bool differentiable = false;
  template <class Chosen>
  using shape_of = shape<rows<Chosen>, E>;
  template <class Chosen>
  static constexpr kind kind_of = kind::accumulator;
  static void eval(auto const& run, auto y, auto index) { run.backend.one_hot(y, index); }
  static constexpr bool is_row_local = true;
  template <class T>
  static row_step::scatter<T> in_row(auto const&, view<T> y, view<Int const> index) {
    return {y, {}, index};
  }
};

/// The columns of a, then those of b.
struct concat_choices : operation {
  static constexpr bool differentiable = false;
  template <class A, class B>
  using shape_of = shape<rows<A>, plus<cols<A>, cols<B>>>;
  template <class A, class B>
  static constexpr kind kind_of = A::kind_of;
  template <class A, class B>
  using domain_of = headmix::domain<A>;
  template <class A, class B>
  using checks =
      type_list<equal<rows_of<B>, rows_of<A>>, equal<headmix::domain_of<B>, extent_value<headmix::domain<A>>>>;
  static void eval(auto const& run, auto y, auto a, auto b) {
    run.backend.renumber(y.middle_cols(0, a.cols), a, 0, 0);
    run.backend.renumber(y.middle_cols(a.cols, b.cols), b, 0, 0);
  }
  static constexpr bool is_row_local = true;
  static row_step::concat<Int, Int, Int> in_row(auto const&, view<Int> y, view<Int const> a, view<Int const> b) {
    return {y, a, b};
  }
};

struct renumbering : operation {
  static constexpr bool differentiable = false;
  template <class>
  static constexpr kind kind_of = kind::integer;
};

/// y_ij = First + j, for as many rows as the operand has
template <class First, class Count, class Domain>
struct iota_cols : renumbering {
  template <class A>
  using shape_of = shape<rows<A>, Count>;
  template <class>
  using domain_of = Domain;
  template <class>
  using checks = type_list<at_most<extent_value<plus<First, Count>>, extent_value<Domain>>>;
  static void eval(auto const& run, auto y, auto) {
    run.backend.renumber(y, view<Int const>(nullptr, y.rows, y.cols), run.template extent<First>(), 0);
  }
  static constexpr bool is_row_local = true;
  static row_step::renumber in_row(auto const& run, view<Int> y, auto) {
    return {y, {nullptr, y.rows, y.cols}, run.template extent<First>(), 0};
  }
};

/// y_ij = First + index_ij
template <class First, class Domain>
struct offset_cols : renumbering {
  template <class Chosen>
  using shape_of = shape<rows<Chosen>, cols<Chosen>>;
  template <class>
  using domain_of = Domain;
  template <class Chosen>
  using checks = type_list<at_most<extent_value<plus<First, headmix::domain<Chosen>>>, extent_value<Domain>>>;
  static void eval(auto const& run, auto y, auto index) {
    run.backend.renumber(y, index, run.template extent<First>(), 0);
  }
  static constexpr bool is_row_local = true;
  static row_step::renumber in_row(auto const& run, view<Int> y, view<Int const> index) {
    return {y, index, run.template extent<First>(), 0};
  }
};

/// y_ij = i E + index_ij
template <class E>
struct flat_index : renumbering {
  template <class Chosen>
  using shape_of = shape<rows<Chosen>, cols<Chosen>>;
  template <class Chosen>
  using domain_of = times<E, rows<Chosen>>;
  static void eval(auto const& run, auto y, auto index) { run.backend.renumber(y, index, 0, run.template extent<E>()); }
  static constexpr bool is_row_local = true;
  static row_step::renumber in_row(auto const& run, view<Int> y, view<Int const> index) {
    return {y, index, 0, run.template extent<E>()};
  }
};

/// y_ij = index_ij / Group, rounded down: the number of its group of `Group` neighbours, among Groups
template <class Group, class Groups>
struct group_of_choice : renumbering {
  template <class Chosen>
  using shape_of = shape<rows<Chosen>, cols<Chosen>>;
  template <class>
  using domain_of = Groups;
  template <class Chosen>
  using checks = type_list<equal<extent_value<times<Group, Groups>>, extent_value<headmix::domain<Chosen>>>>;
  static void eval(auto const& run, auto y, auto index) {
    run.backend.renumber(y, index, 0, 0, run.template extent<Group>());
  }
  static constexpr bool is_row_local = true;
  static row_step::renumber in_row(auto const& run, view<Int> y, view<Int const> index) {
    return {y, index, 0, 0, run.template extent<Group>()};
  }
};

/// y_{i, k Count + j} = j E + index_ik, or -1 where index_ik is -1.
template <class Count, class E>
struct heads_of_choices : renumbering {
  template <class Chosen>
  using shape_of = shape<rows<Chosen>, times<cols<Chosen>, Count>>;
  template <class>
  using domain_of = times<Count, E>;
  static void eval(auto const& run, auto y, auto index) {
    Index const step = run.template extent<E>(), count = run.template extent<Count>();
    for (Index j = 0; j < count; ++j) {
      view<Int> of_j = y.middle_cols(j, index.cols);
      of_j.col_stride *= count;
      run.backend.renumber(of_j, index, j * step, 0);
    }
  }
};

/// y_ij = index_ij - 1, with the domain of the columns; -1 where index_ij is 0.
struct from_zero : renumbering {
  template <class A>
  using shape_of = shape<rows<A>, cols<A>>;
  template <class A>
  using domain_of = cols<A>;
  static void eval(auto const& run, auto y, auto index) { run.backend.renumber(y, index, -1, 0); }
  static constexpr bool is_row_local = true;
  static row_step::renumber in_row(auto const&, view<Int> y, view<Int const> index) { return {y, index, -1, 0}; }
};

/// The first column.
struct first_choice : operation {
  static constexpr detail::form form_of = detail::form::view;
  static constexpr bool keeps_rows = true;
  static constexpr bool differentiable = false;
  template <class>
  static constexpr kind kind_of = kind::integer;
  template <class Chosen>
  using domain_of = headmix::domain<Chosen>;
  template <class Chosen>
  using shape_of = shape<rows<Chosen>, size<1>>;
  template <class Chosen>
  using checks = type_list<at_most<extent_value<size<1>>, cols_of<Chosen>>>;
  template <class T>
  static constexpr view<T> apply(auto const&, view<T> index) {
    return index.middle_cols(0, 1);
  }
};

/// The columns First .. First + Count - 1.
template <class First, class Count>
struct slice_cols : operation {
  static constexpr detail::form form_of = detail::form::view;
  static constexpr bool keeps_rows = true;
  static constexpr bool differentiable = false;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class A>
  using shape_of = shape<rows<A>, Count>;
  template <Selection Chosen>
  using domain_of = headmix::domain<Chosen>;
  template <class A>
  using checks = type_list<at_most<extent_value<plus<First, Count>>, cols_of<A>>>;
  template <class T>
  static constexpr view<T> apply(auto const& run, view<T> a) {
    return a.middle_cols(run.template extent<First>(), run.template extent<Count>());
  }
};

/// The columns of a, then those of b, of real matrices.
struct concat_cols : operation {
  template <class A, class B>
  using shape_of = shape<rows<A>, plus<cols<A>, cols<B>>>;
  template <class A, class B>
  using checks = type_list<equal<rows_of<B>, rows_of<A>>>;
  static void eval(auto const& run, auto y, auto a, auto b) {
    run.copy(y.middle_cols(0, a.cols), a, false);
    run.copy(y.middle_cols(a.cols, b.cols), b, false);
  }
  static constexpr bool is_row_local = true;
  template <class T, class A, class B>
  static row_step::concat<T, A, B> in_row(auto const&, view<T> y, view<A const> a, view<B const> b) {
    return {y, a, b};
  }
  static constexpr auto vjp(auto dy, auto a, auto b, auto) {
    using A = decltype(a);
    using B = decltype(b);
    return grads(make<slice_cols<size<0>, cols<A>>>(dy), make<slice_cols<cols<A>, cols<B>>>(dy));
  }
};

template <class V>
struct scatter_rows;

/// y_i = table_{index_i}
struct gather_rows : operation {
  template <class W, class Chosen>
  using shape_of = shape<rows<Chosen>, cols<W>>;
  template <class W, class Chosen>
  static constexpr kind kind_of = W::kind_of;
  template <class W, class Chosen>
  using checks =
      type_list<equal<cols_of<Chosen>, extent_value<size<1>>>, equal<headmix::domain_of<Chosen>, rows_of<W>>>;
  static void eval(auto const& run, auto y, auto table, auto index) { run.backend.gather_rows(y, table, index); }
  static constexpr auto vjp(auto dy, auto table, auto index, auto) {
    using sums = applied<scatter_rows<rows<decltype(table)>>, decltype(dy), decltype(index)>;
    // Sums have the type of dy; an element-wise copy rounds them to the type of the table's gradient.
    if constexpr (requires { requires decltype(table)::op::rounds_gradient; }) {
      return grads(make<identity>(sums{}), none{});
    } else {
      return grads(sums{}, none{});
    }
  }
};

/// y_v = sum of the rows i with index_i = v, in order
template <class V>
struct scatter_rows : operation {
  static constexpr bool accumulates = true;
  template <class A, class Chosen>
  using shape_of = shape<V, cols<A>>;
  template <class A, class Chosen>
  static constexpr kind kind_of = A::kind_of;
  template <class A, class Chosen>
  using checks = type_list<equal<rows_of<Chosen>, rows_of<A>>, equal<cols_of<Chosen>, extent_value<size<1>>>,
                           equal<headmix::domain_of<Chosen>, extent_value<V>>>;
  static void eval(auto const& run, auto y, bool accumulate, auto a, auto index) {
    run.backend.scatter_rows(y, a, index, accumulate);
  }
  static constexpr auto vjp(auto dy, auto, auto index, auto) { return grads(make<gather_rows>(dy, index), none{}); }
};

}  // namespace ops

/// [R, E] -> Int [R, K]: the columns of the largest elements, largest first. NaN ranks behind every number, also minus
/// infinity; of equal elements, and of two NaN, the left one comes first. So there are always K different columns: if
/// the logits of a router have a NaN or plus infinity, its softmax is NaN, and the first K experts are chosen with
/// weights that are NaN.
template <Extent K, Expr A>
constexpr auto arg_top_k(A scores) {
  static_assert(K::value != 0, "headmix: top_k chooses at least one column");
  return make<ops::top_k<K>>(scores);
}
/// [R, E], Int [R, K] -> [R, K]
template <Expr A, Selection Chosen>
constexpr applied<ops::gather_cols, A, Chosen> gather_cols(A, Chosen) {
  return {};
}
/// [R, K], Int [R, K] -> [R, E], E the number of choices: the transpose of gather_cols.
template <Expr A, Selection Chosen>
constexpr applied<ops::scatter_cols<domain<Chosen>>, A, Chosen> scatter_cols(A, Chosen) {
  return {};
}
/// Int [R, K] -> [R, E]
template <Selection Chosen>
constexpr applied<ops::one_hot<domain<Chosen>>, Chosen> one_hot(Chosen) {
  return {};
}
/// The first choice of each row, Int [R, K] -> [R, 1].
template <Selection Chosen>
constexpr auto first_choice(Chosen index) {
  return make<ops::first_choice>(index);
}
/// Choices side by side, [R, K] and [R, L] -> [R, K + L].
template <Selection A, Selection B>
constexpr auto concat_cols(A a, B b) {
  return make<ops::concat_choices>(a, b);
}
/// The columns First .. First + Count - 1 of E for every row of `like`, [R, Count].
template <Extent First, Extent Count, Extent E, Expr Like>
constexpr auto iota_cols(Like like) {
  return make<ops::iota_cols<First, Count, E>>(like);
}
/// Choices, renumbered to E columns of which First precede theirs.
template <Extent First, Extent E, Selection Chosen>
constexpr auto offset_cols(Chosen index) {
  return make<ops::offset_cols<First, E>>(index);
}
/// Choices among E as choices of their groups of E / Groups neighbours, Int [R, K] -> Int [R, K].
template <Extent Groups, Selection Chosen>
constexpr auto group_of_choice(Chosen index) {
  return make<ops::group_of_choice<over<domain<Chosen>, Groups>, Groups>>(index);
}
/// Choices of columns of [R, E] as choices of rows of [R * E, 1]: Int [R, K] -> Int [R, K].
template <Selection Chosen>
constexpr auto flat_index(Chosen index) {
  return make<ops::flat_index<domain<Chosen>>>(index);
}
/// Count heads of each chosen expert, Int [R, K] -> [R, K Count]: head j of expert i is number j E + i, E the number of
/// experts.
template <Extent Count, Selection Chosen>
constexpr auto heads_of_choices(Chosen index) {
  if constexpr (Count::value == 1) {
    return index;
  } else {
    return make<ops::heads_of_choices<Count, domain<Chosen>>>(index);
  }
}
/// Every choice in its own column, -1 in the others: Int [R, K] -> Int [R, E], E the number of choices. No row may
/// choose a column twice.
template <Selection Chosen>
constexpr auto choices_in_place(Chosen index) {
  using all = domain<Chosen>;
  constexpr auto from_one = offset_cols<size<1>, plus<size<1>, all>>(index);
  return make<ops::from_zero>(make<ops::scatter_cols<all>>(from_one, index));
}
/// Numbers side by side, [R, C] and [R, D] -> [R, C + D].
template <Expr A, Expr B>
constexpr auto concat_cols(A a, B b) {
  return make<ops::concat_cols>(a, b);
}
/// [V, D], Int [R, 1] -> [R, D]: an embedding lookup.
template <Expr W, Selection Chosen>
constexpr applied<ops::gather_rows, W, Chosen> gather_rows(W, Chosen) {
  return {};
}
/// [R, D], Int [R, 1] -> [V, D], V the number of choices: every row is added to the row that it chose.
template <Expr A, Selection Chosen>
constexpr applied<ops::scatter_rows<domain<Chosen>>, A, Chosen> scatter_rows(A, Chosen) {
  return {};
}

}  // namespace headmix

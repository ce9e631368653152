#pragma once
// SPDX-License-Identifier: MIT
// Operations between ranks: every rank runs the same program (contract/communicator.hpp), and these operations exchange
// values. A value is replicated (equal on all ranks) or belongs to one rank.
//
// Each rank computes the gradient of the objective by its own values. The objective counts once: where y is replicated,
// every rank has the same dy. Hence a sum over ranks passes dy unchanged; a replicated value that a rank uses in a
// computation of its own has the sum over the ranks as gradient; all_gather and reduce_scatter are each other's
// gradients.
//
// A backend without a communicator is one rank, and all operations are copies.

#include <cstddef>
#include <span>

#include "headmix/contract/communicator.hpp"
#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/arena.hpp"
#include "headmix/expr/select.hpp"

namespace headmix {

namespace detail {
/// A matrix or stack without gaps: a itself, or its copy in y.
template <class T>
view<T const> gapless(auto const& run, view<T> y, view<T const> a) {
  if (a.contiguous()) return a;
  run.copy(y, a, false);
  return y;
}
/// The elements of a matrix or stack without gaps.
template <class T>
std::span<std::byte const> bytes_of(view<T const> a) {
  return {reinterpret_cast<std::byte const*>(a.data), static_cast<std::size_t>(a.size()) * sizeof(T)};
}
}  // namespace detail

namespace ops {

/// Calls f(i) for all i < n, on the threads of the backend if it has some.
template <class F>
void for_each_row(auto const& run, Index n, F const& f) {
  if constexpr (ForEach<std::remove_cvref_t<decltype(run.backend)>>) {
    run.backend.for_each(n, f);
  } else {
    for (Index i = 0; i < n; ++i) f(i);
  }
}

/// y = the sum over the ranks of a.
struct all_sum : operation {
  static constexpr bool is_asynchronous = true;
  static constexpr bool takes_stacks = true;
  template <class A>
  using shape_of = typename A::extents;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> a) {
    using Backend = std::remove_cvref_t<decltype(run.backend)>;
    if constexpr (HasCommunicator<Backend>) {
      auto& all = run.backend.communicator();
      view<T const> const from = detail::gapless(run, y, a);
      if constexpr (Asynchronous<Backend> && Overlaps<std::remove_cvref_t<decltype(all)>>) {
        run.backend.is_asynchronous(all.begin_all_sum(y.data, from.data, y.size()), detail::bytes_of(from),
                                    detail::bytes_of(view<T const>(y)));
      } else {
        all.all_sum(y.data, from.data, y.size());
      }
    } else {
      run.copy(y, a, false);
    }
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(dy); }
};

/// a, equal on all ranks, as an operand of computations that differ between ranks.
struct replicated : operation {
  static constexpr detail::form form_of = detail::form::view;
  static constexpr bool takes_stacks = true;
  template <class A>
  using shape_of = typename A::extents;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class T>
  static constexpr view<T> apply(auto const&, view<T> a) {
    return a;
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(make<all_sum>(dy)); }
};

template <class X>
struct all_gather_rows;
template <class X>
struct reduce_scatter_rows;

/// The number of elements of each rank's share of X, `each` for every unit of X; stored at the beginning of the scratch
/// memory of a call.
template <class X>
std::span<Index const> elements_of_shares(auto const& run, Index each) {
  Index const n = run.template extent<X>(), ranks_here = run.template extent<rank_count>();
  auto* const counts = reinterpret_cast<Index*>(run.scratch.data());
  for (Index r = 0; r < ranks_here; ++r) counts[r] = share_of(n, r, ranks_here) * each;
  return {counts, static_cast<std::size_t>(ranks_here)};
}
/// Bytes of these counts in the scratch memory.
inline std::size_t bytes_of_shares(auto const& run) {
  auto const counts = static_cast<std::size_t>(run.template extent<rank_count>()) * sizeof(Index);
  return (counts + alignment - 1) / alignment * alignment;
}
/// The scratch memory behind the counts.
template <class T>
T* behind_shares(auto const& run) {
  return reinterpret_cast<T*>(run.scratch.data() + bytes_of_shares(run));
}

/// Base of operations on the rows of shares of X, which must lie without gaps for the communicator.
struct rows_of_shares : operation {
  static constexpr bool needs_scratch = true;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class T>
  static std::size_t scratch(auto const& run, view<T>, view<T const> a) {
    return bytes_of_shares(run) + static_cast<std::size_t>(a.size()) * sizeof(T);
  }
  /// Calls move(communicator, to, from, elements of each rank); without a communicator it copies.
  template <class X, class T, class Move>
  static void moved(auto const& run, view<T> y, view<T const> a, Move const& move) {
    if constexpr (HasCommunicator<std::remove_cvref_t<decltype(run.backend)>>) {
      view<T> const copy{behind_shares<T>(run), a.rows, a.cols};
      move(run.backend.communicator(), y.data, detail::gapless(run, copy, a).data, elements_of_shares<X>(run, y.cols));
    } else {
      run.copy(y, a, false);
    }
  }
};

/// [rank_share<X>, C] -> [X, C]: gathers the rows of all ranks.
template <class X>
struct all_gather_rows : rows_of_shares {
  template <class A>
  using shape_of = shape<X, cols<A>>;
  template <class A>
  using checks = type_list<equal<rows_of<A>, extent_value<rank_share<X>>>>;
  static void eval(auto const& run, auto y, auto a) {
    moved<X>(run, y, a, [](auto& ranks, auto* to, auto* from, auto counts) { ranks.all_gather(to, from, counts); });
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(make<reduce_scatter_rows<X>>(dy)); }
};

/// [X, C] -> [rank_share<X>, C]: this rank's rows of the sum over ranks.
template <class X>
struct reduce_scatter_rows : rows_of_shares {
  template <class A>
  using shape_of = shape<rank_share<X>, cols<A>>;
  template <class A>
  using checks = type_list<equal<rows_of<A>, extent_value<X>>>;
  static void eval(auto const& run, auto y, auto a) {
    moved<X>(run, y, a, [](auto& ranks, auto* to, auto* from, auto counts) { ranks.reduce_scatter(to, from, counts); });
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(make<all_gather_rows<X>>(dy)); }
};

/// [R, rank_share<X> Group] -> [R, X Group]: gathers the columns of all ranks.
template <class X, class Group>
struct all_gather_cols : operation {
  static constexpr bool differentiable = false;
  static constexpr bool needs_scratch = true;
  template <class A>
  using shape_of = shape<rows<A>, times<X, Group>>;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class T>
  static std::size_t scratch(auto const& run, view<T> y, view<T const> a) {
    return bytes_of_shares(run) + static_cast<std::size_t>(y.size() + a.size()) * sizeof(T);
  }
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> a) {
    if constexpr (HasCommunicator<std::remove_cvref_t<decltype(run.backend)>>) {
      T* all = behind_shares<T>(run);
      view<T> const copy{all + y.size(), a.rows, a.cols};
      auto const counts = elements_of_shares<X>(run, run.template extent<Group>() * y.rows);
      run.backend.communicator().all_gather(all, detail::gapless(run, copy, a).data, counts);
      Index col = 0;
      for (Index const n : counts) {
        Index const own = y.rows == 0 ? 0 : n / y.rows;
        run.copy(y.middle_cols(col, own), view<T const>(all, y.rows, own), false);
        all += n, col += own;
      }
    } else {
      run.copy(y, a, false);
    }
  }
};

/// [R, X Group] -> [R, rank_share<X> Group]: this rank's columns of a replicated value.
template <class X, class Group>
struct share_of_cols : operation {
  template <class A>
  using shape_of = shape<rows<A>, times<rank_share<X>, Group>>;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class A>
  using checks = type_list<equal<cols_of<A>, extent_value<times<X, Group>>>>;
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> a) {
    run.copy(y, a.middle_cols(run.template extent<times<share_before<X>, Group>>(), y.cols), false);
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(make<all_gather_cols<X, Group>>(dy)); }
};

/// y_ij = index_ij - (number of choices of the preceding ranks) if the choice is in this rank's share, else -1.
template <class X, class Group>
struct share_of_choices : operation {
  static constexpr bool differentiable = false;
  template <class>
  static constexpr kind kind_of = kind::integer;
  template <class Chosen>
  using shape_of = shape<rows<Chosen>, cols<Chosen>>;
  template <class>
  using domain_of = times<rank_share<X>, Group>;
  template <class Chosen>
  using checks = type_list<equal<headmix::domain_of<Chosen>, extent_value<times<X, Group>>>>;
  static void eval(auto const& run, view<Int> y, view<Int const> index) {
    Index const first = run.template extent<times<share_before<X>, Group>>();
    Index const own = run.template extent<times<rank_share<X>, Group>>();
    choices_in_range const rows{y, index, static_cast<Int>(first), static_cast<Int>(own)};
    for_each_row(run, y.rows, rows);
  }

 private:
  struct choices_in_range {
    view<Int> y;
    view<Int const> index;
    Int first, own;

    HEADMIX_HD void operator()(Index i) const {
      for (Index j = 0; j < y.cols; ++j) {
        Int const chosen = index(i, j) - first;
        y(i, j) = chosen >= 0 && chosen < own ? chosen : Int{-1};
      }
    }
  };
};

}  // namespace ops

/// The sum over the ranks, replicated.
template <Expr A>
constexpr auto all_sum(A a) {
  return make<ops::all_sum>(a);
}
/// A replicated value, for computations that differ between ranks.
template <Expr A>
constexpr auto replicated(A a) {
  return make<ops::replicated>(a);
}
/// [rank_share<X>, C] -> [X, C]: the rows of all ranks, replicated.
template <Extent X, Expr A>
constexpr auto all_gather(A a) {
  return make<ops::all_gather_rows<X>>(a);
}
/// [X, C] -> [rank_share<X>, C]: this rank's rows of the sum over ranks.
template <Extent X, Expr A>
constexpr auto reduce_scatter(A a) {
  return make<ops::reduce_scatter_rows<X>>(a);
}
/// [R, X Group] -> [R, rank_share<X> Group]: this rank's columns of a replicated value.
template <Extent X, Extent Group = size<1>, Expr A>
constexpr auto share_of_cols(A a) {
  return make<ops::share_of_cols<X, Group>>(a);
}
/// Choices among X Group, renumbered to this rank's share, -1 for those of other ranks: Int [R, K] -> Int [R, K].
template <Extent X, Extent Group = size<1>, Selection Chosen>
constexpr auto share_of_choices(Chosen index) {
  return make<ops::share_of_choices<X, Group>>(index);
}

}  // namespace headmix

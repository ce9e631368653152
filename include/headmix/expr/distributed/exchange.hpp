#pragma once
// SPDX-License-Identifier: MIT
// Rows travel to the ranks of their experts and back. Tokens and experts are both divided among ranks; the slots of a
// selection, grouped by expert (sort_by_expert), are then in the order of owners.

#include <cstring>
#include <span>

#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/arena.hpp"
#include "headmix/expr/distributed/collective.hpp"
#include "headmix/expr/expert.hpp"

namespace headmix {
namespace ops {

/// The number of rows from each rank for each expert of this rank: offsets [1, E + 1] -> Int [rank_count,
/// rank_share<E>].
template <class E>
struct exchange_plan : operation {
  static constexpr bool differentiable = false;
  static constexpr bool needs_scratch = true;
  template <class>
  static constexpr kind kind_of = kind::integer;
  template <class>
  using shape_of = shape<rank_count, rank_share<E>>;
  template <class>
  using domain_of = size<0>;
  static std::size_t scratch(auto const& run, view<Int>, view<Int const> offsets) {
    return static_cast<std::size_t>(offsets.cols) * sizeof(Int) +
           2 * static_cast<std::size_t>(run.template extent<rank_count>()) * sizeof(Index) + alignof(Index);
  }
  static void eval(auto const& run, view<Int> counts, view<Int const> offsets) {
    static_assert(std::remove_cvref_t<decltype(run.backend)>::host_memory,
                  "headmix: rows are exchanged by backends whose memory the host can read");
    Index const n = run.template extent<rank_count>(), experts = offsets.cols - 1;
    auto* const sent = reinterpret_cast<Index*>(run.scratch.data());
    Index* const received = sent + n;
    auto* const own = reinterpret_cast<Int*>(received + n);
    for (Index e = 0; e < experts; ++e) own[e] = offsets(0, e + 1) - offsets(0, e);
    if constexpr (HasCommunicator<std::remove_cvref_t<decltype(run.backend)>>) {
      for (Index r = 0; r < n; ++r) sent[r] = share_of(experts, r, n), received[r] = counts.cols;
      auto const ranks_of = [n](Index const* p) { return std::span<Index const>(p, static_cast<std::size_t>(n)); };
      run.backend.communicator().all_to_all(counts.data, ranks_of(received), static_cast<Int const*>(own),
                                            ranks_of(sent));
    } else {
      if (experts > 0) std::memcpy(counts.data, own, static_cast<std::size_t>(experts) * sizeof(Int));
    }
  }
};

/// The numbers of elements that a rank sends to and receives from each rank.
struct exchanged {
  std::span<Index> sent, received;

  /// Bytes in the scratch memory.
  static std::size_t bytes(auto const& run) {
    return 2 * static_cast<std::size_t>(run.template extent<rank_count>()) * sizeof(Index);
  }
  /// Computes the numbers in the scratch memory of a call.
  static exchanged of(std::span<std::byte> scratch, view<Int const> offsets, view<Int const> counts, Index each) {
    Index const n = counts.rows, experts = offsets.cols - 1;
    auto const size = static_cast<std::size_t>(n);
    auto* const memory = reinterpret_cast<Index*>(scratch.data());
    exchanged all{{memory, size}, {memory + n, size}};
    for (Index r = 0; r < n; ++r) {
      auto const i = static_cast<std::size_t>(r);
      all.sent[i] = (offsets(0, first_of_share(experts, r + 1, n)) - offsets(0, first_of_share(experts, r, n))) * each;
      all.received[i] = 0;
      for (Index e = 0; e < counts.cols; ++e) all.received[i] += counts(r, e) * each;
    }
    return all;
  }
};
inline Index received_in(view<Int const> counts) {
  Index n = 0;
  for (Index r = 0; r < counts.rows; ++r) {
    for (Index e = 0; e < counts.cols; ++e) n += counts(r, e);
  }
  return n;
}

/// An operand that is not read: it only orders the calls.
struct before : operation {
  static constexpr detail::form form_of = detail::form::view;
  static constexpr bool differentiable = false;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class A>
  using shape_of = typename A::extents;
  template <class T>
  static constexpr view<T> apply(auto const&, view<T> a) {
    return a;
  }
};

/// An exchange of rows that overlaps other kernels, if the communicator is Asynchronous.
template <class T>
void move_rows(auto const& run, view<T> y, std::span<Index const> received, view<T const> rows,
               std::span<Index const> sent) {
  using Backend = std::remove_cvref_t<decltype(run.backend)>;
  if constexpr (!HasCommunicator<Backend>) {
    Index const n = received[0];
    if (n > 0) std::memcpy(y.data, rows.data, static_cast<std::size_t>(n) * sizeof(T));
  } else if constexpr (Asynchronous<Backend> && Overlaps<std::remove_cvref_t<decltype(run.backend.communicator())>>) {
    run.backend.is_asynchronous(run.backend.communicator().begin_all_to_all(y.data, received, rows.data, sent),
                                detail::bytes_of(rows), detail::bytes_of(view<T const>(y)));
  } else {
    run.backend.communicator().all_to_all(y.data, received, rows.data, sent);
  }
}

template <class E>
struct unpack_rows;
template <class E>
struct return_rows;

/// The rows x_{s / SlotsPerRow} of all slots s with an expert, in the order of experts.
template <class SlotsPerRow, class E>
struct pack_rows : operation {
  template <class X, class Perm, class Offsets>
  static constexpr kind kind_of = X::kind_of;
  template <class X, class Perm, class Offsets>
  using shape_of = shape<cols<Perm>, cols<X>>;
  template <class X, class Perm, class Offsets>
  using checks = type_list<equal<extent_value<times<SlotsPerRow, rows<X>>>, cols_of<Perm>>>;
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> x, view<Int const> perm, view<Int const> offsets) {
    Index const slots_per_row = run.template extent<SlotsPerRow>(), packed = offsets(0, offsets.cols - 1);
    for_each_row(run, packed, [=](Index i) {
      view<T const> const from = x.middle_rows(perm(0, i) / slots_per_row, 1);
      T* const to = y.row(i);
      if (from.col_stride == 1) {
        if (x.cols > 0) std::memcpy(to, from.data, static_cast<std::size_t>(x.cols) * sizeof(T));
      } else {
        for (Index j = 0; j < x.cols; ++j) to[j] = from(0, j);
      }
    });
  }
  static constexpr auto vjp(auto dy, auto, auto perm, auto offsets, auto) {
    return grads(headmix::group_sum<SlotsPerRow>(make<unpack_rows<E>>(dy, perm, offsets)), none{}, none{});
  }
};

/// Packed rows at their slots again, zeros for slots without an expert. A further operand only orders the calls.
template <class E>
struct unpack_rows : operation {
  template <class Z, class...>
  static constexpr kind kind_of = Z::kind_of;
  template <class Z, class...>
  using shape_of = shape<rows<Z>, cols<Z>>;
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> z, view<Int const> perm, view<Int const> offsets,
                   auto...) {
    auto const row = static_cast<std::size_t>(y.cols) * sizeof(T);
    Index const packed = offsets(0, offsets.cols - 1);
    if (row == 0) return;
    for_each_row(run, perm.cols, [=](Index i) {
      T* const to = y.row(perm(0, i));
      if (i < packed) {
        std::memcpy(to, z.data + i * y.cols, row);
      } else {
        std::memset(static_cast<void*>(to), 0, row);
      }
    });
  }
  static constexpr auto vjp(auto dy, auto, auto perm, auto offsets, auto) {
    return grads(make<pack_rows<size<1>, E>>(dy, perm, offsets), none{}, none{});
  }
  static constexpr auto vjp(auto dy, auto, auto perm, auto offsets, auto, auto) {
    return grads(make<pack_rows<size<1>, E>>(dy, perm, offsets), none{}, none{}, none{});
  }
};

/// Packed rows of all ranks for the experts of this rank: by rank, then by expert.
template <class E>
struct send_rows : operation {
  static constexpr bool receives = true;
  static constexpr bool is_asynchronous = true;
  static constexpr bool needs_scratch = true;
  static std::size_t scratch(auto const& run, auto...) { return exchanged::bytes(run); }
  template <class Packed, class Offsets, class Counts>
  static constexpr kind kind_of = Packed::kind_of;
  template <class Packed, class Offsets, class Counts>
  using shape_of = shape<received_rows<Counts, over_ranks<rows<Packed>>>, cols<Packed>>;
  static Index received(auto const&, auto, auto, auto, view<Int const> counts) { return received_in(counts); }
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> packed, view<Int const> offsets, view<Int const> counts) {
    exchanged const all = exchanged::of(run.scratch, offsets, counts, y.cols);
    move_rows(run, y, all.received, packed, all.sent);
  }
  static constexpr auto vjp(auto dy, auto packed, auto offsets, auto counts, auto) {
    return grads(make<return_rows<E>>(dy, offsets, counts, make<before>(packed)), none{}, none{});
  }
};

/// The way back: rows return to the ranks that sent them.
template <class E>
struct return_rows : operation {
  static constexpr bool is_asynchronous = true;
  static constexpr bool needs_scratch = true;
  static std::size_t scratch(auto const& run, auto...) { return exchanged::bytes(run); }
  template <class Z, class Offsets, class Counts, class Like>
  static constexpr kind kind_of = Z::kind_of;
  template <class Z, class Offsets, class Counts, class Like>
  using shape_of = shape<rows<Like>, cols<Z>>;
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> z, view<Int const> offsets, view<Int const> counts, auto) {
    exchanged const all = exchanged::of(run.scratch, offsets, counts, y.cols);
    move_rows(run, y, all.sent, z, all.received);
  }
  static constexpr auto vjp(auto dy, auto, auto offsets, auto counts, auto, auto) {
    return grads(make<send_rows<E>>(dy, offsets, counts), none{}, none{}, none{});
  }
};

/// The expert of this rank for each received row: Int [received, 1]. Of perm only the extent is used; further operands
/// only order the calls.
template <class E>
struct received_experts : operation {
  static constexpr bool receives = true;
  static constexpr bool differentiable = false;
  template <class...>
  static constexpr kind kind_of = kind::integer;
  template <class Perm, class Counts, class...>
  using shape_of = shape<received_rows<Counts, over_ranks<cols<Perm>>>, size<1>>;
  template <class...>
  using domain_of = rank_share<E>;
  static Index received(auto const&, auto, auto, view<Int const> counts, auto...) { return received_in(counts); }
  static void eval(auto const&, view<Int> y, auto, view<Int const> counts, auto...) {
    Index i = 0;
    for (Index r = 0; r < counts.rows; ++r) {
      for (Index e = 0; e < counts.cols; ++e) {
        for (Int n = 0; n < counts(r, e); ++n) y(i++, 0) = static_cast<Int>(e);
      }
    }
  }
};

/// 1 for each received row: the weight of its only expert.
struct received_ones : operation {
  static constexpr bool receives = true;
  static constexpr bool differentiable = false;
  template <class Perm, class Counts>
  static constexpr kind kind_of = kind::accumulator;
  template <class Perm, class Counts>
  using shape_of = shape<received_rows<Counts, over_ranks<cols<Perm>>>, size<1>>;
  static Index received(auto const&, auto, auto, view<Int const> counts) { return received_in(counts); }
  template <class T>
  static void eval(auto const& run, view<T> y, auto, auto) {
    run.backend.map(y, tree_number<T>{1}, false);
  }
};

}  // namespace ops

namespace detail {
/// The first half of the choices of every row, rounded down, and the second half.
template <class Chosen>
struct halves_of {
  using K = cols<Chosen>;
  using first_cols = halved<K>;
  using other_cols = remaining<K, first_cols>;
  using first = applied<ops::slice_cols<size<0>, first_cols>, Chosen>;
  using others = applied<ops::slice_cols<first_cols, other_cols>, Chosen>;
};

/// The expressions that send the slots of a selection to their experts and back.
template <class Network, class E, class X, class Chosen>
struct slots_over_ranks {
  static constexpr auto order = sort_by_expert(Chosen{});
  static constexpr auto offsets = get_output<1>(order);
  static constexpr auto counts = make<ops::exchange_plan<E>>(offsets);
  static constexpr auto packed = make<ops::pack_rows<slots_per_row<X, Chosen>, E>>(X{}, order, offsets);
  static constexpr auto sent = make<ops::send_rows<E>>(packed, offsets, counts);
  /// The result of the experts, computed after the rows of Others have been sent.
  template <Expr... Others>
  static constexpr auto returned(Others... others) {
    constexpr auto experts = make<ops::received_experts<E>>(order, counts, make<ops::before>(others)...);
    constexpr auto one = make<ops::received_ones>(order, counts);
    return make<ops::return_rows<E>>(Network::mixture(sent, one, experts), offsets, counts, make<ops::before>(packed));
  }
  template <Expr Z, Expr... Others>
  static constexpr auto unpacked(Z z, Others... others) {
    return make<ops::unpack_rows<E>>(z, order, offsets, make<ops::before>(others)...);
  }
};
}  // namespace detail

/// The number of rows from each rank for each expert of this rank, Int [rank_count, rank_share<E>], for every exchange
/// of a mixture with these choices: two if it overlaps, else one.
template <Extent E, bool Overlapped, Selection Chosen>
constexpr auto rows_by_rank(Chosen) {
  if constexpr (Overlapped) {
    using halves = detail::halves_of<Chosen>;
    return concat<decltype(rows_by_rank<E, false>(typename halves::first{})),
                  decltype(rows_by_rank<E, false>(typename halves::others{}))>{};
  } else {
    return type_list<
        applied<ops::exchange_plan<E>, std::remove_const_t<decltype(get_output<1>(sort_by_expert(Chosen{})))>>>{};
  }
}

/// A mixture of experts divided among ranks, Network::experts<rank_share<E>, ...>: x [R, D], gate [R, K], index Int [R,
/// K] among all E experts -> [R, D]. Rows travel to the ranks of their experts and back: two exchanges, and two for the
/// gradient.
template <class Network, Extent E, Expr X, Expr G, Selection Chosen>
constexpr auto mixture_over_ranks(X, G gate, Chosen) {
  using slots = detail::slots_over_ranks<Network, E, X, Chosen>;
  return combine(gate, slots::unpacked(slots::returned()));
}
/// A mixture of experts divided among ranks, in two parts, the first half of each row's choices and the second: while
/// rows of one part travel, the experts work on the other.
template <class Network, Extent E, Expr X, Expr G, Selection Chosen>
constexpr auto overlapped_mixture_over_ranks(X, G, Chosen) {
  using halves = detail::halves_of<Chosen>;
  using K = cols<Chosen>;
  using First = detail::slots_over_ranks<Network, E, X, typename halves::first>;
  using Others = detail::slots_over_ranks<Network, E, X, typename halves::others>;
  constexpr auto first = First::returned(Others::sent);
  constexpr auto others = Others::returned(first);
  constexpr auto gates = []<class From, class Count>(From, Count) {
    return gather_cols(G{}, iota_cols<From, Count, K>(G{}));
  };
  return combine(gates(size<0>{}, typename halves::first_cols{}), First::unpacked(first, others)) +
         combine(gates(typename halves::first_cols{}, typename halves::other_cols{}), Others::unpacked(others));
}

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// Rows go to the ranks that have their experts, and come back. Tokens are divided among the ranks and experts too; the
// slots of a selection, grouped by expert (sort_by_expert), lie in the order of their owners.

#include <cstring>

#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/arena.hpp"
#include "headmix/expr/collective.hpp"
#include "headmix/expr/expert.hpp"

namespace headmix {
namespace ops {

/// How many rows come from each rank for each expert of this one: offsets [1, E + 1] -> Int [ranks, share<E>].
template <class E>
struct exchange_plan : operation {
  static constexpr bool differentiable = false;
  static constexpr bool needs_scratch = true;
  template <class>
  static constexpr kind kind_of = kind::integer;
  template <class>
  using shape_of = shape<ranks, share<E>>;
  template <class>
  using domain_of = size<0>;
  static std::size_t scratch(auto const& run, view<Int>, view<Int const> offsets) {
    return static_cast<std::size_t>(offsets.cols) * sizeof(Int) +
           2 * static_cast<std::size_t>(run.template extent<ranks>()) * sizeof(Index) + alignof(Index);
  }
  static void eval(auto const& run, view<Int> counts, view<Int const> offsets) {
    static_assert(std::remove_cvref_t<decltype(run.backend)>::host_memory,
                  "headmix: rows are exchanged by backends whose memory the host can read");
    Index const n = run.template extent<ranks>(), experts = offsets.cols - 1;
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

/// What a plan says of the rows that a rank sends and receives, in elements of each.
struct exchanged {
  std::span<Index> sent, received;

  /// @param memory  of 2 ranks numbers
  static exchanged of(Index* memory, view<Int const> offsets, view<Int const> counts, Index each) {
    Index const n = counts.rows, experts = offsets.cols - 1;
    auto const size = static_cast<std::size_t>(n);
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

/// What operations by a plan have in common; perm, offsets and counts are operands of theirs.
struct exchange_by_plan : operation {
  template <class Perm, class Counts>
  using received = received_rows<Counts, over_ranks<cols<Perm>>>;
  /// The numbers of an `exchanged`, and the rows that are sent, or come back.
  template <class T>
  static std::size_t bytes(Index ranks_here, Index slots, Index cols) {
    return 2 * static_cast<std::size_t>(ranks_here) * sizeof(Index) +
           static_cast<std::size_t>(slots * cols) * sizeof(T) + alignment;
  }
  template <class T>
  static T* rows_in(std::span<std::byte> scratch, Index ranks_here) {
    auto const numbers = 2 * static_cast<std::size_t>(ranks_here) * sizeof(Index);
    return reinterpret_cast<T*>(scratch.data() + (numbers + alignment - 1) / alignment * alignment);
  }
};

template <class E>
struct exchange_back;

/// The rows x_{s / SlotsPerRow} of the slots s that this rank's experts have on all ranks: those of rank 0 first, and
/// of each rank in the order of the experts.
template <class SlotsPerRow, class E>
struct exchange : exchange_by_plan {
  static constexpr bool receives = true;
  static constexpr bool needs_scratch = true;
  template <class X, class Perm, class Offsets, class Counts>
  static constexpr kind kind_of = X::kind_of;
  template <class X, class Perm, class Offsets, class Counts>
  using shape_of = shape<exchange_by_plan::received<Perm, Counts>, cols<X>>;
  template <class X, class Perm, class Offsets, class Counts>
  using checks = type_list<equal<the<times<SlotsPerRow, rows<X>>>, cols_of<Perm>>>;
  static Index received(auto const&, auto, auto, auto, auto, view<Int const> counts) { return received_in(counts); }
  template <class T>
  static std::size_t scratch(auto const& run, view<T> y, view<T const>, view<Int const> perm, auto, auto) {
    return bytes<T>(run.template extent<ranks>(), perm.cols, y.cols);
  }
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> x, view<Int const> perm, view<Int const> offsets,
                   view<Int const> counts) {
    Index const slots_per_row = run.template extent<SlotsPerRow>(), sent = offsets(0, offsets.cols - 1);
    bool const alone = !HasCommunicator<std::remove_cvref_t<decltype(run.backend)>>;
    T* const rows = alone ? y.data : rows_in<T>(run.scratch, counts.rows);
    for (Index i = 0; i < sent; ++i) {
      view<T const> const from = x.middle_rows(perm(0, i) / slots_per_row, 1);
      T* const to = rows + i * x.cols;
      if (from.col_stride == 1) {
        std::memcpy(to, from.data, static_cast<std::size_t>(x.cols) * sizeof(T));
      } else {
        for (Index j = 0; j < x.cols; ++j) to[j] = from(0, j);
      }
    }
    if constexpr (HasCommunicator<std::remove_cvref_t<decltype(run.backend)>>) {
      auto const all = exchanged::of(reinterpret_cast<Index*>(run.scratch.data()), offsets, counts, y.cols);
      run.backend.communicator().all_to_all(y.data, std::span<Index const>(all.received), static_cast<T const*>(rows),
                                            std::span<Index const>(all.sent));
    }
  }
  static constexpr auto vjp(auto dy, auto, auto perm, auto offsets, auto counts, auto) {
    return grads(headmix::group_sum<SlotsPerRow>(make<exchange_back<E>>(dy, perm, offsets, counts)), none{}, none{},
                 none{});
  }
};

/// The way back: the rows that came by `exchange`, or what was made of them, at their slots; zeros for the others.
template <class E>
struct exchange_back : exchange_by_plan {
  static constexpr bool needs_scratch = true;
  template <class Z, class Perm, class Offsets, class Counts>
  static constexpr kind kind_of = Z::kind_of;
  template <class Z, class Perm, class Offsets, class Counts>
  using shape_of = shape<cols<Perm>, cols<Z>>;
  template <class T>
  static std::size_t scratch(auto const& run, view<T> y, view<T const>, view<Int const> perm, auto, auto) {
    return bytes<T>(run.template extent<ranks>(), perm.cols, y.cols);
  }
  template <class T>
  static void eval(auto const& run, view<T> y, view<T const> z, view<Int const> perm, view<Int const> offsets,
                   view<Int const> counts) {
    T const* rows = z.data;
    if constexpr (HasCommunicator<std::remove_cvref_t<decltype(run.backend)>>) {
      T* const back = rows_in<T>(run.scratch, counts.rows);
      auto const all = exchanged::of(reinterpret_cast<Index*>(run.scratch.data()), offsets, counts, y.cols);
      run.backend.communicator().all_to_all(back, std::span<Index const>(all.sent), rows,
                                            std::span<Index const>(all.received));
      rows = back;
    }
    auto const row = static_cast<std::size_t>(y.cols) * sizeof(T);
    Index const returned = offsets(0, offsets.cols - 1);
    for (Index i = 0; i < perm.cols && row > 0; ++i) {
      T* const to = y.row(perm(0, i));
      if (i < returned) {
        std::memcpy(to, rows + i * y.cols, row);
      } else {
        std::memset(to, 0, row);
      }
    }
  }
  static constexpr auto vjp(auto dy, auto, auto perm, auto offsets, auto counts, auto) {
    return grads(make<exchange<size<1>, E>>(dy, perm, offsets, counts), none{}, none{}, none{});
  }
};

/// The expert of this rank that each row came for: Int [received, 1]; perm is asked for its extent.
template <class E>
struct received_experts : exchange_by_plan {
  static constexpr bool receives = true;
  static constexpr bool differentiable = false;
  template <class Perm, class Counts>
  static constexpr kind kind_of = kind::integer;
  template <class Perm, class Counts>
  using shape_of = shape<exchange_by_plan::received<Perm, Counts>, size<1>>;
  template <class Perm, class Counts>
  using domain_of = share<E>;
  static Index received(auto const&, auto, auto, view<Int const> counts) { return received_in(counts); }
  static void eval(auto const&, view<Int> y, auto, view<Int const> counts) {
    Index i = 0;
    for (Index r = 0; r < counts.rows; ++r) {
      for (Index e = 0; e < counts.cols; ++e) {
        for (Int n = 0; n < counts(r, e); ++n) y(i++, 0) = static_cast<Int>(e);
      }
    }
  }
};

/// 1 for each row: the weight of its only expert.
struct received_ones : exchange_by_plan {
  static constexpr bool receives = true;
  static constexpr bool differentiable = false;
  template <class Perm, class Counts>
  static constexpr kind kind_of = kind::accumulator;
  template <class Perm, class Counts>
  using shape_of = shape<exchange_by_plan::received<Perm, Counts>, size<1>>;
  static Index received(auto const&, auto, auto, view<Int const> counts) { return received_in(counts); }
  template <class T>
  static void eval(auto const& run, view<T> y, auto, auto) {
    run.backend.map(y, tree_number<T>{1}, false);
  }
};

}  // namespace ops

/// The mixture of experts of which each rank has its share, Network::experts<share<E>, ...>: x [R, D], gate [R, K],
/// index Int [R, K] among all E experts -> [R, D]. Rows of every rank go to where their experts are, and back: two
/// exchanges, and two for the gradient.
template <class Network, Extent E, Expr X, Expr G, Selection Chosen>
constexpr auto mixture_over_ranks(X x, G gate, Chosen index) {
  constexpr auto order = sort_by_expert(index);
  constexpr auto offsets = get_output<1>(order);
  constexpr auto counts = make<ops::exchange_plan<E>>(offsets);
  constexpr auto rows = make<ops::exchange<slots_per_row<X, Chosen>, E>>(x, order, offsets, counts);
  constexpr auto experts = make<ops::received_experts<E>>(order, counts);
  constexpr auto one = make<ops::received_ones>(order, counts);
  return combine(gate, make<ops::exchange_back<E>>(Network::mixture(rows, one, experts), order, offsets, counts));
}

}  // namespace headmix

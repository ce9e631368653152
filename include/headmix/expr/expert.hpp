#pragma once
// SPDX-License-Identifier: MIT
// Products with the weights of the chosen experts. A row with k choices has k slots, slot = row * k + choice. Rows are
// read and written by slot number; no wide matrix is permuted in memory, and an expert without rows costs nothing.

#include <algorithm>
#include <limits>

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/error.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/select.hpp"

namespace headmix {
namespace ops {

/// Slots grouped by sequence, then by expert. Buffer 0 lists the slots, ascending in each group, and behind all groups
/// those that chose nothing; buffer 1 has the offsets of the groups.
/// @tparam Rows  void for groups of all rows, else an extent of rows that belong to sequences
template <class E, class Rows>
struct sort_by_expert : operation {
  static constexpr bool differentiable = false;
  static constexpr int outputs = 2;
  template <class...>
  static constexpr kind kind_of = kind::integer;
  template <class Chosen>
  using shape_of = shape<size<1>, times<cols<Chosen>, rows<Chosen>>>;
  template <class Chosen>
  using domain_of = times<cols<Chosen>, rows<Chosen>>;
  using groups = std::conditional_t<std::is_void_v<Rows>, E, times<E, sequences>>;
  template <int, class>
  using output_shape = shape<size<1>, plus_one<groups>>;
  template <int>
  static constexpr kind output_kind = kind::integer;
  static constexpr bool validates = true;
  template <class Chosen>
  static void validate(auto const& run) {
    Index const slots = run.template extent<times<typename Chosen::cols, typename Chosen::rows>>();
    if (slots > (std::numeric_limits<Int>::max)()) {
      fail("sort_by_expert: ", slots, " slots are more than the ", (std::numeric_limits<Int>::max)(),
           " that an Int can number");
    }
  }
  static void eval(auto const& run, auto perm, auto offsets, auto index) {
    if constexpr (std::is_void_v<Rows>) {
      run.backend.sort_by_expert(perm, offsets, index, uniform(1, index.rows));
    } else {
      run.backend.sort_by_expert(perm, offsets, index, run.template segments_of<Rows>());
    }
  }
};

template <class SlotsPerRow, class E>
struct expert_linear_combine;
template <class SlotsPerRow, class E>
struct expert_linear_combine_pair;
template <class XSlots, class GSlots>
struct expert_outer;

/// y_s = x_{s / SlotsPerRow} W_e for every slot s of expert e; zero for a slot without expert.
template <class SlotsPerRow, class E>
struct expert_linear : operation {
  static constexpr bool takes_stacks = true;
  static constexpr bool needs_scratch = true;
  template <class X, class W, class Perm, class Offsets>
  using shape_of = shape<times<SlotsPerRow, rows<X>>, cols<W>>;
  template <class X, class W, class Perm, class Offsets>
  static constexpr kind kind_of = kind::real;
  template <class X, class W, class Perm, class Offsets>
  using checks =
      type_list<equal<count_of<X>, extent_value<size<1>>>, equal<rows_of<W>, cols_of<X>>,
                equal<count_of<W>, extent_value<E>>, equal<extent_value<times<SlotsPerRow, rows<X>>>, cols_of<Perm>>>;
  static std::size_t scratch(auto const& run, auto y, auto x, auto w, auto, auto) {
    return run.backend.grouped_gemm_scratch(y, x, w);
  }
  static void eval(auto const& run, auto y, auto x, auto w, auto perm, auto offsets) {
    Index const slots_per_row = run.template extent<SlotsPerRow>();
    if constexpr (PreparesWeights<std::remove_cvref_t<decltype(run.backend)>>) {
      run.backend.grouped_gemm(y, x, w, perm, offsets, slots_per_row, run.scratch, run.prepared);
    } else {
      run.backend.grouped_gemm(y, x, w, perm, offsets, slots_per_row, run.scratch);
    }
  }
  static constexpr auto vjp(auto dy, auto x, auto w, auto perm, auto offsets, auto) {
    constexpr auto d_w = make<expert_outer<SlotsPerRow, size<1>>>(x, dy, w, perm, offsets);
    if constexpr (SlotsPerRow::value == 1) {
      return grads(make<expert_linear>(dy, t(w), perm, offsets), d_w, none{}, none{});
    } else {
      return grads(make<expert_linear_combine<SlotsPerRow, E>>(dy, t(w), perm, offsets), d_w, none{}, none{});
    }
  }
};

/// y_r = the sum over the slots s of row r, s / SlotsPerRow = r, of x_s W_e, e being the expert of the slot.
template <class SlotsPerRow, class E>
struct expert_linear_combine : operation {
  static constexpr bool takes_stacks = true;
  static constexpr bool needs_scratch = true;
  static constexpr bool accumulates = true;
  template <class X, class W, class Perm, class Offsets>
  using shape_of = shape<over<rows<X>, SlotsPerRow>, cols<W>>;
  template <class X, class W, class Perm, class Offsets>
  static constexpr kind kind_of = kind::real;
  template <class X, class W, class Perm, class Offsets>
  using checks = type_list<equal<count_of<X>, extent_value<size<1>>>, equal<rows_of<W>, cols_of<X>>,
                           equal<count_of<W>, extent_value<E>>, equal<rows_of<X>, cols_of<Perm>>>;
  static std::size_t scratch(auto const& run, auto y, auto x, auto w, auto, auto) {
    return run.backend.grouped_sum_scratch(y, x, w);
  }
  static void eval(auto const& run, auto y, bool accumulate, auto x, auto w, auto perm, auto offsets) {
    Index const slots_per_row = run.template extent<SlotsPerRow>();
    if constexpr (PreparesWeights<std::remove_cvref_t<decltype(run.backend)>>) {
      run.backend.grouped_sum(y, x, w, perm, offsets, slots_per_row, accumulate, run.scratch, run.prepared);
    } else {
      run.backend.grouped_sum(y, x, w, perm, offsets, slots_per_row, accumulate, run.scratch);
    }
  }
  static constexpr auto vjp(auto dy, auto x, auto w, auto perm, auto offsets, auto) {
    return grads(make<expert_linear<SlotsPerRow, E>>(dy, t(w), perm, offsets),
                 make<expert_outer<size<1>, SlotsPerRow>>(x, dy, w, perm, offsets), none{}, none{});
  }
  static constexpr bool sums_pairs = true;
  /// False: the sum of two results is not one operation.
  static constexpr bool is_sum(...) { return false; }
  /// True for weights of equal extents of the same experts, as those of SwiGLU are.
  template <class X, class W, class X2, class W2, class... Order>
  static constexpr bool is_sum(type_list<X, W, Order...>*, type_list<X2, W2, Order...>*) {
    return std::is_same_v<typename X::extents, typename X2::extents> &&
           std::is_same_v<typename W::extents, typename W2::extents>;
  }
  /// The sum of the results: expert_linear_combine_pair.
  template <class X, class W, class X2, class W2, class Perm, class Offsets>
  static constexpr auto sum_of(type_list<X, W, Perm, Offsets>, type_list<X2, W2, Perm, Offsets>) {
    return make<expert_linear_combine_pair<SlotsPerRow, E>>(X{}, W{}, X2{}, W2{}, Perm{}, Offsets{});
  }
};

/// The sum of expert_linear_combine of x and w, and of x_2 and w_2.
template <class SlotsPerRow, class E>
struct expert_linear_combine_pair : operation {
  static constexpr bool takes_stacks = true;
  static constexpr bool needs_scratch = true;
  static constexpr bool accumulates = true;
  static constexpr bool differentiable = false;
  template <class X, class W, class X2, class W2, class Perm, class Offsets>
  using shape_of = shape<over<rows<X>, SlotsPerRow>, cols<W>>;
  template <class...>
  static constexpr kind kind_of = kind::real;
  static std::size_t scratch(auto const& run, auto y, auto x, auto w, auto x_2, auto w_2, auto, auto) {
    return (std::max)(run.backend.grouped_sum_scratch(y, x, w), run.backend.grouped_sum_scratch(y, x_2, w_2));
  }
  static void eval(auto const& run, auto y, bool accumulate, auto x, auto w, auto x_2, auto w_2, auto perm,
                   auto offsets) {
    if constexpr (SumsProductPairs<std::remove_cvref_t<decltype(run.backend)>>) {
      run.backend.grouped_sum_pair(y, {x, x_2}, {w, w_2}, perm, offsets, run.template extent<SlotsPerRow>(), accumulate,
                                   run.scratch);
    } else {
      expert_linear_combine<SlotsPerRow, E>::eval(run, y, accumulate, x, w, perm, offsets);
      expert_linear_combine<SlotsPerRow, E>::eval(run, y, true, x_2, w_2, perm, offsets);
    }
  }
};

/// dW_e = sum over the slots s of expert e of x_{s / XSlots}^T g_{s / GSlots}
template <class XSlots, class GSlots>
struct expert_outer : operation {
  static constexpr bool takes_stacks = true;
  static constexpr bool needs_scratch = true;
  static constexpr bool accumulates = true;
  static constexpr bool differentiable = false;
  template <class X, class G, class W, class Perm, class Offsets>
  using shape_of = shape<rows<W>, cols<W>, count<W>>;
  template <class X, class G, class W, class Perm, class Offsets>
  static constexpr kind kind_of = kind::real;
  static std::size_t scratch(auto const& run, auto y, auto x, auto g, auto, auto, auto) {
    return run.backend.grouped_outer_scratch(y, x, g);
  }
  static void eval(auto const& run, auto y, bool accumulate, auto x, auto g, auto, auto perm, auto offsets) {
    run.backend.grouped_outer(y, x, g, perm, offsets, run.template extent<XSlots>(), run.template extent<GSlots>(),
                              accumulate, run.scratch);
  }
};

/// The gradient of a matrix whose blocks are the weights of experts: grouped_outer, written in place.
template <class Blocks, class XSlots, class GSlots>
struct expert_outer_blocks : expert_outer<XSlots, GSlots> {
  using outer = expert_outer<XSlots, GSlots>;
  template <class X, class G, class W, class Perm, class Offsets>
  using shape_of = typename nth<0, typename W::args>::extents;
  static std::size_t scratch(auto const& run, auto y, auto... operands) {
    return outer::scratch(run, Blocks::apply(run, y), operands...);
  }
  static void eval(auto const& run, auto y, bool accumulate, auto... operands) {
    outer::eval(run, Blocks::apply(run, y), accumulate, operands...);
  }
};

}  // namespace ops

/// The slots of a selection, grouped by expert. All products over one selection share them.
/// @tparam Rows  void to group the slots of all rows; an extent of rows of sequences to group by sequence first
template <class Rows = void, Selection Chosen>
constexpr auto sort_by_expert(Chosen index) {
  return make<ops::sort_by_expert<domain<Chosen>, Rows>>(index);
}

/// Number of slots that read a row of X: the number of choices, or 1 if X has a row per slot.
template <Expr X, Selection Chosen>
using slots_per_row = std::conditional_t<std::same_as<rows<X>, rows<Chosen>> ||
                                             (rows<X>::value != dynamic && rows<X>::value == rows<Chosen>::value),
                                         cols<Chosen>, size<1>>;

/// Row r times the weights of its chosen experts: x [R, D] or, slot by slot, [R * K, D]; W [E, D, H]; index Int [R, K];
/// result [R * K, H].
template <Expr X, Expr W, Selection Chosen>
constexpr auto expert_linear(X x, W w, Chosen index) {
  constexpr auto order = sort_by_expert(index);
  return make<ops::expert_linear<slots_per_row<X, Chosen>, domain<Chosen>>>(x, w, order, get_output<1>(order));
}

/// The bias of each slot's expert: b [E, D], index Int [R, K], result [R * K, D].
template <Expr B, Selection Chosen>
constexpr auto expert_bias(B b, Chosen index) {
  return gather_rows(b, split_rows<cols<Chosen>>(index));
}

/// The sum of the slots of a row, each times the weights of its expert: x [R * K, H], W [E, H, D], index Int [R, K];
/// result [R, D]. With x = split_rows<K>(gate) * o it mixes experts.
template <Expr X, Expr W, Selection Chosen>
constexpr auto expert_linear_combine(X x, W w, Chosen index) {
  constexpr auto order = sort_by_expert(index);
  return make<ops::expert_linear_combine<cols<Chosen>, domain<Chosen>>>(x, w, order, get_output<1>(order));
}

/// y_r = sum over j of gate_{r,j} z_{r K + j}: gate [R, K], z [R * K, D], result [R, D].
template <Expr G, Expr Z>
constexpr auto combine(G gate, Z z) {
  using K = cols<G>;
  return group_sum<K>(round_to_storage(split_rows<K>(gate) * z));
}

}  // namespace headmix

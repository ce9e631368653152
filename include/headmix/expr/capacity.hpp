#pragma once
// SPDX-License-Identifier: MIT
// Experts of limited capacity (GShard, Lepikhin et al. 2020): choices beyond it are dropped.

#include <cmath>

#include "headmix/expr/expert.hpp"
#include "headmix/expr/options.hpp"

namespace headmix {

namespace option {
struct no_capacity;
struct capacity : option_kind {
  using standard = no_capacity;
  static constexpr char const *syntax = "capacity<n, d>, capacity<dynamic>",
                              *meaning = "an expert takes at most top_k floor(n / d ceil(rows / experts)) rows",
                              *without = "every chosen row";
};
struct no_capacity {};
}  // namespace option

/// The capacity of an expert in rows, K floor(factor ceil(rows / experts)), where the floor is at most `rows`. Throws
/// if the factor is negative.
[[nodiscard]] inline Index capacity_rows(double factor, Index rows, Index experts, Index top_k) {
  if (!(factor >= 0)) fail("capacity_rows: a factor must not be negative; found ", factor);
  if (0 > rows || 0 > experts || 0 > top_k) {
    fail("capacity_rows: expected numbers of rows, experts and choices of at least 0, found ", rows, ", ", experts,
         " and ", top_k);
  }
  Index const even = experts > 0 ? (checked(rows) + experts - 1).value / experts : 0;
  double const each = std::floor(factor * static_cast<double>(even));
  return (checked(top_k) * (each < static_cast<double>(rows) ? static_cast<Index>(each) : rows)).value;
}

/// Option of layers: an expert takes at most C = K floor(Num / Den ceil(rows / E)) rows. Choices of an expert are
/// numbered: all first choices in the order of rows, then all second ones, and so on. Those from number C on are left
/// out of the result and its gradient, but not of the router's losses. Results then depend on all rows of the batch.
///
/// `capacity<dynamic>`: C is the layer's size `expert_capacity`, given by at<L::expert_capacity>(capacity_rows(...)).
template <Index Num, Index Den = 1>
struct capacity : option::capacity {
  static_assert(Num == dynamic || (Num >= 0 && Den > 0),
                "headmix: capacity<Num, Den> is a factor from 0, or capacity<dynamic>");
};

namespace ops {

/// index_ij, or -1 if the expert is full. `Limit` is the option; C its value if that is dynamic.
template <class Limit, class C>
struct within_capacity;
template <Index Num, Index Den, class C>
struct within_capacity<capacity<Num, Den>, C> : renumbering {
  template <class Chosen, class Perm, class Offsets>
  static constexpr kind kind_of = kind::integer;
  template <class Chosen, class Perm, class Offsets>
  using shape_of = shape<rows<Chosen>, cols<Chosen>>;
  template <class Chosen, class Perm, class Offsets>
  using domain_of = headmix::domain<Chosen>;
  template <class Chosen, class Perm, class Offsets>
  using checks = type_list<at_most<extent_value<size<0>>, extent_value<C>>>;
  /// The capacity of an expert for this number of rows.
  static Index most(auto const& run, Index rows, Index top_k, Index experts) {
    if constexpr (Num == dynamic) {
      return run.template extent<C>();
    } else {
      Index const even = experts > 0 ? (rows + experts - 1) / experts : 0;
      return (checked(top_k) * ((checked(Num) * even).value / Den)).value;
    }
  }
  static void eval(auto const& run, auto y, auto index, auto perm, auto offsets) {
    run.backend.apply_capacity(y, index, perm, offsets, most(run, index.rows, index.cols, offsets.cols - 1));
  }
};

}  // namespace ops

/// The choices, with -1 where the expert is full: Int [R, K] -> [R, K].
template <class Limit, Extent C, Selection Chosen>
constexpr auto within_capacity(Chosen index) {
  if constexpr (std::is_same_v<Limit, option::no_capacity>) {
    return index;
  } else {
    constexpr auto order = sort_by_expert(t(Chosen{}));  // all first choices, then all second ones
    return make<ops::within_capacity<Limit, C>>(index, order, get_output<1>(order));
  }
}

}  // namespace headmix

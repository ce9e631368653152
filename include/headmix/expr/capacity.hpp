#pragma once
// SPDX-License-Identifier: MIT
// Experts that take a limited number of rows (GShard, Lepikhin et al. 2020): what comes later is dropped.

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

/// The rows that an expert takes, K floor(factor ceil(rows / experts)), with no more than `rows` in place of the floor.
/// A factor below 0 is an error.
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

/// An option of layers: an expert takes at most C = K floor(Num / Den ceil(rows / E)) rows. Choices are numbered for
/// each expert, all first ones in the order of rows, then all second ones and so on; those from number C on are left
/// out of the result and of its gradient, but not of the router's losses. Results depend on all rows of the batch then.
///
/// `capacity<dynamic>`: C is the layer's size `expert_capacity`, given as
/// at<L::expert_capacity>(capacity_rows(...)).
template <Index Num, Index Den = 1>
struct capacity : option::capacity {
  static_assert(Num == dynamic || (Num >= 0 && Den > 0),
                "headmix: capacity<Num, Den> is a factor from 0, or capacity<dynamic>");
};

namespace ops {

/// index_ij, and -1 where the expert has its rows already. `Limit` is the option; C its value where that is dynamic.
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
  /// The rows that an expert takes of so many.
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

/// The choices, without those that find their expert full: Int [R, K] -> [R, K].
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

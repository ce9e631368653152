#pragma once
// SPDX-License-Identifier: MIT
// Sizes that follow from others when a program runs on several ranks: shares, sums over all ranks, and how many rows
// come from the others.

#include <algorithm>
#include <span>
#include <vector>

#include "headmix/contract/communicator.hpp"
#include "headmix/core/error.hpp"
#include "headmix/program/parameter.hpp"
#include "headmix/program/table/extent_formula.hpp"

namespace headmix::detail {

/// The rules for such sizes of a program, and what the ranks have agreed on. `sizes` are all sizes of the program.
class RankSizes {
 public:
  RankSizes(std::span<size_rule const> rules, Index rank, Index ranks)
      : rules_(rules), rank_(rank), ranks_(ranks), agreed_(rules.size(), dynamic) {}

  [[nodiscard]] Index ranks() const { return ranks_; }
  /// True if a size is a sum over ranks, which agree on it before a forward pass.
  [[nodiscard]] bool has_sums() const {
    return std::any_of(rules_.begin(), rules_.end(), [](size_rule const& r) { return is_sum(r); });
  }
  /// True where ranks send each other rows: they have tokens of their own.
  [[nodiscard]] bool receives_rows() const {
    return std::any_of(rules_.begin(), rules_.end(),
                       [](size_rule const& r) { return r.what == size_rule::op::received; });
  }
  /// Shares of what is known; found(size) for each.
  template <class F>
  void find_shares(std::vector<Index>& sizes, F found) const {
    for (size_rule const& r : rules_) {
      bool const share = r.what == size_rule::op::share, before = r.what == size_rule::op::before;
      Index const whole = share || before ? known(*r.of, sizes) : dynamic;
      if (whole == dynamic) continue;
      auto const size = static_cast<std::size_t>(r.size);
      sizes[size] = share ? share_of(whole, rank_, ranks_) : first_of_share(whole, rank_, ranks_);
      found(size);
    }
  }
  /// Sums over all ranks, and the most rows that can come where nobody has given less.
  void find_sums(std::vector<Index>& sizes) const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      size_rule const& r = rules_[i];
      Index& value = sizes[static_cast<std::size_t>(r.size)];
      if (is_sum(r)) value = ranks_ == 1 ? known(*r.of, sizes) : agreed_[i];
      if (r.what == size_rule::op::received && value == dynamic) value = known(*r.of, sizes);
    }
  }
  /// What this rank adds to the sums, in their order.
  void own_terms(std::vector<Index>& terms, std::vector<Index> const& sizes) const {
    terms.clear();
    for (size_rule const& r : rules_) {
      if (!is_sum(r)) continue;
      if (formula const* const f = unknown_size(*r.of, sizes.data())) {
        auto const name = unqualified(f->name_source);
        fail("size ", name, " is not known: no bound leaf has it; call set(", name, "{}, n) first");
      }
      terms.push_back(evaluate(*r.of, sizes.data()));
    }
  }
  /// The sums. Says whether one has changed.
  bool agree(std::span<Index const> sums) {
    std::size_t next = 0;
    bool changed = false;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (!is_sum(rules_[i])) continue;
      changed = changed || agreed_[i] != sums[next];
      agreed_[i] = sums[next++];
    }
    return changed;
  }
  /// The most rows of a size that a call finds out.
  [[nodiscard]] Index most_received(int size, std::vector<Index> const& sizes) const {
    auto const rule = std::find_if(rules_.begin(), rules_.end(), [size](size_rule const& r) {
      return r.what == size_rule::op::received && r.size == size;
    });
    return evaluate(*rule->of, sizes.data());
  }
  /// Which part of a value of these extents is here; where it is not divided, first is 0 and the whole what is here.
  [[nodiscard]] tensor_part part_of(shape_formula const& shape, std::vector<Index> const& sizes) const {
    std::vector<Index> before = sizes, all = sizes;
    tensor_part part;
    for (std::size_t i = 0; i < 3; ++i) {
      formula const& f = *shape.extent[i];
      bool divided = false;
      for (size_rule const& r : rules_) {
        if (r.what != size_rule::op::share || !mentions(f, r.size)) continue;
        divided = true;
        Index const whole = evaluate(*r.of, sizes.data());
        before[static_cast<std::size_t>(r.size)] = first_of_share(whole, rank_, ranks_);
        all[static_cast<std::size_t>(r.size)] = whole;
      }
      part.divided = part.divided || divided;
      part.whole[i] = evaluate(f, all.data());
      part.first[i] = divided ? evaluate(f, before.data()) : 0;
    }
    return part;
  }

 private:
  static bool is_sum(size_rule const& r) { return r.what == size_rule::op::over_ranks; }
  /// Its value, or `dynamic` if that is not known yet.
  static Index known(formula const& f, std::vector<Index> const& sizes) {
    return unknown_size(f, sizes.data()) == nullptr ? evaluate(f, sizes.data()) : dynamic;
  }

  std::span<size_rule const> rules_;
  Index rank_, ranks_;
  std::vector<Index> agreed_;  // by rule: the sums
};

}  // namespace headmix::detail

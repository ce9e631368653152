#pragma once
// SPDX-License-Identifier: MIT
// The order of the calls of a program, and the groups that become one kernel.

#include <array>
#include <span>

#include "headmix/program/table/rows.hpp"

namespace headmix::detail {

/// The properties of a call that its place depends on.
struct call_role {
  int key = -1;              ///< calls with the same key may form a group; -1 for none
  double share = 0;          ///< of a group, which may have 1 in all
  bool in_parallel = false;  ///< no call of a group may read the output of another
  bool is_fixed = false;     ///< no call is moved past it
};

/// Calls in their order, and the groups that become one kernel.
template <std::size_t Calls>
struct call_order {
  std::array<int, Calls> call = {};
  std::array<int, Calls + 1> begin = {};  ///< of each group; the last element is the end
  std::size_t groups = 0, forward_groups = 0;
};

/// Forms groups of calls with the same key. A call is moved past another one only if neither writes memory that the
/// other reads or writes. Linear in the number of values, since compilers bound constant evaluation.
template <std::size_t Calls, std::size_t Values>
class call_ordering {
 public:
  /// @param base        by value: the value in whose memory it lies, -1 for none
  /// @param keeps_rows  by value: whether its rows are those of the base, or parts of them
  /// @param repeat      by stored value: the repetition that writes it, -1 for none
  constexpr call_ordering(std::array<call_role, Calls> const& roles, std::array<call_row, Calls> const& calls,
                          std::span<int const> numbers, std::span<int const> base, std::span<bool const> keeps_rows,
                          std::span<int const> repeat)
      : roles_(roles.data()),
        calls_(calls.data()),
        numbers_(numbers.data()),
        base_(base.data()),
        repeat_(repeat.data()),
        keeps_rows_(keeps_rows.data()) {
    for (int& w : writer_) w = -1;
    for (int& g : latest_) g = -1;
    for (int& c : next_) c = -1;
    for (int& g : at_) g = -1;
  }

  constexpr call_order<Calls> order(std::size_t forward_calls) {
    call_order<Calls> made;
    for (std::size_t c = 0; c < Calls; ++c) {
      if (c == forward_calls) {
        barrier_ = now_;
        made.forward_groups = count_;
      }
      place(static_cast<int>(c));
    }
    made.groups = count_;
    if (forward_calls >= Calls) made.forward_groups = count_;
    std::size_t size = 0, g = 0;
    for (int stamp = 0; stamp < now_; ++stamp) {
      if (at_[stamp] < 0) continue;
      made.begin[g++] = static_cast<int>(size);
      for (int c = groups_[at_[stamp]].first; c >= 0; c = next_[c]) made.call[size++] = c;
    }
    made.begin[g] = static_cast<int>(size);
    return made;
  }

 private:
  // The most calls between a call and the group it joins; few for large outputs, which live longer.
  static constexpr int reach = 32, reach_in_parallel = 8;

  struct group {
    int first = -1, last = -1;  // calls
    int stamp = -1;             // groups are made in the order of their stamps
    int repeat = -1;
    double share = 0;
    bool must_stay = false;  // a later group depends on it
  };

  constexpr group& group_of(int c) { return groups_[group_[c]]; }

  /// Appends call c, or joins it to the latest possible group: c moves up to the group, or the group down to c.
  constexpr void place(int c) {
    call_role const& role = roles_[c];
    int const* const values = numbers_ + calls_[c].begin;
    int const n_values = calls_[c].values, outputs = calls_[c].outputs;
    int repeat = -1, after = -1;  // the stamp of the latest group that c has to come behind
    bool overwrites = false;      // what another call has read
    int const candidate = role.key < 0 ? -1 : latest_[role.key];
    bool reshapes = false, depends = false;  // on outputs of the candidate, in other rows, or at all
    for (int i = 0; i < n_values; ++i) {
      int const n = values[i], b = n < 0 ? -1 : base_[n];
      if (b < 0) continue;
      if (repeat < 0) repeat = repeat_[b];
      overwrites = overwrites || (i < outputs && was_read_[b]);
      if (int const w = writer_[b]; w >= 0) {
        int const stamp = group_of(w).stamp;
        after = stamp > after ? stamp : after;
        if (group_[w] == candidate) {
          depends = true;
          reshapes = reshapes || !keeps_rows_[n];
        }
      }
    }
    int joined = -1;
    if (candidate >= 0 && !overwrites) {
      group& g = groups_[candidate];
      bool const near_enough = c - g.last <= (role.in_parallel ? reach_in_parallel : reach);
      if (g.stamp >= barrier_ && near_enough && g.repeat == repeat && g.share + role.share <= 1 && !reshapes &&
          !(role.in_parallel && depends)) {
        if (after > g.stamp && !g.must_stay) move_to_end(candidate);
        if (after <= g.stamp) joined = candidate;
      }
    }
    if (joined < 0) {
      joined = static_cast<int>(count_++);
      groups_[joined] = {c, c, -1, repeat, role.share, false};
      move_to_end(joined);
      if (role.key >= 0) latest_[role.key] = joined;
    } else {
      group& g = groups_[joined];
      next_[g.last] = c;
      g.last = c;
      g.share += role.share;
    }
    group_[c] = joined;
    for (int i = 0; i < n_values; ++i) {
      int const b = values[i] < 0 ? -1 : base_[values[i]];
      if (b < 0) continue;
      if (int const w = writer_[b]; w >= 0 && group_[w] != joined) group_of(w).must_stay = true;
      if (i < outputs) {
        writer_[b] = c;
      } else {
        was_read_[b] = true;
      }
    }
    if (role.is_fixed || overwrites) barrier_ = now_;
  }
  constexpr void move_to_end(int g) {
    int& stamp = groups_[g].stamp;
    if (stamp >= 0) at_[stamp] = -1;
    stamp = now_++;
    at_[stamp] = g;
  }

  // Plain arrays: compilers also bound the number of function calls.
  call_role const* roles_;
  call_row const* calls_;
  int const *numbers_, *base_, *repeat_;
  bool const* keeps_rows_;
  group groups_[Calls + 1] = {};
  int group_[Calls + 1] = {}, next_[Calls + 1] = {}, latest_[Calls + 1] = {};  // by call; the latest group by key
  int at_[2 * Calls + 1] = {};                                                 // the group of each stamp
  int writer_[Values + 1] = {};                                                // the latest call that writes a value
  bool was_read_[Values + 1] = {};
  std::size_t count_ = 0;
  int now_ = 0, barrier_ = 0;  // the next stamp, and the first one of groups that are still open
};

/// By value: the value in whose memory it lies.
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
/// By value: whether it is stored, or a view of rows of the value in whose memory it lies, or of parts of them.
/// @param by_view  by view: whether its rows are those of its source, or parts of them
template <std::size_t Stored, std::size_t Derived>
constexpr auto rows_kept(std::array<int, Derived> const& sources, std::array<bool, Derived> const& by_view) {
  std::array<bool, Stored + Derived> kept = {};
  for (std::size_t i = 0; i < kept.size(); ++i) {
    int n = static_cast<int>(i);
    kept[i] = true;
    while (n >= static_cast<int>(Stored)) {
      auto const view = static_cast<std::size_t>(n) - Stored;
      kept[i] = kept[i] && by_view[view];
      n = sources[view];
    }
  }
  return kept;
}
/// By stored value: the repetition that writes it, also of its input and its leaves.
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

}  // namespace headmix::detail

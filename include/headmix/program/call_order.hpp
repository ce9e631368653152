#pragma once
// SPDX-License-Identifier: MIT
// In which order the calls of a program are made, and which of them together.

#include <array>
#include <span>

#include "headmix/program/plan.hpp"

namespace headmix::detail {

/// What is seen of a call.
struct call_role {
  int key = -1;              ///< calls with the same one may be made together; -1 for none
  double share = 0;          ///< of what can be made together: at most 1 in all
  bool in_parallel = false;  ///< calls that are made together may not read what one of them writes
  bool is_fixed = false;     ///< no call is moved from one side of it to the other
};

/// The order in which calls are made: calls that are joined to the one before are made with it.
template <std::size_t Calls>
struct call_order {
  std::array<int, Calls> call = {};
  std::array<bool, Calls> joined = {};
  std::size_t groups = 0, forward_groups = 0;

  /// Where group g begins; where the last one ends for g = groups.
  [[nodiscard]] constexpr std::size_t begin(std::size_t g) const {
    std::size_t i = 0;
    for (std::size_t seen = 0; i < Calls; ++i) {
      if (!joined[i] && seen++ == g) break;
    }
    return i;
  }
};

/// Puts calls together that may be made together. Every value keeps its meaning: a call passes another one only if
/// neither writes what the other one reads or writes.
template <std::size_t Calls>
class call_ordering {
 public:
  /// @param base    by value: the value whose memory it has, -1 for none
  /// @param repeat  by value: the repeated part that makes it, -1 for none
  constexpr call_ordering(std::array<call_role, Calls> const& roles, std::array<call_row, Calls> const& calls,
                          std::span<int const> numbers, std::span<int const> base, std::span<int const> repeat)
      : roles_(roles), calls_(calls), numbers_(numbers), base_(base) {
    for (std::size_t c = 0; c < Calls; ++c) repeat_[c] = repeat_of(c, repeat);
  }

  constexpr call_order<Calls> order(std::size_t forward_calls) {
    for (std::size_t c = 0; c < Calls; ++c) {
      if (c == forward_calls) first_ = size_;
      place(static_cast<int>(c));
    }
    for (std::size_t i = 0; i < Calls; ++i) {
      if (order_.joined[i]) continue;
      ++order_.groups;
      if (i < (forward_calls < Calls ? first_ : Calls)) ++order_.forward_groups;
    }
    return order_;
  }

 private:
  // Calls that one may be away from those it joins; few where what they make is large, and has to be kept for longer.
  static constexpr std::size_t reach = 32, reach_in_parallel = 8;

  [[nodiscard]] constexpr std::span<int const> values_of(int c) const {
    call_row const& row = calls_[static_cast<std::size_t>(c)];
    return numbers_.subspan(static_cast<std::size_t>(row.begin), static_cast<std::size_t>(row.values));
  }
  [[nodiscard]] constexpr int base_of(int n) const { return n < 0 ? -1 : base_[static_cast<std::size_t>(n)]; }
  [[nodiscard]] constexpr int repeat_of(std::size_t c, std::span<int const> repeat) const {
    for (int const n : values_of(static_cast<int>(c))) {
      if (int const b = base_of(n); b >= 0 && repeat[static_cast<std::size_t>(b)] >= 0) {
        return repeat[static_cast<std::size_t>(b)];
      }
    }
    return -1;
  }
  /// Whether a writes what b reads or writes.
  [[nodiscard]] constexpr bool feeds(int a, int b) const {
    auto const written = values_of(a), touched = values_of(b);
    for (int i = 0; i < calls_[static_cast<std::size_t>(a)].outputs; ++i) {
      int const w = base_of(written[static_cast<std::size_t>(i)]);
      for (int const n : touched) {
        if (w >= 0 && base_of(n) == w) return true;
      }
    }
    return false;
  }
  [[nodiscard]] constexpr bool commute(int a, int b) const { return !feeds(a, b) && !feeds(b, a); }
  /// Whether b reads, in another shape, what a writes: not only the same row of it.
  [[nodiscard]] constexpr bool reshapes(int a, int b) const {
    int const w = base_of(values_of(a)[0]);
    for (int const n : values_of(b)) {
      if (n >= 0 && n != w && base_of(n) == w) return true;
    }
    return false;
  }
  [[nodiscard]] constexpr call_role const& role(std::size_t i) const {
    return roles_[static_cast<std::size_t>(order_.call[i])];
  }
  /// Whether call c can be made together with the calls [begin, end).
  [[nodiscard]] constexpr bool fits(int c, std::size_t begin, std::size_t end) const {
    auto const k = static_cast<std::size_t>(c);
    if (role(begin).key != roles_[k].key || repeat_[static_cast<std::size_t>(order_.call[begin])] != repeat_[k]) {
      return false;
    }
    double share = roles_[k].share;
    for (std::size_t i = begin; i < end; ++i) {
      share += role(i).share;
      if (reshapes(order_.call[i], c) || reshapes(c, order_.call[i])) return false;
      if (roles_[k].in_parallel && !commute(order_.call[i], c)) return false;
    }
    return share <= 1;
  }
  constexpr void insert(std::size_t at, int c, bool joins) {
    for (std::size_t i = size_++; i > at; --i) {
      order_.call[i] = order_.call[i - 1];
      order_.joined[i] = order_.joined[i - 1];
    }
    order_.call[at] = c;
    order_.joined[at] = joins;
  }
  /// Whether the calls [begin, end) may come behind all that follow them.
  [[nodiscard]] constexpr bool can_wait(std::size_t begin, std::size_t end) const {
    for (std::size_t i = end; i < size_; ++i) {
      for (std::size_t k = begin; k < end; ++k) {
        if (role(i).is_fixed || !commute(order_.call[k], order_.call[i])) return false;
      }
    }
    return true;
  }
  /// Moves the calls [begin, end) behind all that follow them.
  constexpr void postpone(std::size_t begin, std::size_t end) {
    for (std::size_t moves = end - begin; moves > 0; --moves) {
      int const c = order_.call[begin];
      bool const joins = order_.joined[begin];
      for (std::size_t i = begin + 1; i < size_; ++i) {
        order_.call[i - 1] = order_.call[i];
        order_.joined[i - 1] = order_.joined[i];
      }
      order_.call[size_ - 1] = c;
      order_.joined[size_ - 1] = joins;
    }
  }
  /// Puts call c behind all before it, or where it joins the nearest group that it can be in: c moves up to that one,
  /// or that one down to c.
  constexpr void place(int c) {
    if (call_role const& own = roles_[static_cast<std::size_t>(c)]; own.key >= 0) {
      std::size_t const most = own.in_parallel ? reach_in_parallel : reach;
      bool may_move = true;
      for (std::size_t end = size_; end > first_ && size_ - end <= most;) {
        std::size_t begin = end - 1;
        while (order_.joined[begin]) --begin;
        if (fits(c, begin, end)) {
          if (may_move) return insert(end, c, true);
          if (can_wait(begin, end)) {
            postpone(begin, end);
            return insert(size_, c, true);
          }
        }
        for (std::size_t i = begin; i < end; ++i) {
          if (role(i).is_fixed) end = 0;
          may_move = may_move && commute(order_.call[i], c);
        }
        end = end == 0 ? 0 : begin;
      }
    }
    insert(size_, c, false);
  }

  std::array<call_role, Calls> const& roles_;
  std::array<call_row, Calls> const& calls_;
  std::span<int const> numbers_, base_;
  std::array<int, Calls> repeat_ = {};
  call_order<Calls> order_ = {};
  std::size_t size_ = 0, first_ = 0;  // calls that have their place, and which of them others may still join
};

/// By value, the value whose memory it has.
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
/// By stored value, the repeated part that makes it: what comes in, repeated leaves, and what is made of them.
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

#pragma once
// SPDX-License-Identifier: MIT
// The tables of programs in which nothing is repeated: most of them, which pay nothing for those that have repeated
// parts (program/unroll.hpp).

#include <span>

#include "headmix/program/plan.hpp"

namespace headmix::detail {

/// Fails unless there is such a time.
inline void check_time(Index time, Index times) {
  if (0 > time || time >= times) {
    fail("there is no time ", time, " of a value that is made ", times, times == 1 ? " time" : " times");
  }
}

/// The tables of a program without repeated parts: what Unrolled is for others.
class PlainTables {
 public:
  PlainTables(program_table const& table, std::span<Index const>) : table_(&table) {}
  [[nodiscard]] program_table const& table() const { return *table_; }
  [[nodiscard]] std::size_t value(int n, Index time = 0) const {
    check_time(time, 1);
    return static_cast<std::size_t>(n);
  }
  [[nodiscard]] Index times_of_leaf(std::size_t) const { return 1; }
  [[nodiscard]] int repeat_of_leaf(std::size_t) const { return -1; }
  [[nodiscard]] std::size_t call_of(std::size_t c) const { return c; }
  [[nodiscard]] std::size_t derived_of(std::size_t d) const { return d; }
  [[nodiscard]] std::size_t derived_in_order(std::size_t i) const { return i; }

 private:
  program_table const* table_;
};

}  // namespace headmix::detail

#pragma once
// SPDX-License-Identifier: MIT
// The tables of programs in which nothing is repeated: most of them, which pay nothing for those that have repeated
// parts (program/run/unroll.hpp).

#include <span>
#include <vector>

#include "headmix/program/run/plan.hpp"

namespace headmix::detail {

/// Fails unless there is such a time.
inline void check_time(Index time, Index times) {
  if (0 > time || time >= times) {
    fail("there is no time ", time, " of a value that is made ", times, times == 1 ? " time" : " times");
  }
}

/// Which value of the original tables a value is.
struct value_origin {
  int value;
  Index time;  ///< of a repeated part
  bool again;  ///< as the backward pass computes it anew
};

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
  [[nodiscard]] std::vector<value_origin> origins() const {
    std::vector<value_origin> all;
    for (std::size_t v = 0; v < table_->values(); ++v) all.push_back({static_cast<int>(v), 0, false});
    return all;
  }

 private:
  program_table const* table_;
};

}  // namespace headmix::detail

// SPDX-License-Identifier: MIT
// Masks with `sees` alone: the CPU computes with the keys from the first to the last visible one.

#include "attention_cases.hpp"

namespace mask_range_test {

namespace {

using namespace headmix;
using namespace headmix::test;

struct my_causal {
  static constexpr bool sees(Index t, Index s) { return s <= t; }
};
struct my_window {
  static constexpr bool sees(Index t, Index s) { return s <= t && t - s < 70; }
};
/// The first key and the key of the query's position, which may be far apart.
struct ends {
  static constexpr bool sees(Index t, Index s) { return s == 0 || s == t; }
};
/// One key, anywhere; every third query sees none.
struct single {
  static constexpr bool sees(Index t, Index s) { return t % 3 != 0 && s == t * 37 % 601; }
};
/// Separate groups of keys; some queries see all keys.
struct islands {
  static constexpr bool sees(Index t, Index s) { return t % 5 == 0 || (s / 40 % 3 == t % 3 && s % 7 != 2); }
};

/// The range of each row of a sequence of 650 queries and 700 keys.
template <AttentionMask M>
std::vector<cpu_kernels::detail::block_row> rows_of(Index rows_per_token) {
  attention_extents const x{uniform(1, 650), uniform(1, 700), rows_per_token, 2, 1, 4};
  std::vector<cpu_kernels::detail::block_row> rows(static_cast<std::size_t>(x.list_length(0, 0)));
  cpu_kernels::detail::describe_rows<M>(x, {0, 0, 0, static_cast<Index>(rows.size())}, rows.data());
  return rows;
}
template <AttentionMask M>
void check_ranges() {
  for (Index const rows_per_token : {1, 3}) {
    for (cpu_kernels::detail::block_row const& r : rows_of<M>(rows_per_token)) {
      key_range least{0, 0};
      for (Index s = 699; s >= 0; --s)
        if (M::sees(r.at.position, s)) least = {s, least.end == 0 ? s + 1 : least.end};
      CHECK(r.keys.begin == least.begin);
      CHECK(r.keys.end == least.end);
    }
  }
}

TEST_CASE("a mask of sees alone has the least range of keys, as one with a range has") {
  check_ranges<my_causal>();
  check_ranges<my_window>();
  check_ranges<ends>();
  check_ranges<single>();
  check_ranges<islands>();
  check_ranges<scattered>();
  check_ranges<sliding_window<70>>();
}
TEST_CASE("attention with masks of sees alone equals the reference") {
  std::vector<Case> some = cases();
  some.push_back({{0, 20, 650}, {0, 601, 1290}, 1, 4, 2, 4});
  for (Case const& c : some) {
    check<ends, double>(c, 1e-11);
    check<single, double>(c, 1e-11);
    check<islands, double>(c, 1e-11);
  }
}
TEST_CASE("a mask of sees alone has the bits of the same one with a range") {
  Case const c{{0, 20, 650}, {0, 601, 1290}, 1, 4, 2, 4};
  CHECK(run<my_causal, float>(c, Cpu<float>()) == run<causal, float>(c, Cpu<float>()));
  CHECK(run<my_window, float>(c, Cpu<float>()) == run<sliding_window<70>, float>(c, Cpu<float>()));
}

}  // namespace

}  // namespace mask_range_test

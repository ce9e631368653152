#pragma once
// SPDX-License-Identifier: MIT
// Announcements of operations between ranks: kind, type and number of elements. All communicators refuse the same
// mismatches.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"

namespace headmix::detail {

/// The names of the operations in messages.
enum class collective_kind : std::int32_t { all_sum, all_gather, reduce_scatter, all_to_all, broadcast, barrier, end };
[[nodiscard]] constexpr char const* name_of(collective_kind kind) {
  constexpr char const* names[] = {"all_sum",   "all_gather", "reduce_scatter",        "all_to_all",
                                   "broadcast", "barrier",    "the end of the program"};
  auto const i = static_cast<std::size_t>(kind);
  return i < std::size(names) ? names[i] : "an unknown operation";
}
enum class element_kind : std::int32_t { float32, float64, bfloat16, int32, int64, byte };
[[nodiscard]] constexpr char const* name_of(element_kind kind) {
  constexpr char const* names[] = {"float", "double", "bfloat16", "Int", "Index", "std::byte"};
  auto const i = static_cast<std::size_t>(kind);
  return i < std::size(names) ? names[i] : "an unknown type";
}
template <class T>
[[nodiscard]] constexpr element_kind element_kind_of() {
  if constexpr (std::is_same_v<T, float>)
    return element_kind::float32;
  else if constexpr (std::is_same_v<T, double>)
    return element_kind::float64;
  else if constexpr (std::is_same_v<T, headmix::bfloat16>)
    return element_kind::bfloat16;
  else if constexpr (std::is_same_v<T, Int>)
    return element_kind::int32;
  else if constexpr (std::is_same_v<T, Index>)
    return element_kind::int64;
  else {
    static_assert(std::is_same_v<T, std::byte>,
                  "headmix: a communicator moves float, double, bfloat16, Int, Index "
                  "and std::byte");
    return element_kind::byte;
  }
}

/// The operation of this rank and its part of it, sent to another rank.
struct announcement {
  collective_kind kind;
  element_kind element;
  Index elements;  ///< of the whole operation, the same on all ranks; 0 for all_to_all
  Index root;      ///< for broadcast
  Index part;      ///< elements that this rank sends to the other one
};

/// An error unless the announcement of rank `other` matches this rank's operation.
inline void check_announcement(announcement const& mine, Index rank, announcement const& other, Index from,
                               Index expected) {
  auto const both = [&](auto const& what, auto const& a, auto const& b) {
    fail("rank ", rank, " and rank ", from, " disagree: ", what, " is ", a, " on rank ", rank, " and ", b, " on rank ",
         from);
  };
  if (mine.kind != other.kind) both("the operation", name_of(mine.kind), name_of(other.kind));
  std::string const name = name_of(mine.kind);
  if (mine.element != other.element)
    both(name + ": the type of elements", name_of(mine.element), name_of(other.element));
  if (mine.elements != other.elements) both(name + ": the number of elements", mine.elements, other.elements);
  if (mine.root != other.root) both(name + ": the root", mine.root, other.root);
  if (other.part != expected) {
    fail(name, ": rank ", from, " sends ", other.part, " elements to rank ", rank, ", which expects ", expected);
  }
}

/// An error unless rank `rank` can have n elements in an operation.
inline Index checked_elements(char const* operation, Index n, Index rank) {
  if (n < 0) fail(operation, ": a number of elements must not be negative; found ", n, " on rank ", rank);
  if (n > max_elements) {
    fail(operation, ": expected at most ", max_elements, " elements, found ", n, " on rank ", rank);
  }
  return n;
}
/// The sum of the numbers of elements; an error unless there is a valid one for each rank. `rank` is the calling rank.
inline Index checked_elements(char const* operation, std::span<Index const> counts, Index ranks, Index rank) {
  if (static_cast<Index>(counts.size()) != ranks) {
    fail(operation, ": there are numbers of elements for ", counts.size(), " ranks on rank ", rank, ", expected ",
         ranks);
  }
  Index sum = 0;
  for (Index const n : counts) sum = checked_elements(operation, sum + checked_elements(operation, n, rank), rank);
  return sum;
}
/// An error unless `root` is a rank; `rank` is the calling rank.
inline void check_root(Index root, Index ranks, Index rank) {
  if (0 > root || root >= ranks)
    fail("broadcast: there is no rank ", root, " among ", ranks, "; asked for on rank ", rank);
}

/// The message on the other ranks after rank `rank` has failed with this text.
[[nodiscard]] inline std::string failure_text(Index rank, std::string_view text) {
  constexpr std::string_view prefix = "headmix: ";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return message("rank ", rank, " has failed: ", std::string(text));
}

/// The part of an operation for or from one rank.
struct bytes_of_rank {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace headmix::detail

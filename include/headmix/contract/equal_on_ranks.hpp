#pragma once
// SPDX-License-Identifier: MIT
// Numbers that must be the same on all ranks: seeds, digests, counts of steps.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"

namespace headmix::detail {

/// An Error on all ranks unless these named numbers are equal on all of them.
template <class C>
void check_equal_on_all_ranks(C& communicator, std::vector<std::pair<std::string, std::uint64_t>> const& named) {
  if constexpr (requires { communicator.on_host(); }) {
    check_equal_on_all_ranks(communicator.on_host(), named);
  } else {
    std::vector<Index> mine;
    for (auto const& n : named) mine.push_back(static_cast<Index>(n.second));
    std::vector<Index> const counts(static_cast<std::size_t>(communicator.size()), std::ssize(mine));
    std::vector<Index> all(mine.size() * counts.size());
    communicator.all_gather(all.data(), static_cast<Index const*>(mine.data()), counts);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      for (std::size_t r = 1; r < counts.size(); ++r) {
        Index const first = all[i], other = all[r * mine.size() + i];
        if (first == other) continue;
        fail(named[i].first, " must be the same on all ranks; it is ", static_cast<std::uint64_t>(first),
             " on rank 0 and ", static_cast<std::uint64_t>(other), " on rank ", r);
      }
    }
  }
}
/// An Error on all ranks unless this number is equal on all of them.
template <class C>
void check_equal_on_all_ranks(C& communicator, char const* name, std::uint64_t number) {
  check_equal_on_all_ranks(communicator, {{name, number}});
}

}  // namespace headmix::detail

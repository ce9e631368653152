#pragma once
// SPDX-License-Identifier: MIT
// Checkpoints of trainings on several ranks: files in the format of one process (io/checkpoint.hpp), which any number
// of ranks can resume. load() of a divided module reads its parts.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headmix/contract/communicator.hpp"
#include "headmix/contract/equal_on_ranks.hpp"
#include "headmix/core/digest.hpp"
#include "headmix/io/checkpoint.hpp"

namespace headmix {

namespace detail {

/// Copies the elements of a part to their places in the whole.
inline void place_part(std::byte* whole, stored_tensor const& t, tensor_part const& part,
                       std::array<Index, 3> const& extent, std::byte const* from) {
  auto const element = static_cast<std::size_t>(info_of(t.type).size);
  auto const row = static_cast<std::size_t>(extent[2]) * element;
  for (Index n = 0; n < extent[0]; ++n) {
    for (Index r = 0; r < extent[1] && row > 0; ++r) {
      std::memcpy(whole + static_cast<std::size_t>(part.number(n, r, 0)) * element, from, row);
      from += row;
    }
  }
}

/// The whole of a divided tensor on rank 0; nothing on others.
template <class C>
[[nodiscard]] std::vector<std::byte> gathered(stored_tensor const& t, C& ranks) {
  auto const size = static_cast<std::size_t>(ranks.size());
  std::vector<Index> const six(size, 6);
  Index const mine[6] = {t.part.first[0], t.part.first[1], t.part.first[2], t.count, t.rows, t.cols};
  std::vector<Index> places(6 * size);
  ranks.all_gather(places.data(), static_cast<Index const*>(mine), six);
  std::vector<std::byte> own(t.bytes());
  if (t.host != nullptr) {
    std::copy_n(t.host, own.size(), own.begin());
  } else {
    t.download(own.data());
  }
  std::vector<Index> received(size, 0), sent(size, 0);
  sent[0] = static_cast<Index>(own.size());
  std::size_t total = 0;
  for (std::size_t r = 0; r < size && ranks.rank() == 0; ++r) {
    received[r] = (checked(places[6 * r + 3]) * places[6 * r + 4] * places[6 * r + 5] * info_of(t.type).size).value;
    total += static_cast<std::size_t>(received[r]);
  }
  std::vector<std::byte> parts(total);
  ranks.all_to_all(parts.data(), received, static_cast<std::byte const*>(own.data()), sent);
  std::vector<std::byte> whole;
  if (ranks.rank() != 0) return whole;
  whole.resize(checked_bytes(checked(t.part.whole[0]) * t.part.whole[1] * t.part.whole[2],
                             static_cast<std::size_t>(info_of(t.type).size)));
  std::byte const* from = parts.data();
  for (std::size_t r = 0; r < size; ++r) {
    Index const* const p = places.data() + 6 * r;
    place_part(whole.data(), t, {true, {p[0], p[1], p[2]}, t.part.whole}, {p[3], p[4], p[5]}, from);
    from += received[r];
  }
  return whole;
}

}  // namespace detail

/// An error on all ranks, with the names of a tensor and of two ranks, unless all ranks have the same bits in
/// everything that is not divided: parameters, buffers, the state of optimisers and their steps, the seed and the
/// number of passes. For the start of a training, and after load() of files that ranks may not share. All ranks call
/// it.
template <Communicator C, HasParameters M, StatefulOptimiser... O>
void check_equal_on_ranks(C& ranks, M const& m, O const&... optimisers) {
  std::vector<std::pair<std::string, std::uint64_t>> named;
  if constexpr (requires { m.passes(); }) {
    named.emplace_back("the seed", m.seed());
    named.emplace_back("the number of passes", m.passes());
  }
  (static_cast<void>(
       named.emplace_back("the number of an optimiser's steps", static_cast<std::uint64_t>(optimisers.steps()))),
   ...);
  std::vector<std::byte> copy;
  for (auto const& t : detail::all_tensors(m, optimisers...)) {
    if (t.part.divided) continue;
    std::span<std::byte const> bytes(t.host, t.bytes());
    if (t.host == nullptr) {
      copy.resize(t.bytes());
      t.download(copy.data());
      bytes = copy;
    }
    named.emplace_back("the digest of " + t.name, detail::digest_of(bytes));
  }
  detail::check_equal_on_all_ranks(ranks, named);
}

/// The save() of a single process, by all ranks together: rank 0 writes the file, in which divided parameters and
/// divided state of optimisers are whole. Extras are those of rank 0. Returns when the file is complete; if it cannot
/// be written, all ranks fail.
template <Communicator C, HasParameters M, StatefulOptimiser... O>
void save(std::string const& path, C& ranks, checkpoint_extras extras, M const& m, O const&... optimisers) {
  auto tensors = detail::all_tensors(m, optimisers...);
  std::vector<std::vector<std::byte>> wholes;
  wholes.reserve(tensors.size());
  for (auto& t : tensors) {
    if (!t.part.divided) continue;
    auto const& whole = wholes.emplace_back(detail::gathered(t, ranks));
    auto const [n, r, c] = t.part.whole;
    t.count = n, t.rows = r, t.cols = c;
    t.host = whole.data();
  }
  if (ranks.rank() == 0) {
    detail::describe(path, extras, tensors, m, optimisers...);
    detail::write_checkpoint(path, tensors, std::move(extras));
  }
  ranks.barrier();
}
/// save() without extras.
template <Communicator C, HasParameters M, StatefulOptimiser... O>
void save(std::string const& path, C& ranks, M const& m, O const&... optimisers) {
  save(path, ranks, checkpoint_extras{}, m, optimisers...);
}

}  // namespace headmix

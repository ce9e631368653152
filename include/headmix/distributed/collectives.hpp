#pragma once
// SPDX-License-Identifier: MIT
// The collective operations in terms of one: every rank sends a part to every other rank. An engine with this operation
// gets the rest by deriving from `collectives`: sums in the order of the ranks, checks, asynchronous sums.
//
// A sum of n elements on R ranks moves 2 n (R - 1) / R elements to and from each rank, as a ring does, in two rounds of
// R - 1 messages each; one round for few elements.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "headmix/contract/communicator.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"
#include "headmix/distributed/announcement.hpp"

namespace headmix {

/// The operations of a Communicator over an engine that derives from it and has these functions:
///
///   rank(), size()
///   std::size_t begin(std::uint64_t key, announcement const&, std::span<bytes_of_rank const> sent,
///                     std::span<bytes_of_rank const> received, std::size_t element)
///     begins a round: sends sent[r] to rank r and receives received[r] from it, both empty for r = rank(). The spans
///     and their memory must not change until the round is complete; `element` is the size of an element in bytes.
///     Corresponding rounds have the same key on all ranks, but need not begin in the same order. Returns a number.
///   bool done(std::size_t number)
///     advances the round without waiting; true if it is complete: sent memory may be overwritten, and received
///     elements have arrived. Not called again after `true`. An error if ranks disagree (check_announcement), or if
///     another rank has failed, with its message.
///   void wait()
///     returns when a round in flight may have advanced, or after a moment.
///   void fail_all(std::string_view text) noexcept
///     on return no other rank accesses the memory of this rank's rounds, and every operation fails, on all ranks.
template <class Engine>
class collectives {
  using kind = detail::collective_kind;
  using part = detail::bytes_of_rank;

 public:
  /// See archetype::communicator.
  template <class T>
  void all_sum(T* to, T const* from, Index n) {
    complete(begin_all_sum(to, from, n));
  }
  /// See Overlaps.
  template <class T>
  Index begin_all_sum(T* to, T const* from, Index n) {
    static_assert(!std::is_same_v<T, std::byte>, "headmix: bytes have no sum");
    detail::checked_elements("all_sum", n, engine().rank());
    pending& sum = next_pending();
    Index const ranks = engine().size();
    sum.to = reinterpret_cast<std::byte*>(to), sum.n = n, sum.element = detail::element_kind_of<T>();
    sum.advance = &collectives::advance_sum<T>;
    auto const bytes = checked_bytes(n, sizeof(T));
    bool const at_once = bytes <= few_bytes;
    sum.at = at_once ? stage::all_at_once : stage::scatter;
    // The elements of this rank's share, of all ranks; or all elements.
    sum.first = at_once ? 0 : first_of_share(n, engine().rank(), ranks);
    sum.mine = at_once ? n : share_of(n, engine().rank(), ranks);
    auto const share = checked_bytes(sum.mine, sizeof(T));
    reserve_shares<T>(sum.memory, sum.mine);
    for (Index r = 0; r < ranks; ++r) {
      Index const first = at_once ? 0 : first_of_share(n, r, ranks), count = at_once ? n : share_of(n, r, ranks);
      bool const own = r == engine().rank();
      part_of(sum.sent, r) = own ? part{} : part_from(from + first, count);
      part_of(sum.received, r) =
          own ? part{} : part{sum.memory.bytes().data() + static_cast<std::size_t>(r) * share, share};
      if (own) copy(sum.memory.template as<T>(static_cast<std::size_t>(r) * share), from + first, count);
    }
    sum.key = next_key();
    sum.number = engine().begin(sum.key, {kind::all_sum, sum.element, n, 0, 0}, sum.sent, sum.received, sizeof(T));
    return number_of(sum);
  }
  /// See Overlaps.
  void complete(Index number) {
    if (0 > number || number >= static_cast<Index>(pending_.size()) ||
        !pending_[static_cast<std::size_t>(number)].taken) {
      fail("complete: rank ", engine().rank(), " has not begun operation ", number, ", or has completed it");
    }
    pending& sum = pending_[static_cast<std::size_t>(number)];
    while (sum.at != stage::complete) {
      advance();
      if (sum.at != stage::complete) engine().wait();
    }
    sum.taken = false;
  }
  /// See Overlaps.
  void advance() {
    for (auto& sum : pending_) {
      if (sum.taken && sum.at != stage::complete) (this->*sum.advance)(sum);
    }
  }
  /// For code that leaves with an exception while operations are in flight: every operation of every rank fails from
  /// then on, and their memory is no longer used. No effect if all are complete.
  void abandon() noexcept {
    for (auto const& sum : pending_) {
      if (sum.taken && sum.at != stage::complete)
        return engine().fail_all("an exception while operations were going on");
    }
  }
  /// See archetype::communicator.
  template <class T>
  void all_gather(T* to, T const* from, std::span<Index const> counts) {
    checked_elements("all_gather", counts);
    Index first = 0;
    for (Index r = 0; r < engine().size(); ++r) {
      Index const n = counts[static_cast<std::size_t>(r)];
      bool const own = r == engine().rank();
      Index const mine = counts[static_cast<std::size_t>(engine().rank())];
      part_of(sent_, r) = own ? part{} : part_from(from, mine);
      part_of(received_, r) = own ? part{} : part_of_memory(to + first, n);
      if (own && to + first != from) copy(to + first, from, n);
      first += n;
    }
    run({kind::all_gather, detail::element_kind_of<T>(), first, 0, 0}, sizeof(T));
  }
  /// See archetype::communicator.
  template <class T>
  void reduce_scatter(T* to, T const* from, std::span<Index const> counts) {
    static_assert(!std::is_same_v<T, std::byte>, "headmix: bytes have no sum");
    checked_elements("reduce_scatter", counts);
    Index const ranks = engine().size(), mine = counts[static_cast<std::size_t>(engine().rank())];
    auto const share = checked_bytes(mine, sizeof(T));
    reserve_shares<T>(memory_, mine);
    Index first = 0;
    for (Index r = 0; r < ranks; ++r) {
      Index const n = counts[static_cast<std::size_t>(r)];
      bool const own = r == engine().rank();
      part_of(sent_, r) = own ? part{} : part_from(from + first, n);
      part_of(received_, r) = own ? part{} : part{memory_.bytes().data() + static_cast<std::size_t>(r) * share, share};
      if (own) copy(memory_.template as<T>(static_cast<std::size_t>(r) * share), from + first, n);
      first += n;
    }
    run({kind::reduce_scatter, detail::element_kind_of<T>(), first, 0, 0}, sizeof(T));
    add_in_order(to, memory_, mine);
  }
  /// See archetype::communicator.
  template <class T>
  void all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent) {
    divide(to, received, from, sent, sent_, received_);
    run({kind::all_to_all, detail::element_kind_of<T>(), 0, 0, 0}, sizeof(T));
  }
  /// See Overlaps.
  template <class T>
  Index begin_all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent) {
    pending& rows = next_pending();
    divide(to, received, from, sent, rows.sent, rows.received);
    rows.advance = &collectives::advance_exchange;
    rows.at = stage::gather;
    rows.number = engine().begin(next_key(), {kind::all_to_all, detail::element_kind_of<T>(), 0, 0, 0}, rows.sent,
                                 rows.received, sizeof(T));
    return number_of(rows);
  }
  /// See archetype::communicator.
  template <class T>
  void broadcast(T* data, Index n, Index root) {
    detail::checked_elements("broadcast", n, engine().rank());
    detail::check_root(root, engine().size(), engine().rank());
    for (Index r = 0; r < engine().size(); ++r) {
      bool const own = r == engine().rank();
      part_of(sent_, r) = own || engine().rank() != root ? part{} : part_of_memory(data, n);
      part_of(received_, r) = own || r != root ? part{} : part_of_memory(data, n);
    }
    run({kind::broadcast, detail::element_kind_of<T>(), n, root, 0}, sizeof(T));
  }
  /// See archetype::communicator.
  void barrier() { meet(kind::barrier); }

 protected:
  collectives() = default;
  ~collectives() = default;
  /// The last operation of a program, on all ranks: an error if another rank calls a different operation.
  void end() {
    for (auto const& sum : pending_) {
      if (sum.taken && sum.at != stage::complete) {
        fail("rank ", engine().rank(), " has ended while an operation was going on; see complete()");
      }
    }
    meet(kind::end);
  }
  /// See detail::checked_elements.
  Index checked_elements(char const* operation, std::span<Index const> counts) {
    return detail::checked_elements(operation, counts, engine().size(), engine().rank());
  }
  /// Two keys per operation, which has at most two rounds; operations begin in the same order on all ranks.
  std::uint64_t next_key() { return key_ += 2; }

 private:
  static constexpr std::size_t few_bytes = 4096;
  enum class stage { complete, all_at_once, scatter, gather };
  struct pending {
    bool taken = false;
    stage at = stage::complete;
    std::uint64_t key = 0;
    std::size_t number = 0;  ///< of its round
    void (collectives::*advance)(pending&) = nullptr;
    std::byte* to = nullptr;
    Index n = 0, first = 0, mine = 0;
    detail::element_kind element{};
    AlignedBuffer memory;  ///< this rank's elements, received from all ranks
    std::vector<part> sent, received;
  };

  Engine& engine() { return static_cast<Engine&>(*this); }
  /// Memory for n elements of each rank.
  template <class T>
  void reserve_shares(AlignedBuffer& memory, Index n) {
    auto const bytes = static_cast<std::size_t>((checked(engine().size()) * n * static_cast<Index>(sizeof(T))).value);
    if (memory.bytes().size() < bytes) memory = AlignedBuffer(bytes);
  }
  part& part_of(std::vector<part>& parts, Index rank) {
    parts.resize(static_cast<std::size_t>(engine().size()));
    return parts[static_cast<std::size_t>(rank)];
  }
  template <class T>
  static part part_of_memory(T* data, Index n) {
    return {reinterpret_cast<std::byte*>(data), checked_bytes(n, sizeof(T))};
  }
  /// Sent bytes; they are not written to.
  template <class T>
  static part part_from(T const* data, Index n) {
    return part_of_memory(const_cast<T*>(data), n);
  }
  template <class T>
  static void copy(T* to, T const* from, Index n) {
    if (n > 0) std::memmove(to, from, static_cast<std::size_t>(n) * sizeof(T));
  }
  /// The parts of all_to_all.
  template <class T>
  void divide(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent,
              std::vector<part>& out_parts, std::vector<part>& in_parts) {
    checked_elements("all_to_all", received);
    checked_elements("all_to_all", sent);
    Index first_to = 0, first_from = 0;
    for (Index r = 0; r < engine().size(); ++r) {
      Index const in = received[static_cast<std::size_t>(r)], out = sent[static_cast<std::size_t>(r)];
      bool const own = r == engine().rank();
      if (own && in != out) fail("all_to_all: rank ", r, " sends ", out, " elements to itself and expects ", in);
      part_of(out_parts, r) = own ? part{} : part_from(from + first_from, out);
      part_of(in_parts, r) = own ? part{} : part_of_memory(to + first_to, in);
      if (own) copy(to + first_to, from + first_from, in);
      first_to += in, first_from += out;
    }
  }
  /// An operation without elements.
  void meet(kind what) {
    for (Index r = 0; r < engine().size(); ++r) part_of(sent_, r) = part_of(received_, r) = {};
    run({what, detail::element_kind::byte, 0, 0, 0}, 1);
  }
  void run(detail::announcement const& what, std::size_t element) {
    std::size_t const number = engine().begin(next_key(), what, sent_, received_, element);
    while (!engine().done(number)) {
      advance();
      engine().wait();
    }
  }
  /// to = the sum of the shares of all ranks, which are consecutive in memory, in the order of the ranks.
  template <class T>
  void add_in_order(T* to, AlignedBuffer const& memory, Index n) {
    using wide = std::conditional_t<std::is_integral_v<T>, T, accumulator_t<T>>;
    constexpr Index some = 1024;  // elements that stay in the L1 cache
    wide sum[some];
    T const* const from = memory.template as<T>();
    Index const ranks = engine().size();
    for (Index first = 0; first < n; first += some) {
      Index const count = (std::min)(some, n - first);
      for (Index i = 0; i < count; ++i) sum[i] = static_cast<wide>(from[first + i]);
      for (Index r = 1; r < ranks; ++r) {
        T const* const theirs = from + r * n + first;
        for (Index i = 0; i < count; ++i) sum[i] += static_cast<wide>(theirs[i]);
      }
      for (Index i = 0; i < count; ++i) to[first + i] = static_cast<T>(sum[i]);
    }
  }
  /// A free entry for an operation that begins; it is occupied once the operation has begun.
  pending& next_pending() {
    auto const free = std::find_if(pending_.begin(), pending_.end(), [](pending const& p) { return !p.taken; });
    return free != pending_.end() ? *free : pending_.emplace_back();
  }
  Index number_of(pending& begun) {
    begun.taken = true;
    return static_cast<Index>(&begun - pending_.data());
  }
  void advance_exchange(pending& rows) {
    if (engine().done(rows.number)) rows.at = stage::complete;
  }
  template <class T>
  void advance_sum(pending& sum) {
    if (!engine().done(sum.number)) return;
    T* const to = reinterpret_cast<T*>(sum.to);
    if (sum.at == stage::scatter) {
      // Sends the sums of this rank's share to all ranks.
      add_in_order(to + sum.first, sum.memory, sum.mine);
      for (Index r = 0; r < engine().size(); ++r) {
        bool const own = r == engine().rank();
        part_of(sum.sent, r) = own ? part{} : part_of_memory(to + sum.first, sum.mine);
        Index const first = first_of_share(sum.n, r, engine().size()), n = share_of(sum.n, r, engine().size());
        part_of(sum.received, r) = own ? part{} : part_of_memory(to + first, n);
      }
      sum.at = stage::gather;
      sum.number =
          engine().begin(sum.key + 1, {kind::all_sum, sum.element, sum.n, 0, 0}, sum.sent, sum.received, sizeof(T));
      return;
    }
    if (sum.at == stage::all_at_once) add_in_order(to, sum.memory, sum.n);
    sum.at = stage::complete;
  }

  std::vector<part> sent_, received_;
  std::vector<pending> pending_;
  AlignedBuffer memory_;
  std::uint64_t key_ = 0;
};

}  // namespace headmix

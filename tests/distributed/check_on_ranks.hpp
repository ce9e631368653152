#pragma once
// SPDX-License-Identifier: MIT
// The check of a layer on several ranks: threads or, in a program started by MPI, processes. Both run the same program.

#include <mutex>
#include <utility>
#include <variant>

#include "on_ranks.hpp"
#ifdef HEADMIX_TEST_MPI
#include "headmix/distributed/mpi.hpp"
#endif

namespace on_ranks {

/// A communicator of either kind.
class AnyRanks {
 public:
  template <class C>
  explicit AnyRanks(C& ranks) : ranks_(&ranks) {}

  [[nodiscard]] Index rank() const {
    return std::visit([](auto* c) { return c->rank(); }, ranks_);
  }
  [[nodiscard]] Index size() const {
    return std::visit([](auto* c) { return c->size(); }, ranks_);
  }
  template <class T>
  void all_sum(T* to, T const* from, Index n) {
    std::visit([&](auto* c) { c->all_sum(to, from, n); }, ranks_);
  }
  template <class T>
  void all_gather(T* to, T const* from, std::span<Index const> counts) {
    std::visit([&](auto* c) { c->all_gather(to, from, counts); }, ranks_);
  }
  template <class T>
  void reduce_scatter(T* to, T const* from, std::span<Index const> counts) {
    std::visit([&](auto* c) { c->reduce_scatter(to, from, counts); }, ranks_);
  }
  template <class T>
  void all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent) {
    std::visit([&](auto* c) { c->all_to_all(to, received, from, sent); }, ranks_);
  }
  template <class T>
  void broadcast(T* data, Index n, Index root) {
    std::visit([&](auto* c) { c->broadcast(data, n, root); }, ranks_);
  }
  void barrier() {
    std::visit([](auto* c) { c->barrier(); }, ranks_);
  }
  template <class T>
  Index begin_all_sum(T* to, T const* from, Index n) {
    return std::visit([&](auto* c) { return c->begin_all_sum(to, from, n); }, ranks_);
  }
  template <class T>
  Index begin_all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent) {
    return std::visit([&](auto* c) { return c->begin_all_to_all(to, received, from, sent); }, ranks_);
  }
  void complete(Index number) {
    std::visit([&](auto* c) { c->complete(number); }, ranks_);
  }
  void advance() {
    std::visit([](auto* c) { c->advance(); }, ranks_);
  }
  void abandon() {
    std::visit([](auto* c) { c->abandon(); }, ranks_);
  }

 private:
#ifdef HEADMIX_TEST_MPI
  std::variant<Local*, Mpi*> ranks_;
#else
  std::variant<Local*> ranks_;
#endif
};
static_assert(Overlaps<AnyRanks>);

/// Layer Many on all ranks, with these numbers of rows, against One. One thread at a time makes assertions.
template <class One, class Many, class... Sizes>
void check_here(AnyRanks ranks, std::mutex& mutex, std::vector<Index> const& rows, Index length, given_rows where,
                Sizes... sizes) {
  using Backend = Distributed<Cpu<double>, AnyRanks>;
  Module<Many, Backend> m(7, Backend(ranks), sizes...), other(7, Backend(ranks), sizes...);
  Pass const first = run<Many>(m, ranks, rows, length, where);
  Pass const again = run<Many>(other, ranks, rows, length, where);
  std::lock_guard const lock(mutex);
  compare(in_one_process<One>(rows, length, sizes...), first, 1e-12);
  CHECK(first.y == again.y);  // equal bits
  CHECK(first.d_x == again.d_x);
  CHECK(first.gradients == again.gradients);
}

#ifdef HEADMIX_TEST_MPI
/// The MPI ranks of this program, if any.
inline Mpi* program_ranks = nullptr;
#endif
/// The check on threads, or on the MPI ranks of the program if their number matches.
template <class One, class Many, class... Sizes>
void check(std::vector<Index> const& rows, Index length, given_rows where, Sizes... sizes) {
  std::mutex mutex;
#ifdef HEADMIX_TEST_MPI
  if (program_ranks != nullptr) {
    if (static_cast<Index>(rows.size()) != program_ranks->size()) return;
    return check_here<One, Many>(AnyRanks(*program_ranks), mutex, rows, length, where, sizes...);
  }
#endif
  run_ranks(static_cast<Index>(rows.size()),
            [&](Local& ranks) { check_here<One, Many>(AnyRanks(ranks), mutex, rows, length, where, sizes...); });
}

}  // namespace on_ranks

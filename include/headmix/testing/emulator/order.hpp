#pragma once
// SPDX-License-Identifier: MIT
// Happens-before of threads with barriers for parts of the block: a vector clock for each thread (Mattern 1988, Fidge
// 1988), with a stamp for each thread that it may have synchronised with; and a second clock of the writes that a fence
// made visible to the asynchronous proxy, through which TMA and warpgroup MMAs access shared memory.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "headmix/testing/emulator/shadow.hpp"

namespace headmix::cuda_kernels::emulator {

/// The clocks of a block. Disabled: only barriers of the block and of warps order accesses, which `epochs` tracks.
class order {
 public:
  /// The clock that arrivals at a barrier pass to its waiters.
  struct clock {
    std::vector<stamp> known, fenced;
  };

  [[nodiscard]] bool on() const { return on_; }
  void turn_off() { on_ = false; }
  void begin_block(epochs const& e, int threads) {
    on_ = true;
    threads_ = threads;
    parties_ = index(threads + max_agents);
    known_.assign(index(threads) * parties_, e.barrier);
    fenced_.assign(index(threads) * parties_, 0);
    own_.assign(index(threads), e.barrier);
  }

  /// The stamp of the thread's accesses until its next release.
  [[nodiscard]] stamp own(int thread) const { return own_[index(thread)]; }
  /// True if the access of `other` at `when` happens before the thread's current access.
  [[nodiscard]] bool knows(int thread, party other, stamp when) const { return has(known_, thread, other, when); }
  /// True if the asynchronous proxy sees the write of `other` at `when`, when the thread uses it.
  [[nodiscard]] bool is_fenced(int thread, party other, stamp when) const { return has(fenced_, thread, other, when); }
  /// True if the thread has synchronised with any lane of the warp since then: for an instruction of the whole warp.
  [[nodiscard]] bool knows_warp(int thread, int warp, stamp when) const {
    auto const first = known_.begin() + static_cast<std::ptrdiff_t>(index(thread) * parties_ + index(32 * warp));
    return std::any_of(first, first + 32, [when](stamp s) { return when < s; });
  }

  void release(int thread, epochs& e, clock& into) {
    advance(thread, e);
    join(into.known, row(known_, thread));
    join(into.fenced, row(fenced_, thread));
  }
  void acquire(int thread, clock const& from) {
    join(row(known_, thread), from.known);
    join(row(fenced_, thread), from.fenced);
  }
  void add_agent(clock& into, party agent, stamp when) const {
    into.known.resize(parties_);
    into.known[place(agent)] = when + 1;
  }
  void fence(int thread, epochs& e) {
    advance(thread, e);
    join(row(fenced_, thread), row(known_, thread));
  }
  /// A barrier of the threads first ... end - 1, all of which have arrived.
  void barrier(int first, int end, stamp now) {
    if (!on_) return;
    clock all;
    for (int t = first; t < end; ++t) {
      own_[index(t)] = known_[index(t) * parties_ + index(t)] = now;
      join(all.known, row(known_, t));
      join(all.fenced, row(fenced_, t));
    }
    for (int t = first; t < end; ++t) acquire(t, all);
  }

 private:
  struct range {
    stamp* begin_;
    std::size_t size_;
    [[nodiscard]] stamp* begin() const { return begin_; }
    [[nodiscard]] stamp* end() const { return begin_ + size_; }
    [[nodiscard]] std::size_t size() const { return size_; }
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::size_t place(party who) const {
    return who < first_agent ? who : index(threads_) + who - first_agent;
  }
  [[nodiscard]] range row(std::vector<stamp>& of, int thread) const {
    return {of.data() + index(thread) * parties_, parties_};
  }
  [[nodiscard]] bool has(std::vector<stamp> const& of, int thread, party other, stamp when) const {
    if (other >= several_warps) return false;
    stamp const* const mine = of.data() + index(thread) * parties_;
    if (other < lanes_of_warp) return when < mine[place(other)];
    stamp const* const lanes = mine + 32 * (other - lanes_of_warp);
    return std::all_of(lanes, lanes + 32, [when](stamp s) { return when < s; });
  }
  void advance(int thread, epochs& e) {
    own_[index(thread)] = known_[index(thread) * parties_ + index(thread)] = ++e.now;
  }
  template <class From>
  static void join(std::vector<stamp>& to, From const& from) {
    if (to.size() < from.size()) to.resize(from.size());
    std::size_t i = 0;
    for (stamp const s : from) to[i] = (std::max)(to[i], s), ++i;
  }
  static void join(range to, std::vector<stamp> const& from) {
    for (std::size_t i = 0; i < from.size(); ++i) to.begin_[i] = (std::max)(to.begin_[i], from[i]);
  }
  static void join(range to, range from) {
    for (std::size_t i = 0; i < from.size_; ++i) to.begin_[i] = (std::max)(to.begin_[i], from.begin_[i]);
  }

  bool on_ = false;
  int threads_ = 0;
  std::size_t parties_ = 0;
  std::vector<stamp> known_, fenced_, own_;  // known_ and fenced_ have a row for each thread
};

}  // namespace headmix::cuda_kernels::emulator

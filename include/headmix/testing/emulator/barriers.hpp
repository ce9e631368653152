#pragma once
// SPDX-License-Identifier: MIT
// Emulated barriers for parts of a block: named barriers, and those in shared memory (mbarrier), at which copies arrive
// too. Errors: surplus arrivals, uninitialised barriers, and differing numbers of threads. A wait with the wrong parity
// continues too early, or never.

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headmix/testing/emulator/machine.hpp"

namespace headmix::cuda_kernels::emulator {

class barriers {
 public:
  explicit barriers(machine& m) : m_(m) {}

  void begin_block() {
    shared_.clear();
    named_.assign(index(of_block * m_.running_.kernel.cluster), {});
  }
  void end_block() const {
    for (std::size_t i = 0; i < named_.size(); ++i) {
      if (named_[i].threads == 0) continue;
      m_.running_.report(named_[i].arrived.front(), "comes to the named barrier ", i % index(of_block), " for ",
                         named_[i].threads, " threads, of whom ", named_[i].arrived.size(),
                         " have come when the block ends");
    }
  }

  // ---- named ----

  void sync_named(int thread, int number, int threads) {
    if (arrive_at_named(thread, number, threads, "sync_named")) return;
    named_barrier& b = named(thread, number);
    b.waiting.push_back(thread);
    m_.scheduler_.wait_for_wake(thread, message("sync_named(", number, ")"));
  }
  void arrive_named(int thread, int number, int threads) { arrive_at_named(thread, number, threads, "arrive_named"); }

  // ---- in shared memory ----

  void mbarrier_init(int thread, Index at, int arrivals) {
    m_.require_cooperative(thread, "mbarrier_init");
    if (arrivals < 1 || arrivals > max_arrivals) {
      m_.running_.report(thread, "makes a barrier of ", arrivals, " arrivals, expected 1 to ", max_arrivals);
    }
    if (shared_.contains(at)) m_.running_.report(thread, "makes the barrier at byte ", at, " once more");
    if (shared_.size() == index(max_agents)) m_.running_.report(thread, "makes more than ", max_agents, " barriers");
    m_.check_shared(thread, at, 8, 8, true);
    m_.record_shared(thread, thread, at, 8, true);
    barrier b;
    b.agent = static_cast<party>(first_agent + shared_.size());
    b.arrivals = b.missing = arrivals;
    shared_[at] = b;
  }
  void arrive(int thread, Index at, int bytes) {
    barrier& b = barrier_at(thread, at, "arrives at");
    if (b.missing == 0) {
      m_.running_.report(thread, "arrives at the barrier at byte ", at, ", where all ", b.arrivals,
                         " of this phase have come");
    }
    expect(thread, at, b, bytes);
    m_.order_.release(thread, m_.epochs_, b.now);
    --b.missing;
    complete(b);
  }
  void mbarrier_wait(int thread, Index at, int parity) {
    if (parity != 0 && parity != 1) m_.running_.report(thread, "waits for parity ", parity, ", expected 0 or 1");
    while (true) {
      barrier& b = barrier_at(thread, at, "waits at");
      if (b.phase % 2 != static_cast<unsigned>(parity)) {
        m_.order_.acquire(thread, b.before);
        return;
      }
      b.waiting.push_back(thread);
      m_.scheduler_.wait_for_wake(thread, message("the barrier at byte ", at, " for parity ", parity));
    }
  }

  // ---- copies that arrive ----

  /// A thread issues a copy for a barrier, whose initialisation must be visible to the copy.
  void begin_copy(int thread, Index at) {
    barrier_at(thread, at, "copies a tile for");
    shadow_state const made = m_.shared_shadow_.words()[at / 4];
    if (m_.order_.is_fenced(thread, made.writer, made.written)) return;
    m_.running_.report(thread, "copies a tile for the barrier at byte ", at, ", which thread ", int{made.writer},
                       " has made, with no fence_proxy_async between");
  }
  /// The party that writes the copies of a barrier.
  [[nodiscard]] party agent_of(Index at) const { return shared_.at(at).agent; }
  void end_copy(Index at, Index bytes, stamp when) {
    barrier& b = shared_.at(at);
    m_.order_.add_agent(b.now, b.agent, when);
    b.bytes -= bytes;
    complete(b);
  }

  // ---- for the machine ----

  void check_access(int thread, Index offset, int bytes, bool write) const {
    auto const next = shared_.upper_bound(offset + bytes - 1);
    if (next != shared_.begin() && std::prev(next)->first + 8 > offset) {
      m_.running_.report(thread, m_.text_of(write), "byte ", std::prev(next)->first,
                         " of shared memory, where a barrier is");
    }
  }
  [[nodiscard]] std::string explain() const {
    std::string all;
    for (auto const& [at, b] : shared_) {
      if (b.waiting.empty()) continue;
      all += message("; the barrier at byte ", at, ", phase ", b.phase, ", lacks ", b.missing, " of ", b.arrivals,
                     " arrivals and ", b.bytes, " bytes");
    }
    return all;
  }

 private:
  static constexpr int max_arrivals = (1 << 20) - 1;
  static constexpr int of_block = 16;  // named barriers of a block

  struct named_barrier {
    int threads = 0;  // number of awaited threads; 0: none has arrived
    std::vector<int> arrived, waiting;
    order::clock clock;
  };
  struct barrier {
    party agent = 0;
    int arrivals = 0, missing = 0;
    long bytes = 0;  // expected bytes that have not arrived
    unsigned phase = 0;
    order::clock now, before;  // of this phase and of the previous one
    std::vector<int> waiting;
  };

  static std::size_t index(Index i) { return static_cast<std::size_t>(i); }
  named_barrier& named(int thread, int number) {
    return named_[index(m_.running_.rank_of(thread) * of_block + number)];
  }

  /// Counts an arrival; true if all threads have arrived.
  bool arrive_at_named(int thread, int number, int threads, char const* what) {
    m_.require_cooperative(thread, what);
    // Barrier 0 is for the whole block.
    if (number < 0 || number >= of_block || (number == 0 && threads != m_.running_.block_threads())) {
      m_.running_.report(thread, "calls ", what, "(", number, "), expected 1 to ", of_block - 1);
    }
    if (threads < 32 || threads % 32 != 0 || threads > m_.running_.block_threads()) {
      m_.running_.report(thread, "calls ", what, "(", number, ") for ", threads, " threads of ",
                         m_.running_.block_threads());
    }
    named_barrier& b = named(thread, number);
    if (b.threads != 0 && b.threads != threads) {
      m_.running_.report(thread, "calls ", what, "(", number, ") for ", threads, " threads, thread ", b.arrived.front(),
                         " for ", b.threads);
    }
    if (std::find(b.arrived.begin(), b.arrived.end(), thread) != b.arrived.end()) {
      m_.running_.report(thread, "comes to the named barrier ", number, " twice, before others have come once");
    }
    b.threads = threads;
    b.arrived.push_back(thread);
    m_.order_.release(thread, m_.epochs_, b.clock);
    if (static_cast<int>(b.arrived.size()) < threads) return false;
    named_barrier const all = std::exchange(b, {});
    m_.order_.acquire(thread, all.clock);
    for (int const other : all.waiting) {
      m_.order_.acquire(other, all.clock);
      m_.scheduler_.wake_up(other);
    }
    return true;
  }

  barrier& barrier_at(int thread, Index at, char const* does) {
    m_.require_cooperative(thread, "barriers in shared memory");
    auto const found = shared_.find(at);
    if (found == shared_.end()) {
      m_.running_.report(thread, does, " byte ", at, " of shared memory, where nobody has made a barrier");
    }
    m_.record_shared(thread, thread, at, 8, false);
    return found->second;
  }
  void expect(int thread, Index at, barrier& b, int bytes) {
    b.bytes += bytes;
    if (bytes < 0 || b.bytes > max_arrivals) {
      m_.running_.report(thread, "expects ", b.bytes, " bytes at the barrier at byte ", at, ", expected at most ",
                         max_arrivals);
    }
  }
  void complete(barrier& b) {
    if (b.missing != 0 || b.bytes != 0) return;
    ++b.phase;
    b.missing = b.arrivals;
    b.before = std::exchange(b.now, {});
    for (int const thread : std::exchange(b.waiting, {})) m_.scheduler_.wake_up(thread);
  }

  machine& m_;
  std::map<Index, barrier> shared_;
  std::vector<named_barrier> named_;  // of each block of a cluster
};

}  // namespace headmix::cuda_kernels::emulator

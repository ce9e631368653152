#pragma once
// SPDX-License-Identifier: MIT
// Ranks that are threads of one process, for tests and experiments.
//
//   run_ranks(4, [](Local& ranks) { ... ranks.all_sum(x, x, n); ... });

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "headmix/backend/threads.hpp"
#include "headmix/distributed/collectives.hpp"

namespace headmix {

namespace detail {

/// The shared state of the ranks of one process.
class local_group {
 public:
  explicit local_group(Index size) : size_(size) {
    if (size < 1 || size > max_threads) fail("run_ranks: expected 1 to ", max_threads, " ranks, found ", size);
    // Enough for the operations in flight of most programs; more are made when a rank runs ahead.
    for (int i = 0; i < 32; ++i) rounds_.emplace_back().ranks.resize(static_cast<std::size_t>(size));
  }
  [[nodiscard]] Index size() const { return size_; }

  std::size_t begin(Index rank, std::uint64_t key, announcement const& what, std::span<bytes_of_rank const> sent,
                    std::span<bytes_of_rank const> received, std::size_t element) {
    std::unique_lock lock(mutex_);
    check(lock);
    std::size_t const number = round_of(key);
    rank_part& mine = rounds_[number].ranks[static_cast<std::size_t>(rank)];
    mine = {what, sent, received, element, false};
    ++rounds_[number].begun;
    moved_.notify_all();
    return number;
  }
  bool done(Index rank, std::size_t number) {
    std::unique_lock lock(mutex_);
    check(lock);
    round& r = rounds_[number];
    if (r.begun < size_) return false;
    auto const me = static_cast<std::size_t>(rank);
    if (!r.ranks[me].copied) {
      std::string wrong;
      ++copying_;
      lock.unlock();  // a round that all ranks have begun and not all have left is constant
      try {
        copy_parts(r, rank);
      } catch (Error const& e) {
        wrong = e.what();
      }
      lock.lock();
      --copying_;
      moved_.notify_all();
      if (!wrong.empty()) {
        set_failed(rank, wrong);
        wait_for_copies(lock);
        throw Error(wrong);
      }
      r.ranks[me].copied = true;
      ++r.copied;
      moved_.notify_all();
    }
    if (r.copied < size_) return false;
    if (++r.left == size_) r.key = no_key;
    return true;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    moved_.wait_for(lock, std::chrono::milliseconds(1));
  }
  /// Marks rank `rank` as failed. Returns whether it is the first.
  bool fail_all(Index rank, std::string const& text) {
    std::unique_lock lock(mutex_);
    set_failed(rank, text);
    wait_for_copies(lock);
    return failed_rank_ == rank;
  }
  bool failed() {
    std::lock_guard const lock(mutex_);
    return !failed_.empty();
  }

 private:
  static constexpr std::uint64_t no_key = ~std::uint64_t{0};
  struct rank_part {
    announcement what{};
    std::span<bytes_of_rank const> sent, received;
    std::size_t element = 1;
    bool copied = false;
  };
  struct round {
    std::uint64_t key = no_key;
    std::vector<rank_part> ranks;
    Index begun = 0, copied = 0, left = 0;
  };
  void check(std::unique_lock<std::mutex>& lock) {
    if (failed_.empty()) return;
    wait_for_copies(lock);
    fail(failed_);
  }
  void set_failed(Index rank, std::string const& text) {
    if (failed_.empty()) failed_ = failure_text(rank, text), failed_rank_ = rank;
    moved_.notify_all();
  }
  /// Called before a rank leaves with an error, since others may be reading its memory.
  void wait_for_copies(std::unique_lock<std::mutex>& lock) {
    moved_.wait(lock, [&] { return copying_ == 0; });
  }
  std::size_t round_of(std::uint64_t key) {
    std::size_t free = rounds_.size();
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      if (rounds_[i].key == key) return i;
      if (rounds_[i].key == no_key) free = i;
    }
    if (free == rounds_.size()) rounds_.emplace_back().ranks.resize(static_cast<std::size_t>(size_));
    round& r = rounds_[free];
    r.key = key, r.begun = r.copied = r.left = 0;
    return free;
  }
  void copy_parts(round const& r, Index rank) const {
    auto const me = static_cast<std::size_t>(rank);
    rank_part const& mine = r.ranks[me];
    for (std::size_t other = 0; other < r.ranks.size(); ++other) {
      if (other == me) continue;
      announcement theirs = r.ranks[other].what;
      bytes_of_rank const from = r.ranks[other].sent[me], to = mine.received[other];
      theirs.part = static_cast<Index>(from.bytes / r.ranks[other].element);
      check_announcement(mine.what, rank, theirs, static_cast<Index>(other),
                         static_cast<Index>(to.bytes / mine.element));
      if (to.bytes > 0) std::memcpy(to.data, from.data, to.bytes);
    }
  }

  Index size_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::deque<round> rounds_;
  std::string failed_;
  Index failed_rank_ = -1, copying_ = 0;
};

}  // namespace detail

/// The communicator of one of several threads that are ranks; see run_ranks().
class Local : public collectives<Local> {
 public:
  /// Rank `rank` of a group that outlives it.
  Local(detail::local_group& group, Index rank) : group_(&group), rank_(rank) {}
  Local(Local const&) = delete;
  Local& operator=(Local const&) = delete;

  /// See archetype::communicator.
  [[nodiscard]] Index rank() const { return rank_; }
  /// See archetype::communicator.
  [[nodiscard]] Index size() const { return group_->size(); }
  /// Marks this rank as failed: every further operation fails, on all ranks, with this text. No effect after another
  /// failure.
  void fail_all(std::string_view text) noexcept { group_->fail_all(rank_, std::string(text)); }

 private:
  friend collectives<Local>;
  template <class F>
  friend void run_ranks(Index ranks, F f);
  std::size_t begin(std::uint64_t key, detail::announcement const& what, std::span<detail::bytes_of_rank const> sent,
                    std::span<detail::bytes_of_rank const> received, std::size_t element) {
    return group_->begin(rank_, key, what, sent, received, element);
  }
  bool done(std::size_t number) { return group_->done(rank_, number); }
  void wait() { group_->wait(); }

  detail::local_group* group_;
  Index rank_;
};

static_assert(Overlaps<Local>, "headmix: Local does not overlap exchanges");

/// Calls f(Local&) on `ranks` threads, one for each rank. If f throws on one, all others fail in their next operation;
/// the exception is rethrown when all have ended. A rank that returns while others continue is such a failure, and so
/// is a thread that the system refuses: then f is called on none.
template <class F>
void run_ranks(Index ranks, F const f) {
  struct {
    F const& f;
    detail::local_group group;
    std::exception_ptr first;
    void run(Index rank) {
      Local mine(group, rank);
      try {
        f(mine);
        if (!group.failed()) mine.end();  // otherwise f has handled the failure
      } catch (...) {
        std::string text = "an exception";
        try {
          throw;
        } catch (std::exception const& e) {
          text = e.what();
        } catch (...) {
        }
        if (group.fail_all(rank, text)) first = std::current_exception();
      }
    }
  } program{f, detail::local_group(ranks), {}};
  {
    auto const threads = detail::waiting_threads("run_ranks", ranks, ranks);
    // Two words, for which a std::function allocates nothing: all threads begin.
    for (Index r = 0; r < ranks; ++r) threads[static_cast<std::size_t>(r)]->begin([&program, r] { program.run(r); });
  }  // joins all threads
  if (program.first) std::rethrow_exception(program.first);
}

}  // namespace headmix

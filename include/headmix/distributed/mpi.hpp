#pragma once
// SPDX-License-Identifier: MIT
// Ranks that are processes of MPI, any implementation of MPI 3. Needs headmix::mpi (cmake/headmixMpi.cmake).
//
//   int main(int argc, char** argv) {
//     return run_mpi(&argc, &argv, [&](Mpi& ranks) { ... ranks.all_sum(x, x, n); ... return 0; });
//   }
//
// A round is a message from every rank to every other rank, which announces the operation, with its elements if they
// are few, and a second message for many. All messages are on a communicator of its own.

#ifndef OMPI_SKIP_MPICXX
/// Omits Open MPI's C++ bindings of MPI 2, which need a library of their own.
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
/// Omits MPICH's C++ bindings of MPI 2.
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/distributed/collectives.hpp"
#include "headmix/distributed/sums.hpp"

namespace headmix {

class Mpi;

/// A program on all ranks: initialises MPI if necessary, calls f(Mpi&) on each rank and returns its result.
///
/// If f throws on one rank, that rank prints one line, "rank 1: " and the text, and all others fail in their next
/// operation. Every rank then returns 1, within 10 seconds; an unresponsive rank is ended by MPI_Abort. If several
/// ranks throw at the same time, the first of them prints. A rank that returns while others continue is such a failure:
/// errors of a single rank must be exceptions.
///
/// If f itself catches the error, and returns a nonzero value, nothing is printed and that value is returned.
template <class F>
int run_mpi(int* argc, char*** argv, F f, sums how = sums::ordered);

namespace detail {

/// The first message of a round, from one rank to another, followed by its elements if they are few.
struct mpi_header {
  std::uint64_t key;
  announcement what;
};
static_assert(std::is_trivially_copyable_v<mpi_header>, "headmix: the header of a message can be copied as bytes");

/// The notice that a rank has failed, and which rank is the cause.
struct mpi_notice {
  std::int32_t origin;
  std::int32_t length;
  std::array<char, 2040> text;
};
static_assert(std::is_trivially_copyable_v<mpi_notice>, "headmix: a notice can be copied as bytes");

/// The MPI datatype of T.
template <class T>
[[nodiscard]] MPI_Datatype mpi_type() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "headmix: Mpi sums float and double");
  if constexpr (std::is_same_v<T, float>) {
    return MPI_FLOAT;
  } else {
    return MPI_DOUBLE;
  }
}

/// Initialises MPI, unless it is initialised, and finalises it in end().
class mpi_session {
 public:
  mpi_session(int* argc, char*** argv) {
    int started = 0, level = 0;
    MPI_Initialized(&started);
    owner_ = started == 0;
    if (owner_) MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
  }
  /// After a failure the process ends even if MPI does not.
  void end(bool failed) const {
    if (!owner_) return;
    if (!failed) {
      MPI_Finalize();
      return;
    }
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
    std::thread guard;
    try {
      guard = std::thread([&] {
        std::unique_lock lock(mutex);
        if (!changed.wait_for(lock, std::chrono::seconds(3), [&] { return ended; })) std::_Exit(1);
      });
    } catch (std::system_error const&) {
      std::fflush(nullptr);
      std::_Exit(1);  // rather than wait for ever
    }
    MPI_Finalize();
    {
      std::lock_guard const lock(mutex);
      ended = true;
    }
    changed.notify_all();
    guard.join();
  }

 private:
  bool owner_ = false;
};

}  // namespace detail

/// A rank of an MPI communicator; see archetype::communicator and run_mpi().
///
/// It is used by one thread, the one that may call MPI (MPI_THREAD_FUNNELED). If an operation fails on one rank, or a
/// rank calls fail_all(), every operation of every rank throws an Error that names that rank and its reason; before it
/// throws, a rank waits, for a second at most, until no other rank reads its memory. Memory of asynchronous sums must
/// outlive that wait: see abandon().
class Mpi : public collectives<Mpi> {
 public:
  /// The ranks of a communicator, which is duplicated: all its ranks call this together. With sums::by_engine MPI
  /// computes the float and double sums of all_sum() and reduce_scatter(), not those of begin_all_sum().
  explicit Mpi(MPI_Comm ranks, sums how = sums::ordered) : how_(how) {
    int started = 0;
    MPI_Initialized(&started);
    if (started == 0) fail("MPI has not been started; see run_mpi");
    int rank = 0, size = 0;
    if (MPI_Comm_dup(ranks, &ranks_) != MPI_SUCCESS) fail("MPI cannot copy a communicator");
    MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(ranks_, &rank);
    MPI_Comm_size(ranks_, &size);
    rank_ = rank, size_ = size, unheard_ = size - 1, first_failed_ = size;
    heard_.resize(static_cast<std::size_t>(size));
    told_.resize(static_cast<std::size_t>(size), MPI_REQUEST_NULL);
    no_parts_.resize(static_cast<std::size_t>(size));
    listen();
  }
  Mpi(Mpi const&) = delete;
  Mpi& operator=(Mpi const&) = delete;
  ~Mpi() {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended != 0) return;
    bool unfinished = failed_;
    for (round& r : rounds_) {
      if (r.open) cancel(r), unfinished = true;
    }
    if (notice_ != MPI_REQUEST_NULL) {
      MPI_Cancel(&notice_);
      MPI_Wait(&notice_, MPI_STATUS_IGNORE);
    }
    // Messages may still be in transit on it.
    if (!unfinished) MPI_Comm_free(&ranks_);
  }

  /// See archetype::communicator.
  [[nodiscard]] Index rank() const { return rank_; }
  /// See archetype::communicator.
  [[nodiscard]] Index size() const { return size_; }

  /// See archetype::communicator. With sums::by_engine MPI's own sum, which promises no order.
  template <class T>
  void all_sum(T* to, T const* from, Index n) {
    if constexpr (std::is_floating_point_v<T>) {
      if (how_ == sums::by_engine) return all_sum_by_engine(to, from, n);
    }
    collectives::all_sum(to, from, n);
  }
  /// See archetype::communicator. With sums::by_engine MPI's own sum, which promises no order.
  template <class T>
  void reduce_scatter(T* to, T const* from, std::span<Index const> counts) {
    if constexpr (std::is_floating_point_v<T>) {
      if (how_ == sums::by_engine && reduce_scatter_by_engine(to, from, counts)) return;
    }
    collectives::reduce_scatter(to, from, counts);
  }

  /// Marks this rank as failed: every further operation fails, on all ranks, with this text. No effect after another
  /// failure.
  void fail_all(std::string_view text) noexcept { stop(rank_, text); }
  /// True if this or another rank has failed, as far as this rank knows.
  [[nodiscard]] bool failed() const { return failed_; }
  /// True if this rank is the one to report the reason: it failed by itself, before any other rank.
  [[nodiscard]] bool names_failure() const { return failed_ && first_failed_ == rank_; }

  /// A callback that is polled while this rank waits for others; if it returns true, the operation fails. None by
  /// default.
  void set_interrupt(std::function<bool()> asked) { interrupt_ = std::move(asked); }
  /// An operation that receives nothing for this many seconds fails and names the missing ranks. 0 is no limit, the
  /// default.
  void set_timeout(double seconds) {
    if (!(seconds >= 0)) fail("a timeout must not be negative; found ", seconds);
    timeout_ = std::chrono::duration<double>(seconds);
  }

 private:
  friend collectives<Mpi>;
  template <class F>
  friend int run_mpi(int* argc, char*** argv, F f, sums how);
  using clock = std::chrono::steady_clock;
  using part = detail::bytes_of_rank;
  using kind = detail::collective_kind;

  /// The largest number of bytes in the same message as a header.
  static constexpr std::size_t few_bytes = 4096, slot = sizeof(detail::mpi_header) + few_bytes;
  /// The largest size of one message, which is an int, and of one sum by MPI.
  static constexpr std::size_t many = std::size_t{1} << 30;
  /// Every MPI has tags below 2^15. Messages with the same tag arrive in order, so rounds may share a tag if they begin
  /// in the same order on all ranks, as operations thousands apart do.
  static constexpr std::uint64_t tags = 8192;
  static constexpr int data_tag = 8192, notice_tag = 16384;

  enum class use : std::uint8_t { header, payload, sent };
  struct request_for {
    int rank;
    use what;
  };
  struct round {
    bool open = false, has_data = true;
    std::uint64_t key = 0;
    detail::announcement what{};
    std::span<part const> sent, received;
    std::size_t element = 1, incomplete = 0;
    std::vector<MPI_Request> requests;
    std::vector<request_for> of;  ///< purposes of the requests
    std::vector<std::byte> in, out;
  };

  std::size_t begin(std::uint64_t key, detail::announcement const& what, std::span<part const> sent,
                    std::span<part const> received, std::size_t element) {
    return begin_round(key, what, sent, received, element, true);
  }
  /// Without data, ranks exchange only announcements and numbers of elements.
  std::size_t begin_round(std::uint64_t key, detail::announcement const& what, std::span<part const> sent,
                          std::span<part const> received, std::size_t element, bool has_data) {
    check();
    std::size_t number = 0;
    while (number < rounds_.size() && rounds_[number].open) ++number;
    if (number == rounds_.size()) rounds_.emplace_back();
    round& r = rounds_[number];
    r.open = true, r.has_data = has_data;
    r.key = key, r.what = what, r.sent = sent, r.received = received, r.element = element;
    r.incomplete = 0;
    r.requests.clear();
    r.of.clear();
    r.in.resize(static_cast<std::size_t>(size_) * slot);
    r.out.resize(static_cast<std::size_t>(size_) * slot);
    auto const tag = static_cast<int>(key % tags);
    auto const from_next = [&](auto const& f) {  // different first peers on each rank
      for (Index i = 1; i < size_; ++i) f(static_cast<int>((rank_ + i) % size_));
    };
    from_next([&](int other) {
      MPI_Request& request = add(r, other, use::header);
      call(MPI_Irecv(slot_of(r.in, other), static_cast<int>(slot), MPI_BYTE, other, tag, ranks_, &request));
    });
    from_next([&](int other) {
      part const data = sent[static_cast<std::size_t>(other)];
      detail::mpi_header header{key, what};
      header.what.part = static_cast<Index>(data.bytes / element);
      std::byte* const to = slot_of(r.out, other);
      std::memcpy(to, &header, sizeof header);
      bool const few = data.bytes <= few_bytes;
      std::size_t const behind = has_data && few ? data.bytes : 0;
      if (behind > 0) std::memcpy(to + sizeof header, data.data, behind);
      MPI_Request& request = add(r, other, use::sent);
      call(MPI_Isend(to, static_cast<int>(sizeof header + behind), MPI_BYTE, other, tag, ranks_, &request));
      if (!has_data || few) return;
      for (std::size_t first = 0; first < data.bytes; first += many) {
        auto const bytes = static_cast<int>(std::min(many, data.bytes - first));
        MPI_Request& more = add(r, other, use::sent);
        call(MPI_Isend(data.data + first, bytes, MPI_BYTE, other, data_tag + tag, ranks_, &more));
      }
    });
    moved();
    return number;
  }
  bool done(std::size_t number) {
    check();
    round& r = rounds_[number];
    while (r.incomplete > 0) {
      std::size_t const requests = r.requests.size();
      indices_.resize(std::max(indices_.size(), requests));
      statuses_.resize(indices_.size());
      int count = 0;
      int const code =
          MPI_Testsome(static_cast<int>(requests), r.requests.data(), &count, indices_.data(), statuses_.data());
      if (code == MPI_ERR_IN_STATUS) {
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) call(statuses_[i].MPI_ERROR);
      }
      call(code);
      if (count == 0 || count == MPI_UNDEFINED) break;
      moved();
      r.incomplete -= static_cast<std::size_t>(count);
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        request_for const of = r.of[static_cast<std::size_t>(indices_[i])];
        if (of.what == use::header) take(r, of.rank);
      }
    }
    if (r.incomplete > 0) {
      hear();
      return false;
    }
    r.open = false;
    return true;
  }
  void wait() {
    hear();
    if (interrupt_ && interrupt_()) fail_here(message("interrupted while waiting for ", awaited()));
    if (timeout_.count() > 0) {
      // Computation of this rank between two calls does not count as waiting.
      auto const now = clock::now();
      waited_ += std::min<std::chrono::duration<double>>(now - last_wait_, std::chrono::milliseconds(100));
      last_wait_ = now;
      if (waited_ > timeout_) {
        std::string seconds = std::to_string(timeout_.count());
        seconds.erase(seconds.find_last_not_of('0') + 1);
        if (!('0' <= seconds.back() && seconds.back() <= '9')) seconds.pop_back();
        fail_here(message("no answer within ", seconds, " s from ", awaited()));
      }
    }
    // Ranks may share a core.
    if (++idle_ < 2000) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  static std::byte* slot_of(std::vector<std::byte>& slots, int rank) {
    return slots.data() + static_cast<std::size_t>(rank) * slot;
  }
  /// Counted at once, since a failure ends all.
  static MPI_Request& add(round& r, int rank, use what) {
    r.of.push_back({rank, what});
    ++r.incomplete;
    return r.requests.emplace_back(MPI_REQUEST_NULL);
  }
  void moved() {
    idle_ = 0;
    waited_ = {};
    if (timeout_.count() > 0) last_wait_ = clock::now();
  }
  /// Handles an arrived header.
  void take(round& r, int other) {
    detail::mpi_header header;
    std::byte const* const from = slot_of(r.in, other);
    std::memcpy(&header, from, sizeof header);
    part const data = r.received[static_cast<std::size_t>(other)];
    try {
      if (header.key != r.key) fail("rank ", rank_, " and rank ", other, " disagree: one has left out an operation");
      detail::check_announcement(r.what, rank_, header.what, other, static_cast<Index>(data.bytes / r.element));
    } catch (Error const& e) {
      fail_here(e.what());
    }
    if (!r.has_data || data.bytes == 0) return;
    if (data.bytes <= few_bytes) {
      std::memcpy(data.data, from + sizeof header, data.bytes);
      return;
    }
    hear();  // nothing more is read of a failed rank
    auto const tag = data_tag + static_cast<int>(r.key % tags);
    for (std::size_t first = 0; first < data.bytes; first += many) {
      auto const bytes = static_cast<int>(std::min(many, data.bytes - first));
      MPI_Request& request = add(r, other, use::payload);
      call(MPI_Irecv(data.data + first, bytes, MPI_BYTE, other, tag, ranks_, &request));
    }
  }

  /// The awaited operation, with the ranks that have not reached it, or otherwise those that are not done.
  [[nodiscard]] std::string awaited() const {
    if (by_engine_ != nullptr) return message("the other ranks in ", by_engine_);
    round const* first = nullptr;
    for (round const& r : rounds_) {
      if (r.open && r.incomplete > 0 && (first == nullptr || r.key < first->key)) first = &r;
    }
    if (first == nullptr) return "other ranks";
    std::vector<Index> missing;
    for (bool const header : {true, false}) {
      for (std::size_t i = 0; i < first->requests.size(); ++i) {
        if (first->requests[i] == MPI_REQUEST_NULL || (header && first->of[i].what != use::header)) continue;
        missing.push_back(first->of[i].rank);
      }
      if (!missing.empty()) break;
    }
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    std::string text = missing.size() == 1 ? "rank" : "ranks";
    for (std::size_t i = 0; i < missing.size(); ++i) {
      if (i == 8) {
        text += message(" and ", missing.size() - i, " more");
        break;
      }
      text += message(i == 0 ? " " : ", ", missing[i]);
    }
    return message(text, " in ", detail::name_of(first->what.kind));
  }

  // ---- failures

  void call(int code) {
    if (code == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    fail_here(message("MPI: ", std::string(text.data(), static_cast<std::size_t>(length))));
  }
  [[noreturn]] void fail_here(std::string const& text) {
    stop(rank_, text.starts_with("headmix: ") ? text : message("headmix: ", text));
    throw Error(error_);
  }
  void check() const {
    if (failed_) throw Error(error_);
  }
  /// Throws if another rank has failed.
  void hear() {
    hear_notices();
    check();
  }
  void listen() noexcept {
    if (unheard_ == 0) return;
    MPI_Irecv(&heard_notice_, static_cast<int>(sizeof heard_notice_), MPI_BYTE, MPI_ANY_SOURCE, notice_tag, ranks_,
              &notice_);
  }
  void hear_notices() noexcept {
    while (notice_ != MPI_REQUEST_NULL) {
      int come = 0;
      MPI_Status status;
      if (MPI_Test(&notice_, &come, &status) != MPI_SUCCESS || come == 0) return;
      detail::mpi_notice const notice = heard_notice_;
      auto& heard = heard_[static_cast<std::size_t>(status.MPI_SOURCE)];
      if (heard == 0) --unheard_;
      heard = 1;
      listen();
      if (notice.origin == status.MPI_SOURCE) first_failed_ = std::min<Index>(first_failed_, notice.origin);
      stop(notice.origin, {notice.text.data(), static_cast<std::size_t>(notice.length)});
    }
  }
  /// Notifies all other ranks, cancels operations in flight, and lets the others do so. The cause is rank `origin`.
  void stop(Index origin, std::string_view text) noexcept {
    if (failed_) return;
    failed_ = true;
    if (origin == rank_) first_failed_ = std::min(first_failed_, rank_);
    error_ = message("headmix: ", detail::failure_text(origin, text));
    if (origin == rank_ && text.starts_with("headmix: ")) error_ = text;
    notice_out_.origin = static_cast<std::int32_t>(origin);
    std::size_t const length = std::min(text.size(), notice_out_.text.size());
    notice_out_.length = static_cast<std::int32_t>(length);
    std::copy_n(text.begin(), length, notice_out_.text.begin());
    for (Index other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      MPI_Isend(&notice_out_, static_cast<int>(sizeof notice_out_), MPI_BYTE, static_cast<int>(other), notice_tag,
                ranks_, &told_[static_cast<std::size_t>(other)]);
    }
    for (round& r : rounds_) {
      if (r.open) cancel(r);
    }
    wait_for_others(std::chrono::seconds(1));
  }
  /// Cancels the receives of a round.
  static void cancel(round& r) noexcept {
    for (std::size_t i = 0; i < r.requests.size(); ++i) {
      if (r.requests[i] != MPI_REQUEST_NULL && r.of[i].what != use::sent) MPI_Cancel(&r.requests[i]);
    }
  }
  /// True if a round has no receives in flight.
  static bool is_released(round& r) noexcept {
    bool released = true;
    for (std::size_t i = 0; i < r.requests.size(); ++i) {
      if (r.requests[i] == MPI_REQUEST_NULL || r.of[i].what == use::sent) continue;
      int ended = 0;
      if (MPI_Test(&r.requests[i], &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && ended == 0) released = false;
    }
    return released;
  }
  /// After a failure: waits until all other ranks know, and no transfer is in flight; returns whether that was reached.
  bool wait_for_others(clock::duration limit) noexcept {
    auto const end = clock::now() + limit;
    for (;;) {
      hear_notices();
      int told = 0;
      MPI_Testall(static_cast<int>(told_.size()), told_.data(), &told, MPI_STATUSES_IGNORE);
      bool released = told != 0 && unheard_ == 0;
      for (round& r : rounds_) {
        if (r.open && !is_released(r)) released = false;
      }
      if (released) return true;
      if (clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  // ---- sums by MPI

  /// Returns when all ranks have announced the same operation.
  void announce(detail::announcement const& what, std::span<part const> sent, std::span<part const> received,
                std::size_t element) {
    std::size_t const number = begin_round(next_key(), what, sent, received, element, false);
    while (!done(number)) {
      advance();
      wait();
    }
  }
  void wait_for(MPI_Request& request, char const* what) {
    by_engine_ = what;
    moved();
    for (;;) {
      int ended = 0;
      call(MPI_Test(&request, &ended, MPI_STATUS_IGNORE));
      if (ended != 0) break;
      advance();
      wait();
    }
    by_engine_ = nullptr;
    moved();
  }
  template <class T>
  void all_sum_by_engine(T* to, T const* from, Index n) {
    detail::checked_elements("all_sum", n, rank_);
    announce({kind::all_sum, detail::element_kind_of<T>(), n, 0, 0}, no_parts_, no_parts_, sizeof(T));
    for (Index first = 0; first < n; first += static_cast<Index>(many)) {
      auto const count = static_cast<int>(std::min(static_cast<Index>(many), n - first));
      MPI_Request request = MPI_REQUEST_NULL;
      call(MPI_Iallreduce(to == from ? MPI_IN_PLACE : from + first, to + first, count, detail::mpi_type<T>(), MPI_SUM,
                          ranks_, &request));
      wait_for(request, "all_sum");
    }
  }
  /// False if the number of elements exceeds MPI's int.
  template <class T>
  bool reduce_scatter_by_engine(T* to, T const* from, std::span<Index const> counts) {
    Index const n = checked_elements("reduce_scatter", counts);
    if (n > std::numeric_limits<int>::max()) return false;
    auto const me = static_cast<std::size_t>(rank_);
    sent_.resize(counts.size()), received_.resize(counts.size()), counts_.resize(counts.size());
    for (std::size_t r = 0; r < counts.size(); ++r) {
      bool const own = r == me;
      sent_[r] = {nullptr, own ? 0 : static_cast<std::size_t>(counts[r]) * sizeof(T)};
      received_[r] = {nullptr, own ? 0 : static_cast<std::size_t>(counts[me]) * sizeof(T)};
      counts_[r] = static_cast<int>(counts[r]);
    }
    announce({kind::reduce_scatter, detail::element_kind_of<T>(), n, 0, 0}, sent_, received_, sizeof(T));
    // MPI requires that the result does not overlap the operand.
    auto const bytes = static_cast<std::size_t>(counts[me]) * sizeof(T);
    if (sum_.bytes().size() < bytes) sum_ = AlignedBuffer(bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    call(MPI_Ireduce_scatter(from, sum_.bytes().data(), counts_.data(), detail::mpi_type<T>(), MPI_SUM, ranks_,
                             &request));
    wait_for(request, "reduce_scatter");
    if (bytes > 0) std::memcpy(to, sum_.bytes().data(), bytes);
    return true;
  }

  // ---- a program

  /// See run_mpi().
  template <class F>
  int run(F& f) {
    int status = 0;
    std::string text;
    try {
      status = f(*this);
      end();
      return status;
    } catch (std::exception const& e) {
      text = e.what();
    } catch (...) {
      text = "an exception of an unknown type";
    }
    fail_all(text);
    if (names_failure() && status == 0) complain(text);
    if (!wait_for_others(std::chrono::seconds(3))) {
      // The rank that reported the reason ends the others; if it is gone itself, another rank must.
      if (!names_failure() && !wait_for_others(std::chrono::seconds(2)) && status == 0) complain(text);
      if (unheard_ > 0) {
        int const end_with = status == 0 ? 1 : status;
        MPI_Abort(ranks_, end_with);
        std::_Exit(end_with);
      }
    }
    return status == 0 ? 1 : status;
  }
  /// Prints a message as one line, in one write.
  void complain(std::string_view text) const {
    constexpr std::string_view prefix = "headmix: ";
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
    std::string line = message("rank ", rank_, ": ", text);
    std::replace(line.begin(), line.end(), '\n', ' ');
    line += '\n';
    std::fflush(stdout);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  }

  MPI_Comm ranks_ = MPI_COMM_NULL;
  Index rank_ = 0, size_ = 1;
  sums how_;
  std::deque<round> rounds_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::function<bool()> interrupt_;
  std::chrono::duration<double> timeout_{}, waited_{};
  clock::time_point last_wait_{};
  int idle_ = 0;
  // State of failures.
  bool failed_ = false;
  std::string error_;
  Index first_failed_ = 1;  ///< the first rank that failed by itself, as far as this rank knows
  Index unheard_ = 0;       ///< number of ranks that have not sent their notice
  std::vector<char> heard_;
  std::vector<MPI_Request> told_;
  MPI_Request notice_ = MPI_REQUEST_NULL;
  detail::mpi_notice heard_notice_{}, notice_out_{};
  // State of sums by MPI.
  char const* by_engine_ = nullptr;
  std::vector<part> no_parts_, sent_, received_;
  std::vector<int> counts_;
  AlignedBuffer sum_;
};

static_assert(Overlaps<Mpi>, "headmix: Mpi does not overlap exchanges");

template <class F>
int run_mpi(int* argc, char*** argv, F f, sums how) {
  detail::mpi_session const session(argc, argv);
  int status = 0;
  bool failed = false;
  {
    Mpi ranks(MPI_COMM_WORLD, how);
    status = ranks.run(f);
    failed = ranks.failed();
  }
  session.end(failed);
  return status;
}

}  // namespace headmix

#pragma once
// SPDX-License-Identifier: MIT
// Ranks that are processes of MPI, any implementation of MPI 3. Needs headmix::mpi (cmake/headmixMpi.cmake).
//
//   int main(int argc, char** argv) {
//     return run_mpi(&argc, &argv, [&](Mpi& ranks) { ... ranks.all_sum(x, x, n); ... return 0; });
//   }
//
// A round is a message from every rank to every other one, which says what it takes part in, with its elements if they
// are few, and a second one for many. All of it on a communicator of its own.

#ifndef OMPI_SKIP_MPICXX
/// For the header of Open MPI: without the C++ bindings of MPI 2, which need a library of their own.
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
/// The same for that of MPICH.
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

/// A program on all ranks: starts MPI if nobody has, calls f(Mpi&) on each rank and returns what it returns.
///
/// When f throws on one rank, that rank prints one line, "rank 1: " and the text, and all the others fail in their next
/// operation. Every rank then returns 1, within 10 seconds; a rank that takes part in nothing any more is ended by
/// MPI_Abort. If several ranks throw at the same time, the first of them prints. A rank that returns while others go on
/// is such a failure, too: what one rank alone meets is an exception.
///
/// Where f itself has caught the error, and returns something else than 0, nothing is printed and that is returned.
template <class F>
int run_mpi(int* argc, char*** argv, F f, sums how = sums::ordered);

namespace detail {

/// The first message of a round, from one rank to another; few elements come behind it.
struct mpi_header {
  std::uint64_t key;
  announcement what;
};
static_assert(std::is_trivially_copyable_v<mpi_header>, "headmix: the header of a message can be copied as bytes");

/// That a rank takes part in nothing any more, and which rank is the reason.
struct mpi_notice {
  std::int32_t origin;
  std::int32_t length;
  std::array<char, 2040> text;
};
static_assert(std::is_trivially_copyable_v<mpi_notice>, "headmix: a notice can be copied as bytes");

/// What to give MPI as the type of T.
template <class T>
[[nodiscard]] MPI_Datatype mpi_type() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "headmix: Mpi sums float and double");
  if constexpr (std::is_same_v<T, float>) {
    return MPI_FLOAT;
  } else {
    return MPI_DOUBLE;
  }
}

/// MPI from here to end(), if nobody has started it.
class mpi_session {
 public:
  mpi_session(int* argc, char*** argv) {
    int started = 0, level = 0;
    MPI_Initialized(&started);
    owner_ = started == 0;
    if (owner_) MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
  }
  /// After a failure the process ends if MPI does not.
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

/// A process that is one of the ranks of an MPI communicator; see archetype::communicator and run_mpi().
///
/// It is used by one thread, the one that may call MPI (MPI_THREAD_FUNNELED). When an operation fails on one rank, or
/// a rank calls fail_all(), every operation of every rank throws an Error that names that rank and its reason; a rank
/// that throws has waited, for a second at most, until no other rank reads its memory. Memory of sums that go on must
/// not go before that: see abandon().
class Mpi : public collectives<Mpi> {
 public:
  /// The ranks of a communicator, which is copied: all its ranks do this together. With sums::by_engine MPI forms the
  /// sums of float and double in all_sum() and reduce_scatter(), not those of begin_all_sum().
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
    // Something may still come by it.
    if (!unfinished) MPI_Comm_free(&ranks_);
  }

  /// See archetype::communicator.
  [[nodiscard]] Index rank() const { return rank_; }
  /// See archetype::communicator.
  [[nodiscard]] Index size() const { return size_; }

  /// See archetype::communicator. With sums::by_engine the sum of MPI, which promises no order.
  template <class T>
  void all_sum(T* to, T const* from, Index n) {
    if constexpr (std::is_floating_point_v<T>) {
      if (how_ == sums::by_engine) return all_sum_by_engine(to, from, n);
    }
    collectives::all_sum(to, from, n);
  }
  /// See archetype::communicator. With sums::by_engine the sum of MPI, which promises no order.
  template <class T>
  void reduce_scatter(T* to, T const* from, std::span<Index const> counts) {
    if constexpr (std::is_floating_point_v<T>) {
      if (how_ == sums::by_engine && reduce_scatter_by_engine(to, from, counts)) return;
    }
    collectives::reduce_scatter(to, from, counts);
  }

  /// This rank takes part in nothing any more, and every operation fails from here on, on all ranks, with this text.
  /// Without effect after another failure.
  void fail_all(std::string_view text) noexcept { stop(rank_, text); }
  /// Whether this rank or another one has failed, as far as this one knows.
  [[nodiscard]] bool failed() const { return failed_; }
  /// Whether this rank is the one to name the reason: it has failed by itself, and no rank before it has.
  [[nodiscard]] bool names_failure() const { return failed_ && first_failed_ == rank_; }

  /// Asked again and again while this rank waits for others; when it says true, the operation fails. Nothing by
  /// default.
  void set_interrupt(std::function<bool()> asked) { interrupt_ = std::move(asked); }
  /// An operation that has waited for so many seconds, and nothing has come, fails and names the ranks that are
  /// missing. 0 is no limit, as by default.
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

  /// Behind a header there are at most so many bytes.
  static constexpr std::size_t few_bytes = 4096, slot = sizeof(detail::mpi_header) + few_bytes;
  /// Of one message, whose size is an int; and of one sum by MPI.
  static constexpr std::size_t many = std::size_t{1} << 30;
  /// Tags below 2^15 are there in every MPI. Messages with the same tag come in their order, so that rounds may share
  /// one if they begin in the same order on all ranks: those of operations that are thousands apart do.
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
    std::vector<request_for> of;  ///< what the requests are for
    std::vector<std::byte> in, out;
  };

  std::size_t begin(std::uint64_t key, detail::announcement const& what, std::span<part const> sent,
                    std::span<part const> received, std::size_t element) {
    return begin_round(key, what, sent, received, element, true);
  }
  /// Without data, ranks only say what they take part in, and how many elements go from one to another.
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
    auto const from_next = [&](auto const& f) {  // so that not all ranks begin with the same one
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
      // What this rank computes between two calls is no waiting.
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
  /// Counts at once, as what fails ends all.
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
  /// A header has come.
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
    hear();  // of a rank that has failed nothing more is read
    auto const tag = data_tag + static_cast<int>(r.key % tags);
    for (std::size_t first = 0; first < data.bytes; first += many) {
      auto const bytes = static_cast<int>(std::min(many, data.bytes - first));
      MPI_Request& request = add(r, other, use::payload);
      call(MPI_Irecv(data.data + first, bytes, MPI_BYTE, other, tag, ranks_, &request));
    }
  }

  /// The operation that is waited for, with the ranks that have not come to it, or else those that are not done.
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
  /// Fails if another rank has.
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
  /// Tells all other ranks, gives up what has begun, and lets the others do so. The reason is rank `origin`.
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
  /// What would be received.
  static void cancel(round& r) noexcept {
    for (std::size_t i = 0; i < r.requests.size(); ++i) {
      if (r.requests[i] != MPI_REQUEST_NULL && r.of[i].what != use::sent) MPI_Cancel(&r.requests[i]);
    }
  }
  /// Whether nothing is received any more.
  static bool is_released(round& r) noexcept {
    bool released = true;
    for (std::size_t i = 0; i < r.requests.size(); ++i) {
      if (r.requests[i] == MPI_REQUEST_NULL || r.of[i].what == use::sent) continue;
      int ended = 0;
      if (MPI_Test(&r.requests[i], &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && ended == 0) released = false;
    }
    return released;
  }
  /// Of a failure: waits until all other ranks know, and none sends or receives; whether that is so.
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

  /// Returns when all ranks have announced the same.
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
  /// False if there are more elements than MPI has numbers for.
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
    // For MPI the result must not overlap the operand.
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
      // The one that has said why ends the others; if it is gone itself, somebody has to.
      if (!names_failure() && !wait_for_others(std::chrono::seconds(2)) && status == 0) complain(text);
      if (unheard_ > 0) {
        int const end_with = status == 0 ? 1 : status;
        MPI_Abort(ranks_, end_with);
        std::_Exit(end_with);
      }
    }
    return status == 0 ? 1 : status;
  }
  /// In one line, in one piece.
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
  // Failures.
  bool failed_ = false;
  std::string error_;
  Index first_failed_ = 1;  ///< the first rank that has failed by itself, as far as this one knows
  Index unheard_ = 0;       ///< how many ranks have not said that they take part in nothing any more
  std::vector<char> heard_;
  std::vector<MPI_Request> told_;
  MPI_Request notice_ = MPI_REQUEST_NULL;
  detail::mpi_notice heard_notice_{}, notice_out_{};
  // Sums by MPI.
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

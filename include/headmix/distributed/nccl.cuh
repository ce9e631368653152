#pragma once
// SPDX-License-Identifier: MIT
// Ranks with one GPU each, by NCCL. For nvcc; in CMake headmix::nccl, by hand -lnccl.
//
//   Cuda<float, Sm80> backend;                  // on the current device, another one for each rank
//   Nccl ranks(host, backend.queue());          // host: any Communicator between the same ranks, Mpi say
//   ranks.all_sum(x, x, n);                     // x: memory of the GPU; goes to the backend's stream, as kernels do
//   Distributed distributed(ranks, backend);    // for modules: copies of a backend share its stream
//
// Every operation goes to one stream and returns at once; later work of the stream finds it complete. Only barrier(),
// synchronize() and growing temporary memory wait for the device, so operations can be captured (cuda_graph) together
// with kernels. All ranks capture the same operations, and launch their graphs in the same order. A graph with
// operations must be destroyed before their communicator: NCCL waits for that.
//
// Cost for n elements on R ranks. sums::ordered: 2 n (R - 1) / R elements to and from each rank, as in a ring, but as
// messages between all pairs: two launches of NCCL with R - 1 messages to and from each rank, one kernel between them
// that reads R elements and writes 1 for each of n / R, and temporary memory for n (R - 1) / R elements. Few elements:
// one launch, in which all ranks get everything, and a kernel. Networks that add (NVLink switches, InfiniBand) are not
// used for that; sums::by_engine leaves the sum to NCCL. None of it was measured.
//
// A device does not detect that ranks disagree: if kinds, types or numbers of elements differ, it waits forever, or
// computes wrong results. Programs compare their shapes through the host's communicator when they are planned;
// check_each_operation() is for calls by hand, and for finding such a mistake.
//
// The ranks should be processes. Threads of one process (Local), each with its own device, work too, with two
// reservations: allocating or freeing memory while operations are in flight may wait for other devices, and so ranks
// for each other: call reserve() before; and NCCL warns of captured operations on several devices.

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/backend/cuda/sm80.cuh"
#include "headmix/contract/communicator.hpp"
#include "headmix/core/error.hpp"
#include "headmix/distributed/collectives.hpp"
#include "headmix/distributed/sums.hpp"

namespace headmix {

namespace cuda_kernels {

/// y = the sum over the ranks of their n elements, in the order of the ranks. The elements of rank `rank` are `own`,
/// those of the others are consecutive in `received`. `y` may be `own`.
template <class T>
struct sum_in_order {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  using wide = std::conditional_t<std::is_integral_v<T>, T, accumulator_t<T>>;

  T* y;
  T const* own;
  T const* received;
  Index n, rank, ranks;

  [[nodiscard]] static Index blocks(Index n) { return blocks_for(n, threads); }
  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * threads + device.thread();
    if (i >= n) return;
    T const* other = received + i;
    auto const element_of = [&](Index r) {
      if (r == rank) return static_cast<wide>(device.load(own + i));
      auto const value = static_cast<wide>(device.load(other));
      other += n;
      return value;
    };
    wide sum = element_of(0);
    for (Index r = 1; r < ranks; ++r) sum += element_of(r);
    device.store(y + i, static_cast<T>(sum));
  }
};

}  // namespace cuda_kernels

namespace detail {

/// Reports a failed NCCL call by its name, with NCCL's last error.
inline void check_nccl(ncclResult_t result, char const* call, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return;
  char const* const last = ncclGetLastError(comm);
  std::string text = message(call, ": ", ncclGetErrorString(result));
  if (last != nullptr && *last != '\0') text += message(" (", last, ")");
  fail(text);
}

template <class T>
[[nodiscard]] constexpr ncclDataType_t nccl_type() {
  switch (element_kind_of<T>()) {
    case element_kind::float32:
      return ncclFloat32;
    case element_kind::float64:
      return ncclFloat64;
    case element_kind::bfloat16:
      return ncclBfloat16;
    case element_kind::int32:
      return ncclInt32;
    case element_kind::int64:
      return ncclInt64;
    default:
      return ncclUint8;
  }
}

/// A group of NCCL calls that are submitted together; empty groups are allowed. Always closed, since NCCL counts
/// nesting.
class nccl_group {
 public:
  nccl_group() { check_nccl(ncclGroupStart(), "ncclGroupStart"); }
  nccl_group(nccl_group const&) = delete;
  nccl_group& operator=(nccl_group const&) = delete;
  [[nodiscard]] ncclResult_t end() {
    open_ = false;
    return ncclGroupEnd();
  }
  ~nccl_group() {
    if (open_) (void)ncclGroupEnd();
  }

 private:
  bool open_ = true;
};

}  // namespace detail

/// A Communicator for GPU memory, one GPU for each rank. For one thread at a time. All ranks call its operations in the
/// same order, captured or not.
///
/// Operands must not overlap, except that all_sum may have the same operand and result, that this rank's part of `to`
/// in all_gather may be `from`, and that `to` in reduce_scatter may be this rank's part of `from`.
///
/// Errors of calls are reported at once, with the name of the call. Later errors, of the network or because another
/// rank has ended, are found by check(). After an error the communicator is unusable.
/// @tparam Host the communicator between the hosts of the ranks
/// @tparam Queue the queue of a backend: Sm80::queue, Sm90a::queue
template <class Host, class Queue = Sm80::queue>
class Nccl {
  using kind = detail::collective_kind;

 public:
  /// Operations go to this queue, for example a backend's; the device is the current one. All ranks of `host`, which
  /// must outlive this object, call the constructor together: rank 0 sends NCCL's id to the others. NCCL waits for all
  /// of them.
  Nccl(Host& host, Queue queue, sums how = sums::ordered) requires requires {
    queue.stream();
  } : host_(&host),
      rank_(host.rank()),
      size_(host.size()),
      how_(how),
      queue_(std::move(queue)),
      exceptions_(std::uncaught_exceptions()) {
    ncclUniqueId id{};
    if (rank_ == 0) detail::check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    host.broadcast(reinterpret_cast<std::byte*>(&id), static_cast<Index>(sizeof id), Index{0});
    detail::check_nccl(ncclCommInitRank(&comm_, static_cast<int>(size_), id, static_cast<int>(rank_)),
                       "ncclCommInitRank");
  }
  /// Operations go to a stream that must outlive this object. A queue with its own workspace is made for it: if the
  /// stream has a queue, pass that.
  Nccl(Host& host, cudaStream_t stream, sums how = sums::ordered) : Nccl(host, Queue(stream), how) {}
  Nccl(Nccl const&) = delete;
  Nccl& operator=(Nccl const&) = delete;
  /// To be destroyed on all ranks, after all of them have called the same operations, which NCCL waits for. When
  /// destroyed by an exception, or after an error, it aborts operations in flight. In both cases it waits until all
  /// graphs with its operations are destroyed.
  ~Nccl() {
    if (comm_ == nullptr) return;
    if (!failure_.empty() || std::uncaught_exceptions() > exceptions_) {
      (void)ncclCommAbort(comm_);
    } else {
      (void)ncclCommDestroy(comm_);
    }
  }

  /// See archetype::communicator.
  [[nodiscard]] Index rank() const { return rank_; }
  /// See archetype::communicator.
  [[nodiscard]] Index size() const { return size_; }
  /// The communicator between the hosts, for host memory.
  [[nodiscard]] Host& on_host() const { return *host_; }
  /// The implementation of its sums.
  [[nodiscard]] sums how() const { return how_; }
  /// The queue of its operations.
  [[nodiscard]] Queue& queue() { return queue_; }

  /// Bytes of temporary memory that sums (all_sum, reduce_scatter of shares) of at most n elements of T need on this
  /// rank.
  template <class T>
  [[nodiscard]] std::size_t sum_bytes(Index n) const {
    if (how_ == sums::by_engine) return 0;
    Index const at_once = std::min(n, few_bytes / static_cast<Index>(sizeof(T)));
    return bytes_of_others<T>(std::max(at_once, (n + size_ - 1) / size_));
  }
  /// Reserves temporary device memory for sums (see sum_bytes); not during capture. Otherwise memory is allocated when
  /// an operation first needs it, which waits for the device, and is an error during capture: run a pass once before
  /// capture, or reserve.
  ///
  /// Memory used by captured operations is kept when more is allocated: graphs stay valid.
  void reserve(std::size_t bytes) {
    if (!memory_.empty() && memory_.back().bytes().size() >= bytes) return;
    if (bytes == 0) return;
    std::size_t const have = memory_.empty() ? 0 : memory_.back().bytes().size();
    if (recording()) {
      fail("a sum of ", size_, " ranks needs ", bytes, " bytes of temporary memory and has ", have,
           ", which cannot grow while the stream is recorded; run the pass once before, or call reserve()");
    }
    // At least doubled, so that the kept memory is less than the used memory.
    memory_.emplace_back(std::max(bytes, 2 * have));
  }

  /// Enables a check before each operation: kind, type and numbers of elements are compared between all ranks, through
  /// the host's communicator; a difference is an error on all ranks that names two ranks and their arguments. For
  /// debugging: all hosts wait for each other in each operation. All ranks must set it equally, between the same
  /// operations. Captured operations are compared during capture, not at launch.
  void check_each_operation(bool wanted) { checks_ = wanted; }

  /// Throws if NCCL has found an error since an operation was called: a broken connection, a rank that has ended. It
  /// polls the host's side of NCCL and does not wait; call it once in each step, and during long waits for the device.
  /// barrier() and synchronize() call it. On an error all operations in flight are aborted, so that the stream
  /// continues; with captured operations only when this object is destroyed.
  void check() {
    check_usable();
    ncclResult_t found = ncclSuccess;
    detail::check_nccl(ncclCommGetAsyncError(comm_, &found), "ncclCommGetAsyncError", comm_);
    if (found == ncclSuccess || found == ncclInProgress) return;
    char const* const last = ncclGetLastError(comm_);
    failure_ = message("NCCL has failed: ", ncclGetErrorString(found));
    if (last != nullptr && *last != '\0') failure_ += message(" (", last, ")");
    // Destroying it would wait for the graphs.
    if (!recorded_) (void)ncclCommAbort(std::exchange(comm_, nullptr));
    fail(failure_);
  }
  /// Waits for all work of the stream, and polls for errors (check). Not during capture.
  void synchronize() {
    if (recording()) fail("there is no waiting for a stream that is recorded");
    check();
    while (true) {
      cudaError_t const status = cudaStreamQuery(queue_.stream());
      if (status != cudaErrorNotReady) {
        cuda_kernels::check(status, "waiting for the GPU");
        break;
      }
      check();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    check();
  }

  /// See archetype::communicator; `to` and `from` are memory of the device.
  template <class T>
  void all_sum(T* to, T const* from, Index n) {
    static_assert(!std::is_same_v<T, std::byte>, "headmix: bytes have no sum");
    detail::checked_elements("all_sum", n, rank_);
    begin<T>(kind::all_sum, n, 0, {}, {});
    if (n == 0) return;
    if (how_ == sums::by_engine) {
      call(ncclAllReduce(from, to, count(n), detail::nccl_type<T>(), ncclSum, comm_, stream()), "ncclAllReduce");
      return;
    }
    if (size_ == 1) return copy(to, from, n);
    bool const at_once = n <= few_bytes / static_cast<Index>(sizeof(T));
    Index const first = at_once ? 0 : first_of_share(n, rank_, size_), mine = at_once ? n : share_of(n, rank_, size_);
    T* const received = scratch<T>(mine);
    {
      detail::nccl_group group;
      Index slot = 0;
      for (Index r = 0; r < size_; ++r) {
        if (r == rank_) continue;
        send(from + (at_once ? 0 : first_of_share(n, r, size_)), at_once ? n : share_of(n, r, size_), r);
        receive(received + slot++ * mine, mine, r);
      }
      call(group.end(), "ncclGroupEnd");
    }
    add(to + first, from + first, received, mine);
    if (at_once) return;
    detail::nccl_group group;
    for (Index r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      send(to + first, mine, r);
      receive(to + first_of_share(n, r, size_), share_of(n, r, size_), r);
    }
    call(group.end(), "ncclGroupEnd");
  }
  /// See archetype::communicator; `to` and `from` are memory of the device, `counts` of the host.
  template <class T>
  void reduce_scatter(T* to, T const* from, std::span<Index const> counts) {
    static_assert(!std::is_same_v<T, std::byte>, "headmix: bytes have no sum");
    Index const n = checked_elements("reduce_scatter", counts), mine = of_rank(counts, rank_);
    begin<T>(kind::reduce_scatter, n, 0, counts, {mine});
    Index first = 0;
    for (Index r = 0; r < rank_; ++r) first += of_rank(counts, r);
    if (how_ == sums::by_engine) return reduce_by_engine(to, from, counts);
    if (size_ == 1) return copy(to, from, n);
    T* const received = scratch<T>(mine);
    {
      detail::nccl_group group;
      Index at = 0, slot = 0;
      for (Index r = 0; r < size_; ++r) {
        if (r != rank_) {
          send(from + at, of_rank(counts, r), r);
          receive(received + slot++ * mine, mine, r);
        }
        at += of_rank(counts, r);
      }
      call(group.end(), "ncclGroupEnd");
    }
    add(to, from + first, received, mine);
  }
  /// See archetype::communicator; `to` and `from` are memory of the device, `counts` of the host.
  template <class T>
  void all_gather(T* to, T const* from, std::span<Index const> counts) {
    Index const n = checked_elements("all_gather", counts), mine = of_rank(counts, rank_);
    begin<T>(kind::all_gather, n, 0, {mine}, counts);
    Index first = 0, own = 0;
    {
      detail::nccl_group group;
      for (Index r = 0; r < size_; ++r) {
        if (r == rank_) {
          own = first;
        } else {
          send(from, mine, r);
          receive(to + first, of_rank(counts, r), r);
        }
        first += of_rank(counts, r);
      }
      call(group.end(), "ncclGroupEnd");
    }
    copy(to + own, from, mine);
  }
  /// See archetype::communicator; `to` and `from` are memory of the device, `received` and `sent` of the host.
  template <class T>
  void all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent) {
    checked_elements("all_to_all", received);
    checked_elements("all_to_all", sent);
    Index const own = of_rank(sent, rank_);
    if (own != of_rank(received, rank_)) {
      fail("all_to_all: rank ", rank_, " sends ", own, " elements to itself and expects ", of_rank(received, rank_));
    }
    begin<T>(kind::all_to_all, 0, 0, sent, received);
    Index first_to = 0, first_from = 0;
    T* own_to = to;
    T const* own_from = from;
    {
      detail::nccl_group group;
      for (Index r = 0; r < size_; ++r) {
        if (r == rank_) {
          own_to = to + first_to, own_from = from + first_from;
        } else {
          send(from + first_from, of_rank(sent, r), r);
          receive(to + first_to, of_rank(received, r), r);
        }
        first_to += of_rank(received, r), first_from += of_rank(sent, r);
      }
      call(group.end(), "ncclGroupEnd");
    }
    copy(own_to, own_from, own);
  }
  /// See archetype::communicator; `data` is memory of the device.
  template <class T>
  void broadcast(T* data, Index n, Index root) {
    detail::checked_elements("broadcast", n, rank_);
    detail::check_root(root, size_, rank_);
    begin<T>(kind::broadcast, n, root, {}, {});
    if (n == 0) return;
    call(ncclBroadcast(data, data, count(n), detail::nccl_type<T>(), static_cast<int>(root), comm_, stream()),
         "ncclBroadcast");
  }
  /// Returns when all hosts have called it, and this rank's stream is idle. In this order: if another rank has failed,
  /// the host's communicator reports it, where the stream would wait for that rank. Not during capture.
  void barrier() {
    if (recording()) fail("a barrier waits for the device, and cannot be recorded");
    begin<std::byte>(kind::barrier, 0, 0, {}, {});
    host_->barrier();
    synchronize();
  }

 private:
  /// Sums up to this size have one round.
  static constexpr Index few_bytes = 4096;

  /// Numbers of elements for all ranks: a span, one number for all, or none.
  struct parts {
    std::span<Index const> counts;
    Index each = 0;
    parts() = default;
    parts(std::span<Index const> c) : counts(c) {}
    parts(Index n) : each(n) {}
    [[nodiscard]] Index of(Index r) const { return counts.empty() ? each : of_rank(counts, r); }
  };

  [[nodiscard]] cudaStream_t stream() const { return queue_.stream(); }
  [[nodiscard]] static std::size_t count(Index n) { return static_cast<std::size_t>(n); }
  [[nodiscard]] static Index of_rank(std::span<Index const> counts, Index r) {
    return counts[static_cast<std::size_t>(r)];
  }
  /// A failed call leaves a communicator that is aborted, not destroyed.
  void call(ncclResult_t result, char const* name) {
    if (result == ncclSuccess) return;
    failure_ = message("NCCL has failed in ", name);
    detail::check_nccl(result, name, comm_);
  }
  void check_usable() const {
    if (!failure_.empty()) fail(failure_);
  }
  [[nodiscard]] bool recording() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cuda_kernels::check(cudaStreamIsCapturing(stream(), &status), "asking whether a stream is recorded");
    return status != cudaStreamCaptureStatusNone;
  }
  Index checked_elements(char const* operation, std::span<Index const> counts) const {
    return detail::checked_elements(operation, counts, size_, rank_);
  }
  /// Called before each operation; `sent` and `received` are the numbers of elements to and from the other ranks, if
  /// relevant.
  template <class T>
  void begin(kind what, Index n, Index root, parts sent, parts received) {
    check_usable();
    recorded_ = recorded_ || recording();
    if (checks_) compare({what, detail::element_kind_of<T>(), n, root, 0}, sent, received);
  }
  /// All ranks receive all announcements and check all of them, so that all fail with one message.
  void compare(detail::announcement const& mine, parts sent, parts received) const {
    Index const length = 4 + 2 * size_;
    std::vector<Index> said{static_cast<Index>(mine.kind), static_cast<Index>(mine.element), mine.elements, mine.root};
    for (Index r = 0; r < size_; ++r) said.push_back(sent.of(r));
    for (Index r = 0; r < size_; ++r) said.push_back(received.of(r));
    std::vector<Index> all(static_cast<std::size_t>(size_ * length));
    std::vector<Index> const lengths(static_cast<std::size_t>(size_), length);
    host_->all_gather(all.data(), said.data(), std::span<Index const>(lengths));
    auto const of = [&](Index r) { return all.data() + r * length; };
    auto const announced = [&](Index r, Index part) {
      Index const* const a = of(r);
      return detail::announcement{static_cast<kind>(a[0]), static_cast<detail::element_kind>(a[1]), a[2], a[3], part};
    };
    for (Index r = 1; r < size_; ++r) detail::check_announcement(announced(0, 0), 0, announced(r, 0), r, 0);
    for (Index to = 0; to < size_; ++to) {
      for (Index from = 0; from < size_; ++from) {
        if (from == to) continue;
        detail::check_announcement(announced(to, 0), to, announced(from, of(from)[4 + to]), from,
                                   of(to)[4 + size_ + from]);
      }
    }
  }

  template <class T>
  [[nodiscard]] std::size_t bytes_of_others(Index n) const {
    return checked_bytes(checked(size_ - 1) * n, sizeof(T));
  }
  /// Temporary memory for n elements of each other rank.
  template <class T>
  [[nodiscard]] T* scratch(Index n) {
    std::size_t const bytes = bytes_of_others<T>(n);
    if (bytes == 0) return nullptr;
    reserve(bytes);
    return memory_.back().template as<T>();
  }
  template <class T>
  void send(T const* from, Index n, Index r) {
    if (n == 0) return;
    call(ncclSend(from, count(n), detail::nccl_type<T>(), static_cast<int>(r), comm_, stream()), "ncclSend");
  }
  template <class T>
  void receive(T* to, Index n, Index r) {
    if (n == 0) return;
    call(ncclRecv(to, count(n), detail::nccl_type<T>(), static_cast<int>(r), comm_, stream()), "ncclRecv");
  }
  template <class T>
  void copy(T* to, T const* from, Index n) const {
    if (n == 0 || to == from) return;
    cuda_kernels::check(cudaMemcpyAsync(to, from, count(n) * sizeof(T), cudaMemcpyDeviceToDevice, stream()),
                        "copying on the GPU");
  }
  template <class T>
  void add(T* to, T const* own, T const* received, Index n) {
    using kernel = cuda_kernels::sum_in_order<T>;
    queue_.launch(kernel{to, own, received, n, rank_, size_}, kernel::blocks(n));
  }
  template <class T>
  void reduce_by_engine(T* to, T const* from, std::span<Index const> counts) {
    constexpr ncclDataType_t type = detail::nccl_type<T>();
    Index const each = counts.front();
    if (std::all_of(counts.begin(), counts.end(), [each](Index n) { return n == each; })) {
      if (each == 0) return;
      call(ncclReduceScatter(from, to, count(each), type, ncclSum, comm_, stream()), "ncclReduceScatter");
      return;
    }
    detail::nccl_group group;
    for (Index r = 0; r < size_; ++r) {
      Index const n = of_rank(counts, r);
      if (n > 0)
        call(ncclReduce(from, to, count(n), type, ncclSum, static_cast<int>(r), comm_, stream()), "ncclReduce");
      from += n;
    }
    call(group.end(), "ncclGroupEnd");
  }

  Host* host_;
  Index rank_, size_;
  sums how_;
  Queue queue_;
  int exceptions_;
  ncclComm_t comm_ = nullptr;
  std::vector<cuda_kernels::memory> memory_;  ///< the last is in use; the others may be in use by graphs
  std::string failure_;
  bool checks_ = false, recorded_ = false;
};

static_assert(Communicator<Nccl<archetype::communicator>>, "headmix: Nccl is no Communicator");

}  // namespace headmix

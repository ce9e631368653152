#pragma once
// SPDX-License-Identifier: MIT
// Runs the blocks of a launch sequentially, and checks the memory accesses of their threads.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headmix/testing/emulator/memory.hpp"
#include "headmix/testing/emulator/order.hpp"
#include "headmix/testing/emulator/scheduler.hpp"
#include "headmix/testing/emulator/shadow.hpp"

namespace headmix::cuda_kernels::emulator {

class barriers;
class tile_copies;
class products;
class register_counts;
struct warpgroups;

class machine {
 public:
  static constexpr int max_threads = thread_scheduler::max_threads;
  static constexpr int max_shared_bytes = 227 * 1024;
  static constexpr std::size_t max_operand_bytes = 32764;

  /// Calls run(machine, kernel, t) for each thread t of each block.
  static void launch(kernel_attributes const& attributes, void (*run)(machine&, void const* kernel, int thread),
                     void const* kernel, Index blocks) {
    lease const machine;
    (*machine).run_blocks(attributes, run, kernel, blocks);
  }

  [[nodiscard]] Index block() const { return running_.number; }
  [[nodiscard]] Index blocks() const { return blocks_; }

  // ---- barriers and warp functions ----

  void sync(int thread) {
    if (running_.kernel.cluster > 1) return sync_block(thread);
    if (scheduler_.sync(thread, "sync")) pass_barrier();
  }
  void sync_cluster(int thread) {
    if (scheduler_.sync(thread, "sync_cluster")) pass_barrier();
  }
  /// The rank of the thread's block in its cluster.
  [[nodiscard]] int rank(int thread) const { return running_.rank_of(thread); }
  [[nodiscard]] int block_threads() const { return running_.block_threads(); }
  [[nodiscard]] Index shared_begin(int rank) const { return running_.shared_begin(rank); }
  void sync_warp(int thread) {
    static constexpr warp_function nothing{"sync_warp", 0, [](std::array<void*, 32> const&) {}};
    if (!warp_collective(thread, nothing, nullptr)) return;
    epochs_.pass_warp_barrier(thread / 32);
    order_.barrier(thread / 32 * 32, thread / 32 * 32 + 32, epochs_.now);
  }
  bool warp_collective(int thread, warp_function const& function, void* operands) {
    return scheduler_.warp_collective(thread, function, operands);
  }
  /// A function of all threads of the block: the last to arrive calls perform(operands of all). Also a barrier.
  template <class F>
  void block_collective(int thread, char const* name, int threads, void* operands, F const& perform) {
    if (threads != running_.kernel.threads) {
      running_.report(thread, "calls ", name, " for ", threads, " threads in a block of ", running_.kernel.threads);
    }
    block_operands_[index(thread)] = operands;
    if (!scheduler_.sync(thread, name)) return;
    perform(std::span<void* const>(block_operands_).first(index(threads)));
    pass_barrier();
  }

  // ---- memory ----

  /// The address of `bytes` bytes of shared memory from `offset` on, after all checks of the thread's access.
  std::byte* shared(int thread, Index offset, int bytes, int alignment, bool write) {
    check_shared(thread, offset, bytes, alignment, write);
    return record_shared(thread, thread, offset, bytes, write);
  }
  /// The address of bytes that a thread reads in the rank-th block of the cluster, at the place of `offset` in its own.
  std::byte const* shared_at(int thread, int rank, Index offset, int bytes) {
    Index const there = offset - running_.shared_begin(running_.rank_of(thread)) + running_.shared_begin(rank);
    check_shared(thread, there, bytes, bytes, false, rank);
    return record_shared(thread, thread, there, bytes, false);
  }
  /// A row of 16 bytes, named by one thread, that several lanes of its warp receive.
  std::byte* shared_row(int thread, Index offset) {
    check_shared(thread, offset, 16, 16, false);
    return record_shared(thread, lanes_of_warp + thread / 32, offset, 16, false);
  }
  void global(int thread, void const* pointer, int bytes, int alignment, bool write) {
    auto const address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address % static_cast<unsigned>(alignment) != 0) {
      running_.report(thread, text_of(write), bytes, " bytes at ", text_of(address), ", not a multiple of ", alignment);
    }
    check_bounds(thread, address, bytes, write);
    record_global(thread, address, bytes, write);
  }

  void cp_async16(int thread, Index to, void const* from, bool valid) {
    require_cooperative(thread, "cp_async16");
    check_shared(thread, to, 16, 16, true);
    record_shared(thread, thread, to, 16, true);
    if (auto const address = reinterpret_cast<std::uintptr_t>(from); address % 16 != 0) {
      running_.report(thread, "copies 16 bytes from ", text_of(address), ", not a multiple of 16");
    }
    if (valid) global(thread, from, 16, 16, false);
    copy_state& t = copies_[index(thread)];
    t.copies.push_back({from, static_cast<int>(to), t.group, valid});
    in_flight_[index(to / 16)] = static_cast<std::uint16_t>(thread + 1);
  }
  void cp_async_commit(int thread) {
    require_cooperative(thread, "cp_async_commit");
    ++copies_[index(thread)].group;
  }
  void cp_async_wait(int thread, int latest) {
    require_cooperative(thread, "cp_async_wait");
    copy_state& t = copies_[index(thread)];
    while (t.completed < t.copies.size() && t.copies[t.completed].group < t.group - latest) {
      copy const& c = t.copies[t.completed++];
      in_flight_[index(c.to / 16)] = 0;
      std::byte* const to = record_shared(thread, thread, c.to, 16, true);
      if (c.valid) {
        record_global(thread, reinterpret_cast<std::uintptr_t>(c.from), 16, false);  // may be read as late as now
        std::memcpy(to, c.from, 16);
      } else {
        std::memset(to, 0, 16);
      }
    }
    if (t.completed == t.copies.size()) {
      t.copies.clear();
      t.completed = 0;
    }
  }

  /// The state for warpgroup kernels.
  [[nodiscard]] warpgroups& for_warpgroups(int thread) const {
    if (!warpgroups_) running_.report(thread, "calls what only kernels for warpgroups may");
    return *warpgroups_;
  }

  void require_cooperative(int thread, char const* what) const { running_.require_cooperative(thread, what); }
  /// Checks that a thread of the rank-th block of the cluster is still running, as the target of an access.
  void require_running(int thread, int rank, char const* what) const {
    for (int t = rank * block_threads(); t < (rank + 1) * block_threads(); ++t)
      if (!scheduler_.has_ended(t)) return;
    running_.report(thread, what, " block ", running_.number + rank, ", which has ended");
  }

 private:
  // The headers with the state for warpgroup kernels.
  friend class barriers;
  friend class tile_copies;
  friend class products;
  friend class register_counts;

  /// A barrier of one block of a cluster.
  void sync_block(int thread);
  void pass_barrier() {
    epochs_.pass_barrier();
    order_.barrier(0, running_.kernel.threads, epochs_.now);
  }

  struct copy {
    void const* from;
    int to;
    int group;
    bool valid;
  };
  /// The asynchronous copies of a thread.
  struct copy_state {
    int group = 0;  // number of the group of its next copy
    std::size_t completed = 0;
    std::vector<copy> copies;  // the first `landed` are complete
  };

  static constexpr std::size_t index(Index i) { return static_cast<std::size_t>(i); }

  // ---- launches ----

  /// An idle machine, leased for a launch.
  class lease {
   public:
    lease() : machine_(take()) {}
    lease(lease const&) = delete;
    lease& operator=(lease const&) = delete;
    ~lease() {
      std::lock_guard const lock(mutex());
      idle().push_back(std::move(machine_));
    }
    machine& operator*() const { return *machine_; }

   private:
    static std::unique_ptr<machine> take() {
      std::lock_guard const lock(mutex());
      if (idle().empty()) return std::make_unique<machine>();
      auto last = std::move(idle().back());
      idle().pop_back();
      return last;
    }
    static std::mutex& mutex() {
      static std::mutex m;
      return m;
    }
    static std::vector<std::unique_ptr<machine>>& idle() {
      static std::vector<std::unique_ptr<machine>> machines;
      return machines;
    }

    std::unique_ptr<machine> machine_;
  };

  void run_blocks(kernel_attributes const& attributes, void (*run)(machine&, void const* kernel, int thread),
                  void const* kernel, Index blocks) {
    running_.kernel = attributes;
    check(blocks);
    if (blocks == 0) return;
    run_ = run;
    kernel_ = kernel;
    blocks_ = blocks;
    prepare();
    for (running_.number = 0; running_.number < blocks; running_.number += attributes.cluster) {
      epochs_.begin_block();
      if (attributes.cooperative) {
        forget_copies();
        if (attributes.warpgroups) {
          run_warpgroups();
        } else {
          scheduler_.run(&machine::run_thread, this);
        }
      } else {
        for (int t = 0; t < attributes.threads; ++t) run(*this, kernel, t);
      }
    }
  }

  void run_warpgroups();
  static void run_thread(void* self, int thread) {
    auto& m = *static_cast<machine*>(self);
    m.run_(m, m.kernel_, thread);
  }

  void check(Index blocks) const {
    auto const wrong = [this](auto const&... part) { fail("kernel ", running_.kernel.name, ": ", part...); };
    int const threads = running_.block_threads(), cluster = running_.kernel.cluster;
    if (threads < 32 || threads > max_threads || threads % 32 != 0) {
      wrong("expected a multiple of 32 up to ", max_threads, " threads of a block, found ", threads);
    }
    if (threads * cluster > max_threads) wrong("clusters of more than ", max_threads, " threads are not emulated");
    if (blocks % cluster != 0) wrong("expected clusters of ", cluster, " blocks, found ", blocks, " blocks");
    if (running_.kernel.shared_bytes < 0 || running_.kernel.shared_bytes > max_shared_bytes) {
      wrong("expected at most ", max_shared_bytes, " bytes of shared memory, found ", running_.kernel.shared_bytes);
    }
    if (running_.kernel.operand_bytes > max_operand_bytes) {
      wrong("expected at most ", max_operand_bytes, " bytes of operands, found ", running_.kernel.operand_bytes);
    }
    if (blocks < 0 || blocks > 0x7FFFFFFF) wrong("expected 0 to 2147483647 blocks, found ", blocks);
  }
  void prepare() {
    // Stamps must not overflow within a launch, nor shadow pages fill the memory.
    if (epochs_.now > 0x80000000u || global_.pages() > 4096) {
      global_.forget();
      shared_shadow_.forget();
      readers_.assign(readers_.size(), {});
      epochs_.now = 0;
    }
    epochs_.begin_launch();
    auto const bytes = index((running_.shared_end() + 15) / 16 * 16);
    if (shared_memory_.size() < bytes / 16) {
      shared_memory_.resize(bytes / 16);
      shared_shadow_.reserve(bytes);
      in_flight_.resize(bytes / 16);
    }
    if (running_.kernel.warpgroups && readers_.size() < bytes / 16) readers_.resize(bytes / 16);
    order_.turn_off();
    strict_ = memory_list::instance().strict > 0;
    memory_list::instance().copy_to(ranges_, range_changes_);
    inside_ = beside_ = {};
  }
  void forget_copies() {
    std::fill_n(in_flight_.begin(), (running_.shared_end() + 15) / 16, std::uint16_t{0});
    for (int t = 0; t < running_.kernel.threads; ++t) {
      copy_state& state = copies_[index(t)];
      state.group = 0;
      state.completed = 0;
      state.copies.clear();
    }
  }

  // ---- checks ----

  void check_shared(int thread, Index offset, int bytes, int alignment, bool write) {
    check_shared(thread, offset, bytes, alignment, write, running_.rank_of(thread));
  }
  /// Checks an access to the shared memory of the rank-th block.
  void check_shared(int thread, Index offset, int bytes, int alignment, bool write, int rank) {
    require_cooperative(thread, "shared");
    Index const of_block = offset - running_.shared_begin(rank);
    if (of_block < 0 || of_block + bytes > running_.kernel.shared_bytes) {
      running_.report(thread, text_of(write), bytes, " bytes at byte ", of_block, " of shared memory, which has ",
                      running_.kernel.shared_bytes);
    }
    if (offset % alignment != 0) {
      running_.report(thread, text_of(write), bytes, " bytes at byte ", of_block,
                      " of shared memory, not a multiple of ", alignment);
    }
    for (Index i = offset / 16; i <= (offset + bytes - 1) / 16; ++i) {
      if (in_flight_[index(i)] != 0) {
        running_.report(thread, text_of(write), "byte ", i * 16, " of shared memory while a copy of thread ",
                        in_flight_[index(i)] - 1, " to it is on its way");
      }
    }
    if (order_.on()) check_asynchronous(thread, offset, bytes, write);
  }
  /// Checks accesses to operands of warpgroup MMAs in flight, and to barriers.
  void check_asynchronous(int thread, Index offset, int bytes, bool write);
  std::byte* record_shared(int thread, int who, Index offset, int bytes, bool write) {
    if (order_.on()) record_readers(thread, offset, bytes, write);
    access_check<false, order> const access(epochs_, order_.on() ? &order_ : nullptr, thread, who);
    finding const found = access.access(shared_shadow_, index(offset), bytes, write);
    if (found.problem == finding::uninitialised) {
      running_.report(thread, "reads byte ", offset + found.byte, " of shared memory, which nobody has written");
    }
    if (found.problem != finding::nothing) {
      running_.report(thread, "races: it ", text_of(write), "byte ", offset + found.byte, " of shared memory, which ",
                      text_of_before(found, false));
    }
    return reinterpret_cast<std::byte*>(shared_memory_.data()) + offset;
  }

  /// The shadow names one reader, or "several". Barriers of a part of the block may order a write after all of them:
  /// then they are discarded.
  void record_readers(int thread, Index offset, int bytes, bool write) {
    int const warp = thread / 32;
    for (Index chunk = offset / 16; chunk <= (offset + bytes - 1) / 16; ++chunk) {
      auto& readers = readers_[index(chunk)];
      if (!write) {
        stamp& latest = readers[index(warp)];
        latest = (std::max)(latest, order_.own(thread));
        continue;
      }
      bool known = true;
      for (int w = 0; w < running_.kernel.threads / 32; ++w) {
        stamp const when = readers[index(w)];
        auto const lanes = static_cast<party>(lanes_of_warp + w);
        bool const own = w == warp && when < epochs_.warp[index(w)];
        known = known && (when < epochs_.barrier || own || order_.knows(thread, lanes, when));
      }
      if (!known) continue;
      for (Index i = (std::max)(offset, chunk * 16); i < (std::min)(offset + bytes, chunk * 16 + 16); ++i) {
        shadow_state& word = shared_shadow_.words()[i / 4];
        shadow_state& mine = word.writer == each_byte ? shared_shadow_.bytes()[i] : word;
        if (mine.reader == several_warps) mine.read = 0, mine.reader = 0;
      }
    }
  }

  void check_bounds(int thread, std::uintptr_t address, int bytes, bool write) {
    std::uintptr_t const end = address + static_cast<unsigned>(bytes);
    if (address >= inside_.begin && end <= inside_.end) return;
    if (address >= beside_.begin && end <= beside_.end && !strict_) return;
    // The neighbours: `above` is the first range that begins after the address.
    auto const above =
        std::upper_bound(ranges_.begin(), ranges_.end(), address_range{address, address}, memory_list::before);
    address_range const lower = above == ranges_.begin() ? address_range{} : above[-1];
    address_range const upper = above == ranges_.end() ? address_range{~std::uintptr_t{0}, 0} : *above;
    if (address >= lower.begin && end <= lower.end) {
      inside_ = lower;
      return;
    }
    std::uintptr_t const gap = address_range::gap;
    bool const after_lower = lower.end != 0 && address < lower.end + gap;
    bool const before_upper = upper.end != 0 && end > upper.begin - gap;
    if (after_lower) {
      running_.report(thread, text_of(write), bytes, " bytes at byte ", address - lower.begin, " of memory (",
                      text_of(lower.begin), "), which has ", lower.end - lower.begin);
    }
    if (before_upper) {
      running_.report(thread, text_of(write), bytes, " bytes at ", text_of(address), ", ", upper.begin - address,
                      " bytes before the memory at ", text_of(upper.begin));
    }
    if (strict_)
      running_.report(thread, text_of(write), bytes, " bytes at ", text_of(address), ", in no memory of the device");
    beside_ = {lower.end == 0 ? 0 : lower.end + gap, upper.end == 0 ? upper.begin : upper.begin - gap};
  }
  void record_global(int thread, std::uintptr_t address, int bytes, bool write) {
    access_check<true, order> const access(epochs_, order_.on() ? &order_ : nullptr, thread, thread);
    while (bytes > 0) {
      auto const room = static_cast<int>(global_shadow::page_bytes - address % global_shadow::page_bytes);
      int const part = bytes < room ? bytes : room;
      finding const found = access.access(global_.page_of(address), address % global_shadow::page_bytes, part, write);
      if (found.problem != finding::nothing) {
        running_.report(thread, "races: it ", text_of(write),
                        text_of_place(address + static_cast<unsigned>(found.byte)), ", which ",
                        text_of_before(found, true));
      }
      address += static_cast<unsigned>(part);
      bytes -= part;
    }
  }

  // ---- messages ----

  static char const* text_of(bool write) { return write ? "writes " : "reads "; }
  static std::string text_of(std::uintptr_t address) {
    std::string digits;
    for (; address != 0 || digits.empty(); address /= 16)
      digits.insert(digits.begin(), "0123456789abcdef"[address % 16]);
    return "0x" + digits;
  }
  [[nodiscard]] std::string text_of_place(std::uintptr_t address) const {
    if (address >= inside_.begin && address < inside_.end) {
      return message("byte ", address - inside_.begin, " of the memory at ", text_of(inside_.begin), " of ",
                     inside_.end - inside_.begin, " bytes");
    }
    return message("the byte at ", text_of(address));
  }
  [[nodiscard]] std::string text_of_before(finding const& found, bool global) const {
    bool const written = found.problem == finding::after_write;
    party const who = written ? found.before.writer : found.before.reader;
    stamp const when = written ? found.before.written : found.before.read;
    char const* const did = written ? " has written" : " has read";
    if (who == several_blocks) return message("several blocks have read in this launch");
    if (global && when < epochs_.block) {
      std::string const of = message(" of block ", epochs_.block_at(when), did, " in this launch");
      if (who == several_warps) return message("a thread", of);
      if (who >= lanes_of_warp) return message("a thread of warp ", who - lanes_of_warp, of);
      return message("thread ", int{who}, of);
    }
    char const* const between = ", with no barrier between";
    if (is_agent(who)) {
      return message("a copy of a tile has written; it must wait at that one's barrier");
    }
    if (who == several_warps) return message("threads of several warps have read", between);
    if (who >= lanes_of_warp) return message("several lanes of warp ", who - lanes_of_warp, " have read", between);
    return message("thread ", int{who}, did, between);
  }
  struct alignas(16) aligned_bytes {
    std::byte data[16];
  };

  running_block running_;
  thread_scheduler scheduler_{running_};
  void (*run_)(machine&, void const*, int) = nullptr;
  void const* kernel_ = nullptr;
  Index blocks_ = 0;

  std::array<copy_state, max_threads> copies_;
  std::array<void*, max_threads> block_operands_{};  // the operands that threads pass to block_collective

  epochs epochs_;
  std::vector<aligned_bytes> shared_memory_;
  shared_shadow shared_shadow_;
  order order_;
  std::vector<std::array<stamp, epochs::max_warps>> readers_;  // for each 16 bytes: the latest read of each warp
  warpgroups* warpgroups_ = nullptr;
  std::vector<std::uint16_t> in_flight_;  // for each 16 bytes: 1 + the thread whose copy is in flight to them, or 0
  global_shadow global_;

  bool strict_ = false;
  std::vector<address_range> ranges_;
  std::uint64_t range_changes_ = 0;
  address_range inside_, beside_;  // cached answers: within a memory, far from all
};

}  // namespace headmix::cuda_kernels::emulator

#pragma once
// SPDX-License-Identifier: MIT
// Runs the blocks of a launch one after another, the threads of a block in turns, and watches what they do.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headmix/backend/cuda/emulator/fiber.hpp"
#include "headmix/backend/cuda/emulator/memory.hpp"
#include "headmix/backend/cuda/emulator/shadow.hpp"

namespace headmix::cuda::emulator {

/// What a launch needs to know of a kernel.
struct kernel_facts {
  std::string_view name;
  int threads = 0;
  bool cooperative = false;
  int shared_bytes = 0;
  std::size_t operand_bytes = 0;
};

/// What all lanes of a warp do together: the last to come runs `perform` over the operands of all.
struct warp_function {
  char const* name;
  int size;  // of what is exchanged: lanes must agree
  void (*perform)(std::array<void*, 32> const& lanes);
};

class machine {
 public:
  static constexpr int max_threads = 1024;
  static constexpr int max_shared_bytes = 227 * 1024;
  static constexpr std::size_t max_operand_bytes = 32764;

  machine() {
    for (int t = 0; t < max_threads; ++t) threads_[index(t)].owner = this;
  }

  /// Calls run(machine, kernel, t) for each thread t of each block.
  static void launch(kernel_facts const& facts, void (*run)(machine&, void const* kernel, int thread),
                     void const* kernel, Index blocks) {
    lease const machine;
    (*machine).run_blocks(facts, run, kernel, blocks);
  }

  [[nodiscard]] Index block() const { return block_; }
  [[nodiscard]] Index blocks() const { return blocks_; }

  // ---- meetings ----

  void sync(int thread) {
    must_cooperate(thread, "sync");
    if (++at_barrier_ < facts_.threads) return wait(thread, "sync");
    at_barrier_ = 0;
    epochs_.pass_barrier();
    for (int t = 0; t < facts_.threads; ++t) {
      if (t != thread) wake(t);
    }
  }
  void sync_warp(int thread) {
    static constexpr warp_function nothing{"sync_warp", 0, [](std::array<void*, 32> const&) {}};
    if (meet(thread, nothing, nullptr)) epochs_.pass_warp_barrier(thread / 32);
  }
  /// Returns when the function was performed, true for the lane that did it, the first to go on.
  bool meet(int thread, warp_function const& function, void* operands) {
    must_cooperate(thread, function.name);
    warp& w = warps_[index(thread / 32)];
    if (w.arrived > 0 && !same(function, *w.function)) {
      report(thread, "calls ", text_of(function), " while thread ", w.first, " of its warp waits at ",
             text_of(*w.function));
    }
    if (w.arrived == 0) {
      w.function = &function;
      w.first = thread;
    }
    w.operands[index(thread % 32)] = operands;
    if (++w.arrived < 32) {
      wait(thread, function.name);
      return false;
    }
    w.arrived = 0;
    function.perform(w.operands);
    for (int t = thread / 32 * 32; t < thread / 32 * 32 + 32; ++t) {
      if (t != thread) wake(t);
    }
    return true;
  }

  // ---- memory ----

  /// The address of `bytes` bytes of shared memory from `offset` on, after all checks of an access by the thread.
  std::byte* shared(int thread, Index offset, int bytes, int alignment, bool write) {
    check_shared(thread, offset, bytes, alignment, write);
    return enter_shared(thread, thread, offset, bytes, write);
  }
  /// A row of 16 bytes that goes to several lanes of the warp of the thread that names it.
  std::byte* shared_row(int thread, Index offset) {
    check_shared(thread, offset, 16, 16, false);
    return enter_shared(thread, lanes_of_warp + thread / 32, offset, 16, false);
  }
  void global(int thread, void const* pointer, int bytes, int alignment, bool write) {
    auto const address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address % static_cast<unsigned>(alignment) != 0) {
      report(thread, text_of(write), bytes, " bytes at ", text_of(address), ", not a multiple of ", alignment);
    }
    check_bounds(thread, address, bytes, write);
    enter_global(thread, address, bytes, write);
  }

  void copy_async16(int thread, Index to, void const* from, bool real) {
    must_cooperate(thread, "copy_async16");
    check_shared(thread, to, 16, 16, true);
    enter_shared(thread, thread, to, 16, true);
    if (auto const address = reinterpret_cast<std::uintptr_t>(from); address % 16 != 0) {
      report(thread, "copies 16 bytes from ", text_of(address), ", not a multiple of 16");
    }
    if (real) global(thread, from, 16, 16, false);
    thread_state& t = threads_[index(thread)];
    t.copies.push_back({from, static_cast<int>(to), t.group, real});
    in_flight_[index(to / 16)] = static_cast<std::uint16_t>(thread + 1);
  }
  void commit_copies(int thread) {
    must_cooperate(thread, "commit_copies");
    ++threads_[index(thread)].group;
  }
  void wait_copies(int thread, int latest) {
    must_cooperate(thread, "wait_copies");
    thread_state& t = threads_[index(thread)];
    while (t.landed < t.copies.size() && t.copies[t.landed].group < t.group - latest) {
      copy const& c = t.copies[t.landed++];
      in_flight_[index(c.to / 16)] = 0;
      std::byte* const to = enter_shared(thread, thread, c.to, 16, true);
      if (c.real) {
        enter_global(thread, reinterpret_cast<std::uintptr_t>(c.from), 16, false);  // it may be read as late as now
        std::memcpy(to, c.from, 16);
      } else {
        std::memset(to, 0, 16);
      }
    }
    if (t.landed == t.copies.size()) {
      t.copies.clear();
      t.landed = 0;
    }
  }

  void must_cooperate(int thread, char const* what) {
    if (!facts_.cooperative) report(thread, "calls ", what, " in a kernel that is not cooperative");
  }

  /// Ends the launch with an error about what a thread does.
  template <class... Part>
  [[noreturn, gnu::cold, gnu::noinline]] void report(int thread, Part const&... part) {
    fail(place(), "thread ", thread, " ", part...);
  }

 private:
  struct copy {
    void const* from;
    int to;
    int group;
    bool real;
  };
  struct thread_state {
    fiber stack;
    machine* owner = nullptr;
    char const* waits_at = nullptr;
    bool ended = false;
    int group = 0;  // the number of the group that its next copy belongs to
    std::size_t landed = 0;
    std::vector<copy> copies;  // the first `landed` are done
  };
  struct warp {
    int arrived = 0;
    int first = 0;
    warp_function const* function = nullptr;
    std::array<void*, 32> operands{};
  };

  static constexpr std::size_t index(Index i) { return static_cast<std::size_t>(i); }

  static bool same(warp_function const& f, warp_function const& g) {
    return &f == &g || (f.size == g.size && std::string_view(f.name) == g.name);
  }

  // ---- launches ----

  /// One that nobody uses, for the time of a launch.
  class lease {
   public:
    lease() : machine_(gather_cols()) {}
    lease(lease const&) = delete;
    lease& operator=(lease const&) = delete;
    ~lease() {
      std::lock_guard const lock(mutex());
      idle().push_back(std::move(machine_));
    }
    machine& operator*() const { return *machine_; }

   private:
    static std::unique_ptr<machine> gather_cols() {
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

  void run_blocks(kernel_facts const& facts, void (*run)(machine&, void const* kernel, int thread), void const* kernel,
                  Index blocks) {
    facts_ = facts;
    check(blocks);
    if (blocks == 0) return;
    run_ = run;
    kernel_ = kernel;
    blocks_ = blocks;
    prepare();
    for (block_ = 0; block_ < blocks; ++block_) {
      epochs_.begin_block();
      if (facts.cooperative) {
        run_in_turns();
      } else {
        for (int t = 0; t < facts.threads; ++t) run(*this, kernel, t);
      }
    }
  }

  void check(Index blocks) const {
    auto const wrong = [this](auto const&... part) { fail("kernel ", facts_.name, ": ", part...); };
    if (facts_.threads < 32 || facts_.threads > max_threads || facts_.threads % 32 != 0) {
      wrong("expected a multiple of 32 up to ", max_threads, " threads of a block, found ", facts_.threads);
    }
    if (facts_.shared_bytes < 0 || facts_.shared_bytes > max_shared_bytes) {
      wrong("expected at most ", max_shared_bytes, " bytes of shared memory, found ", facts_.shared_bytes);
    }
    if (facts_.operand_bytes > max_operand_bytes) {
      wrong("expected at most ", max_operand_bytes, " bytes of operands, found ", facts_.operand_bytes);
    }
    if (blocks < 0 || blocks > 0x7FFFFFFF) wrong("expected 0 to 2147483647 blocks, found ", blocks);
  }
  void prepare() {
    // Stamps must not run out within a launch, nor pages of the shadow fill the memory.
    if (epochs_.now > 0x80000000u || global_.pages() > 4096) {
      global_.forget();
      shared_shadow_.forget();
      epochs_.now = 0;
    }
    epochs_.begin_launch();
    auto const bytes = index((facts_.shared_bytes + 15) / 16 * 16);
    if (shared_memory_.size() < bytes / 16) {
      shared_memory_.resize(bytes / 16);
      shared_shadow_.reserve(bytes);
      in_flight_.resize(bytes / 16);
    }
    strict_ = memory_list::instance().strict > 0;
    memory_list::instance().copy_to(ranges_, range_changes_);
    inside_ = beside_ = {};
    deadlock_.clear();
  }

  // ---- turns ----

  void run_in_turns() {
    std::fill_n(in_flight_.begin(), (facts_.shared_bytes + 15) / 16, std::uint16_t{0});
    warps_.fill({});
    at_barrier_ = ended_ = 0;
    first_ready_ = ready_ = 0;
    for (int t = 0; t < facts_.threads; ++t) {
      thread_state& state = threads_[index(t)];
      state.waits_at = nullptr;
      state.ended = false;
      state.group = 0;
      state.landed = 0;
      state.copies.clear();
      state.stack.prepare(&machine::run_thread, &state);
      wake(t);
    }
    next(host_, false);
    if (!deadlock_.empty()) fail(place(), deadlock_);
    rethrow();
  }
  static void run_thread(void* argument) {
    auto& state = *static_cast<thread_state*>(argument);
    machine& self = *state.owner;
    self.guarded_run(static_cast<int>(&state - self.threads_.data()));
    state.ended = true;
    ++self.ended_;
    self.next(state.stack, true);
  }
#ifdef HEADMIX_NO_EXCEPTIONS
  void guarded_run(int thread) { run_(*this, kernel_, thread); }
  void rethrow() {}
#else
  /// An error must leave on the stack of the host. The other threads stay where they are and are never heard of again:
  /// what they have on their stacks is device code's, which has no destructors to run.
  void guarded_run(int thread) {
    try {
      run_(*this, kernel_, thread);
      return;
    } catch (...) {
      error_ = std::current_exception();
    }
    fiber::switch_stacks(threads_[index(thread)].stack, host_, true);
  }
  void rethrow() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
#endif

  void wake(int thread) {
    threads_[index(thread)].waits_at = nullptr;
    queue_[index((first_ready_ + ready_++) % max_threads)] = static_cast<std::uint16_t>(thread);
  }
  void wait(int thread, char const* where) {
    threads_[index(thread)].waits_at = where;
    next(threads_[index(thread)].stack, false);
  }
  /// Runs whoever may go on, the host when all have ended.
  void next(fiber& from, bool last) {
    if (ready_ == 0) {
      if (ended_ < facts_.threads) deadlock_ = describe_deadlock();
      return fiber::switch_stacks(from, host_, last);
    }
    int const thread = queue_[index(first_ready_)];
    first_ready_ = (first_ready_ + 1) % max_threads;
    --ready_;
    fiber::switch_stacks(from, threads_[index(thread)].stack, last);
  }

  // ---- checks ----

  void check_shared(int thread, Index offset, int bytes, int alignment, bool write) {
    must_cooperate(thread, "shared");
    if (offset < 0 || offset + bytes > facts_.shared_bytes) {
      report(thread, text_of(write), bytes, " bytes at byte ", offset, " of shared memory, which has ",
             facts_.shared_bytes);
    }
    if (offset % alignment != 0) {
      report(thread, text_of(write), bytes, " bytes at byte ", offset, " of shared memory, not a multiple of ",
             alignment);
    }
    for (Index i = offset / 16; i <= (offset + bytes - 1) / 16; ++i) {
      if (in_flight_[index(i)] != 0) {
        report(thread, text_of(write), "byte ", i * 16, " of shared memory while a copy of thread ",
               in_flight_[index(i)] - 1, " to it is on its way");
      }
    }
  }
  std::byte* enter_shared(int thread, int who, Index offset, int bytes, bool write) {
    access_check<false> const access(epochs_, who, thread / 32);
    finding const found = access.access(shared_shadow_, index(offset), bytes, write);
    if (found.problem == finding::uninitialised) {
      report(thread, "reads byte ", offset + found.byte, " of shared memory, which nobody has written");
    }
    if (found.problem != finding::nothing) {
      report(thread, "races: it ", text_of(write), "byte ", offset + found.byte, " of shared memory, which ",
             text_of_before(found, false));
    }
    return reinterpret_cast<std::byte*>(shared_memory_.data()) + offset;
  }

  void check_bounds(int thread, std::uintptr_t address, int bytes, bool write) {
    std::uintptr_t const end = address + static_cast<unsigned>(bytes);
    if (address >= inside_.begin && end <= inside_.end) return;
    if (address >= beside_.begin && end <= beside_.end && !strict_) return;
    // The neighbours: `above` is the first that begins behind the address.
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
      report(thread, text_of(write), bytes, " bytes at byte ", address - lower.begin, " of memory (",
             text_of(lower.begin), "), which has ", lower.end - lower.begin);
    }
    if (before_upper) {
      report(thread, text_of(write), bytes, " bytes at ", text_of(address), ", ", upper.begin - address,
             " bytes before the memory at ", text_of(upper.begin));
    }
    if (strict_) report(thread, text_of(write), bytes, " bytes at ", text_of(address), ", in no memory of the device");
    beside_ = {lower.end == 0 ? 0 : lower.end + gap, upper.end == 0 ? upper.begin : upper.begin - gap};
  }
  void enter_global(int thread, std::uintptr_t address, int bytes, bool write) {
    access_check<true> const access(epochs_, thread, thread / 32);
    while (bytes > 0) {
      auto const room = static_cast<int>(global_shadow::page_bytes - address % global_shadow::page_bytes);
      int const part = bytes < room ? bytes : room;
      finding const found = access.access(global_.page_of(address), address % global_shadow::page_bytes, part, write);
      if (found.problem != finding::nothing) {
        report(thread, "races: it ", text_of(write), text_of_place(address + static_cast<unsigned>(found.byte)),
               ", which ", text_of_before(found, true));
      }
      address += static_cast<unsigned>(part);
      bytes -= part;
    }
  }

  // ---- texts ----

  [[nodiscard]] std::string place() const { return message("kernel ", facts_.name, ", block ", block_, ": "); }
  static char const* text_of(bool write) { return write ? "writes " : "reads "; }
  static std::string text_of(warp_function const& function) {
    return function.size == 0 ? std::string(function.name) : message(function.name, " of ", function.size, " bytes");
  }
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
    if (who == several_warps) return message("threads of several warps have read", between);
    if (who >= lanes_of_warp) return message("several lanes of warp ", who - lanes_of_warp, " have read", between);
    return message("thread ", int{who}, did, between);
  }
  [[nodiscard]] std::string describe_deadlock() const {
    std::vector<char const*> places;  // nullptr: ended
    for (int t = 0; t < facts_.threads; ++t) {
      char const* const where = threads_[index(t)].ended ? nullptr : threads_[index(t)].waits_at;
      if (std::find(places.begin(), places.end(), where) == places.end()) places.push_back(where);
    }
    std::string text = "deadlock:";
    for (std::size_t i = 0; i < places.size(); ++i) {
      int first = -1, others = -1;
      for (int t = 0; t < facts_.threads; ++t) {
        if ((threads_[index(t)].ended ? nullptr : threads_[index(t)].waits_at) != places[i]) continue;
        if (first < 0) first = t;
        ++others;
      }
      text += message(i == 0 ? " thread " : ", thread ", first);
      if (others > 0) text += message(" and ", others, others == 1 ? " other" : " others");
      bool const one = others == 0;
      text += places[i] ? message(one ? " waits at " : " wait at ", places[i]) : (one ? " has ended" : " have ended");
    }
    return text;
  }

  struct alignas(16) aligned_bytes {
    std::byte data[16];
  };

  kernel_facts facts_;
  void (*run_)(machine&, void const*, int) = nullptr;
  void const* kernel_ = nullptr;
  Index block_ = 0, blocks_ = 0;

  fiber host_;
  std::array<thread_state, max_threads> threads_;
  std::array<warp, max_threads / 32> warps_;
  std::array<std::uint16_t, max_threads> queue_{};  // a ring of threads that may go on
  int first_ready_ = 0, ready_ = 0, at_barrier_ = 0, ended_ = 0;

  epochs epochs_;
  std::vector<aligned_bytes> shared_memory_;
  shared_shadow shared_shadow_;
  std::vector<std::uint16_t> in_flight_;  // of each 16 bytes: 1 + the thread whose copy is on its way to them, or 0
  global_shadow global_;

  bool strict_ = false;
  std::vector<address_range> ranges_;
  std::uint64_t range_changes_ = 0;
  address_range inside_, beside_;  // answers that may well serve again: within a memory, far from all

  std::string deadlock_;
  std::exception_ptr error_;
};

}  // namespace headmix::cuda::emulator

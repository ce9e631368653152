#pragma once
// SPDX-License-Identifier: MIT
// Emulated Hopper instructions: barriers for parts of a block, TMA copies of tiles, warpgroup MMAs, and register
// reallocation (setmaxnreg). Every asynchronous operation completes as late as allowed.

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/testing/emulator/barriers.hpp"
#include "headmix/testing/emulator/machine.hpp"
#include "headmix/testing/emulator/products.hpp"
#include "headmix/testing/emulator/tile_copies.hpp"

namespace headmix::cuda_kernels::emulator {

/// The number of registers per thread of each warpgroup (setmaxnreg). Raising it beyond the block's free registers
/// waits for another warpgroup to release some.
class register_counts {
 public:
  explicit register_counts(machine& m) : m_(m) {}

  void begin_block() {
    // The registers per thread of a launch: a multiple of 8, and at most 255.
    int const threads = m_.running_.block_threads(), fair = all_registers / threads / 8 * 8;
    int const each = fair < 248 ? fair : 248;
    groups_.fill({each, 0});
    block_registers_ = each * threads;
    waiting_.clear();
  }

  void decrease(int thread, int n) {
    m_.scheduler_.warpgroup_collective(thread, "setmaxnreg_dec", nullptr, [&](group_operands const&) {
      group& g = group_of(thread);
      check(thread, n);
      if (n > g.registers) m_.running_.report(thread, "gives registers until it has ", n, " of ", g.registers);
      g.registers = n;
    });
    for (int const other : std::exchange(waiting_, {})) m_.scheduler_.wake_up(other);
  }
  void increase(int thread, int n) {
    m_.scheduler_.warpgroup_collective(thread, "setmaxnreg_inc", nullptr, [&](group_operands const&) {
      check(thread, n);
      if (n < group_of(thread).registers) {
        m_.running_.report(thread, "takes registers until it has ", n, " of ", group_of(thread).registers);
      }
      group_of(thread).requested = n;
    });
    while (group_of(thread).requested != 0) {
      int sum = 0;
      int const groups = m_.running_.block_threads() / warpgroup_threads, first = m_.running_.rank_of(thread) * groups;
      for (int g = first; g < first + groups; ++g) {
        bool const mine = g == thread / warpgroup_threads;
        sum += (mine ? n : groups_[index(g)].registers) * warpgroup_threads;
      }
      if (sum <= block_registers_) {
        group_of(thread).registers = n;
        group_of(thread).requested = 0;
        return;
      }
      waiting_.push_back(thread);
      m_.scheduler_.wait_for_wake(thread, message("setmaxnreg_inc<", n, ">"));
    }
  }

 private:
  static constexpr int all_registers = 65536;  // of a multiprocessor
  struct group {
    int registers = 0, requested = 0;
  };

  static std::size_t index(Index i) { return static_cast<std::size_t>(i); }
  group& group_of(int thread) { return groups_[index(thread / warpgroup_threads)]; }
  void check(int thread, int n) const {
    if (n < 24 || n > 256 || n % 8 != 0) {
      m_.running_.report(thread, "wants ", n, " registers, expected a multiple of 8 from 24 to 256");
    }
  }

  machine& m_;
  std::array<group, machine::max_threads / warpgroup_threads> groups_;
  std::vector<int> waiting_;
  int block_registers_ = 0;  // registers of the block's launch: one warpgroup's increase needs another's release
};

/// The state for warpgroup kernels.
struct warpgroups {
  emulator::barriers barriers;
  tile_copies copies;
  emulator::products products;
  register_counts registers;

  explicit warpgroups(machine& m) : barriers(m), copies(m, barriers), products(m, copies), registers(m) {}

  void begin_block() {
    barriers.begin_block();
    copies.begin_block();
    products.begin_block();
    registers.begin_block();
  }
  void end_block() const {
    barriers.end_block();
    copies.end_block();
    products.end_block();
  }
};

inline void machine::check_asynchronous(int thread, Index offset, int bytes, bool write) {
  warpgroups_->barriers.check_access(thread, offset, bytes, write);
  if (write) warpgroups_->products.check_write(thread, offset, bytes);
}
inline void machine::sync_block(int thread) {
  for_warpgroups(thread).barriers.sync_named(thread, 0, running_.block_threads());
}
inline void machine::run_warpgroups() {
  warpgroups state(*this);
  struct guard {
    machine& m;
    guard(machine& of, warpgroups& s) : m(of) {
      m.warpgroups_ = &s;
      m.scheduler_.watch(
          &s, [](void* context) { return static_cast<warpgroups*>(context)->copies.stalled(); },
          [](void* context) { return static_cast<warpgroups*>(context)->barriers.explain(); });
    }
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;
    ~guard() {
      m.scheduler_.watch(nullptr, nullptr, nullptr);
      m.order_.turn_off();
      m.warpgroups_ = nullptr;
    }
  } const in_use(*this, state);
  state.begin_block();
  order_.begin_block(epochs_, running_.kernel.threads);
  scheduler_.run(&machine::run_thread, this);
  state.end_block();
}

}  // namespace headmix::cuda_kernels::emulator

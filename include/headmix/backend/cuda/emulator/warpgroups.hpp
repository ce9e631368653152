#pragma once
// SPDX-License-Identifier: MIT
// Hopper's own instructions, emulated: barriers in shared memory, barriers of some threads, copies of tiles by TMA and
// products of warpgroups. As late as they may:
//
//   - a tile lands when no thread can go on without it, the latest copy first. Until then nobody may touch where it
//     goes, and then only who has waited at its barrier;
//   - sums of a product are NaN from its beginning until a wait names them; what it reads may not change before that,
//     neither in shared memory nor in registers.
//
// Errors also are: what one proxy wrote and the other one uses with no fence between; a tile that lies otherwise than
// the descriptor says; registers that no fence of products has seen; arrivals too many; barriers that nobody made, or
// of another number of threads; registers that there are not; a block that ends while copies or products are on their
// way. A wait with the wrong parity goes on too early, which one of these finds, or never.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "headmix/backend/cuda/emulator/machine.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"

namespace headmix::gpu::emulator {

/// A matrix that tiles of are copied.
struct tensor_map {
  bfloat16 const* data = nullptr;
  Index rows = 0, cols = 0, row_stride = 0;
  int box_rows = 0;  ///< of a tile, which has one panel of columns
  tile_swizzle swizzle = tile_swizzle::bytes_128;
};

class warpgroups {
 public:
  static constexpr int max_groups = machine::max_threads / warpgroup_threads;

  explicit warpgroups(machine& m) : m_(m) {}

  void begin_block() {
    barriers_.clear();
    tiles_.clear();
    named_ = {};
    groups_ = {};
    chunks_.assign(index((m_.running_.kernel.shared_bytes + 15) / 16), {});
    // What a launch gives to each thread: a multiple of 8, and at most 255.
    int const fair = 65536 / m_.running_.kernel.threads / 8 * 8;
    for (group& g : groups_) g.registers = fair < 248 ? fair : 248;
    wanting_.clear();
  }
  void end_block() const {
    for (std::size_t i = 0; i < named_.size(); ++i) {
      if (named_[i].threads == 0) continue;
      m_.running_.report(named_[i].come.front(), "comes to the named barrier ", i, " for ", named_[i].threads,
                         " threads, of whom ", named_[i].come.size(), " have come when the block ends");
    }
    if (!tiles_.empty()) m_.running_.report(tiles_.front().thread, "ends while a tile that it copies is on its way");
    for (int g = 0; g < max_groups; ++g) {
      if (!groups_[index(g)].sums.empty() || !groups_[index(g)].reads.empty()) {
        m_.running_.report(g * warpgroup_threads, "ends while products of its warpgroup are on their way");
      }
    }
  }

  // ---- barriers of some threads ----

  void sync_named(int thread, int number, int threads) {
    if (come(thread, number, threads, "sync_named")) return;
    named_barrier& b = named_[index(number)];
    b.waiting.push_back(thread);
    m_.turns_.wait_for_wake(thread, text(message("sync_named(", number, ")")));
  }
  void arrive_named(int thread, int number, int threads) { come(thread, number, threads, "arrive_named"); }

  // ---- barriers in shared memory ----

  void init_barrier(int thread, Index at, int arrivals) {
    m_.must_cooperate(thread, "init_barrier");
    if (arrivals < 1 || arrivals > max_arrivals) {
      m_.running_.report(thread, "makes a barrier of ", arrivals, " arrivals, expected 1 to ", max_arrivals);
    }
    if (barriers_.contains(at)) m_.running_.report(thread, "makes the barrier at byte ", at, " once more");
    if (barriers_.size() == index(max_agents)) m_.running_.report(thread, "makes more than ", max_agents, " barriers");
    m_.check_shared(thread, at, 8, 8, true);
    m_.enter_shared(thread, thread, at, 8, true);
    barrier b;
    b.agent = static_cast<party>(first_agent + barriers_.size());
    b.arrivals = b.missing = arrivals;
    barriers_[at] = b;
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
  void wait_barrier(int thread, Index at, int parity) {
    if (parity != 0 && parity != 1) m_.running_.report(thread, "waits for parity ", parity, ", expected 0 or 1");
    while (true) {
      barrier& b = barrier_at(thread, at, "waits at");
      if (b.phase % 2 != static_cast<unsigned>(parity)) {
        m_.order_.acquire(thread, b.before);
        return;
      }
      b.waiting.push_back(thread);
      m_.turns_.wait_for_wake(thread, text(message("the barrier at byte ", at, " for parity ", parity)));
    }
  }
  void fence_async(int thread) {
    m_.must_cooperate(thread, "fence_async");
    m_.order_.fence(thread, m_.epochs_);
  }

  // ---- copies ----

  void copy_tile(int thread, Index to, tensor_map const& from, Index row, Index col, Index at) {
    barrier_at(thread, at, "copies a tile for");
    shadow_state const made = m_.shared_shadow_.words()[at / 4];
    if (!m_.order_.is_fenced(thread, made.writer, made.written)) {
      m_.running_.report(thread, "copies a tile for the barrier at byte ", at, ", which thread ", int{made.writer},
                         " has made, with no fence_async between");
    }
    Index const alignment = from.swizzle == tile_swizzle::none ? 128 : panel_alignment;
    Index const bytes = Index{from.box_rows} * panel_row_bytes;
    if (to % alignment != 0) {
      m_.running_.report(thread, "copies a tile to byte ", to, " of shared memory, not a multiple of ", alignment);
    }
    if (to < 0 || to + bytes > m_.running_.kernel.shared_bytes) {
      m_.running_.report(thread, "copies a tile of ", bytes, " bytes to byte ", to, " of shared memory, which has ",
                         m_.running_.kernel.shared_bytes);
    }
    for (Index byte = to; byte < to + bytes; byte += 16) {
      m_.check_shared(thread, byte, 16, 16, true);
      for (Index i = byte; i < byte + 16; ++i) check_fence(thread, i, "copies a tile to");
      m_.enter_shared(thread, thread, byte, 16, true);
      m_.in_flight_[index(byte / 16)] = static_cast<std::uint16_t>(thread + 1);
    }
    tiles_.push_back({thread, to, from, row, col, at});
  }

  // ---- products ----

  /// Registers of a thread that products use, and how many bytes they have.
  struct registers {
    void* at;
    std::size_t bytes;
  };
  using register_list = std::vector<registers>;

  void fence_products(int thread, register_list const& used) {
    m_.turns_.meet_group(thread, "fence_products", const_cast<register_list*>(&used), [&](group_operands const& all) {
      group& g = group_of(thread);
      g.fenced.clear();
      for (std::size_t i = 0; i < used.size(); ++i) {
        seen_registers s;
        for (std::size_t t = 0; t < warpgroup_threads; ++t) {
          registers const r = static_cast<register_list const*>(all[t])->at(i);
          s.at[t] = static_cast<std::byte*>(r.at);
          s.values.insert(s.values.end(), s.at[t], s.at[t] + r.bytes);
          s.bytes = r.bytes;
        }
        g.fenced.push_back(std::move(s));
      }
    });
  }

  struct product {
    char const* name;
    float* c;
    int n;  // columns
    words<4> const* a;
    matrix_descriptor left, right;
    bool add, across;
  };
  void multiply(int thread, product const& own) {
    m_.turns_.meet_group(thread, own.name, const_cast<product*>(&own),
                         [&](group_operands const& all) { begin_product(thread / warpgroup_threads, all); });
  }
  void commit_products(int thread) {
    m_.turns_.meet_group(thread, "commit_products", nullptr, [&](group_operands const&) { ++group_of(thread).number; });
  }
  void wait_products(int thread, int latest, register_list const& used) {
    m_.turns_.meet_group(thread, "wait_products", const_cast<register_list*>(&used),
                         [&](group_operands const& all) { end_products(thread / warpgroup_threads, latest, all); });
  }

  // ---- registers ----

  void give_registers(int thread, int n) {
    m_.turns_.meet_group(thread, "give_registers", nullptr, [&](group_operands const&) {
      group& g = group_of(thread);
      check_registers(thread, n);
      if (n > g.registers) m_.running_.report(thread, "gives registers until it has ", n, " of ", g.registers);
      g.registers = n;
    });
    for (int const other : std::exchange(wanting_, {})) m_.turns_.wake_up(other);
  }
  void take_registers(int thread, int n) {
    m_.turns_.meet_group(thread, "take_registers", nullptr, [&](group_operands const&) {
      check_registers(thread, n);
      if (n < group_of(thread).registers) {
        m_.running_.report(thread, "takes registers until it has ", n, " of ", group_of(thread).registers);
      }
      group_of(thread).wanted = n;
    });
    while (group_of(thread).wanted != 0) {
      int sum = 0;
      for (int g = 0; g < m_.running_.kernel.threads / warpgroup_threads; ++g) {
        bool const mine = g == thread / warpgroup_threads;
        sum += (mine ? n : groups_[index(g)].registers) * warpgroup_threads;
      }
      if (sum <= 65536) {
        group_of(thread).registers = n;
        group_of(thread).wanted = 0;
        return;
      }
      wanting_.push_back(thread);
      m_.turns_.wait_for_wake(thread, text(message("take_registers<", n, ">")));
    }
  }

  // ---- for the machine ----

  void check_access(int thread, Index offset, int bytes, bool write) const {
    auto const next = barriers_.upper_bound(offset + bytes - 1);
    if (next != barriers_.begin() && std::prev(next)->first + 8 > offset) {
      m_.running_.report(thread, m_.text_of(write), "byte ", std::prev(next)->first,
                         " of shared memory, where a barrier is");
    }
    if (!write) return;
    for (Index c = offset / 16; c <= (offset + bytes - 1) / 16; ++c) {
      chunk const& k = chunks_[index(c)];
      if (k.reading != 0) {
        m_.running_.report(thread, "writes byte ", c * 16, " of shared memory while products of warpgroup ",
                           std::countr_zero(k.reading), " read it");
      }
      for (int g = 0; g < max_groups; ++g) {
        if (k.read[index(g)] < m_.epochs_.barrier) continue;
        for (int w = 4 * g; w < 4 * g + 4; ++w) {
          if (w == thread / 32 || m_.order_.knows_warp(thread, w, k.read[index(g)])) continue;
          m_.running_.report(thread, "races: it writes byte ", c * 16, " of shared memory, which products of warp ", w,
                             " have read, with no barrier between");
        }
      }
    }
  }
  /// No thread can go on: a tile lands. False where none is on its way.
  bool stalled() {
    if (tiles_.empty()) return false;
    tile const t = tiles_.back();
    tiles_.pop_back();
    land(t);
    return true;
  }
  [[nodiscard]] std::string explain() const {
    std::string all;
    for (auto const& [at, b] : barriers_) {
      if (b.waiting.empty()) continue;
      all += message("; the barrier at byte ", at, ", phase ", b.phase, ", lacks ", b.missing, " of ", b.arrivals,
                     " arrivals and ", b.bytes, " bytes");
    }
    return all;
  }

 private:
  static constexpr int max_arrivals = (1 << 20) - 1;
  static constexpr std::uint32_t poison = 0x7FA5A5A5;  // a NaN that arithmetic changes

  struct named_barrier {
    int threads = 0;  // that it waits for; 0: nobody has come
    std::vector<int> come, waiting;
    order::clock clock;
  };
  struct barrier {
    party agent = 0;
    int arrivals = 0, missing = 0;
    long bytes = 0;  // expected, and not there
    unsigned phase = 0;
    order::clock now, before;  // of this phase and of the last one
    std::vector<int> waiting;
  };
  struct tile {
    int thread;
    Index to;
    tensor_map from;
    Index row, col, barrier;
  };
  /// Of 16 bytes of shared memory.
  struct chunk {
    std::uint8_t reading = 0;  // bit g: a product of warpgroup g
    std::uint8_t layout = 0;   // 1 + the swizzle that a tile was copied with; 0: none was
    std::array<stamp, max_groups> read{};
  };
  /// Registers of all threads of a warpgroup, and what was in them.
  struct seen_registers {
    std::array<std::byte*, warpgroup_threads> at{};
    std::size_t bytes = 0;
    std::vector<std::byte> values;

    [[nodiscard]] bool has(void const* first) const { return first >= at[0] && first < at[0] + bytes; }
    /// The first thread whose registers have changed, -1 for none.
    [[nodiscard]] int changed() const {
      for (std::size_t t = 0; t < warpgroup_threads; ++t) {
        if (std::memcmp(at[t], values.data() + t * bytes, bytes) != 0) return static_cast<int>(t);
      }
      return -1;
    }
  };
  /// Sums of products that no wait has named yet.
  struct held_sums {
    std::array<float*, warpgroup_threads> at{};
    int n = 0, group = 0;
    std::vector<float> values;  // 64 x n
  };
  struct held_left {
    seen_registers a;
    int group;
  };
  struct held_read {
    Index chunk;
    int group;
  };
  struct group {
    int number = 0;  // of the group of products that is open
    std::vector<seen_registers> fenced;
    std::vector<held_sums> sums;
    std::vector<held_left> left;
    std::vector<held_read> reads;
    int registers = 0, wanted = 0;
  };

  static std::size_t index(Index i) { return static_cast<std::size_t>(i); }
  group& group_of(int thread) { return groups_[index(thread / warpgroup_threads)]; }
  /// A text that lives as long as this.
  char const* text(std::string const& t) { return texts_.insert(t).first->c_str(); }

  /// True if all have come.
  bool come(int thread, int number, int threads, char const* what) {
    m_.must_cooperate(thread, what);
    if (number < 1 || number > 15) m_.running_.report(thread, "calls ", what, "(", number, "), expected 1 to 15");
    if (threads < 32 || threads % 32 != 0 || threads > m_.running_.kernel.threads) {
      m_.running_.report(thread, "calls ", what, "(", number, ") for ", threads, " threads of ",
                         m_.running_.kernel.threads);
    }
    named_barrier& b = named_[index(number)];
    if (b.threads != 0 && b.threads != threads) {
      m_.running_.report(thread, "calls ", what, "(", number, ") for ", threads, " threads, thread ", b.come.front(),
                         " for ", b.threads);
    }
    if (std::find(b.come.begin(), b.come.end(), thread) != b.come.end()) {
      m_.running_.report(thread, "comes to the named barrier ", number, " twice, before others have come once");
    }
    b.threads = threads;
    b.come.push_back(thread);
    m_.order_.release(thread, m_.epochs_, b.clock);
    if (static_cast<int>(b.come.size()) < threads) return false;
    named_barrier const all = std::exchange(b, {});
    m_.order_.acquire(thread, all.clock);
    for (int const other : all.waiting) {
      m_.order_.acquire(other, all.clock);
      m_.turns_.wake_up(other);
    }
    return true;
  }

  barrier& barrier_at(int thread, Index at, char const* does) {
    m_.must_cooperate(thread, "barriers in shared memory");
    auto const found = barriers_.find(at);
    if (found == barriers_.end()) {
      m_.running_.report(thread, does, " byte ", at, " of shared memory, where nobody has made a barrier");
    }
    m_.enter_shared(thread, thread, at, 8, false);
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
    for (int const thread : std::exchange(b.waiting, {})) m_.turns_.wake_up(thread);
  }
  void land(tile const& t) {
    auto* const to = reinterpret_cast<std::byte*>(m_.shared_memory_.data());
    stamp const when = ++m_.epochs_.now;
    barrier& b = barriers_.at(t.barrier);
    for (int i = 0; i < t.from.box_rows; ++i) {
      for (int c = 0; c < panel_columns / 8; ++c) {
        auto const straight = static_cast<std::uint32_t>(t.to + i * panel_row_bytes + c * 16);
        Index const at = t.from.swizzle == tile_swizzle::none ? straight : swizzle_128(straight);
        std::array<bfloat16, 8> values{};
        Index const row = t.row + i;
        for (Index e = 0; e < 8; ++e) {
          Index const col = t.col + 8 * c + e;
          if (row < 0 || row >= t.from.rows || col < 0 || col >= t.from.cols) continue;
          bfloat16 const* const from = t.from.data + row * t.from.row_stride + col;
          m_.global(t.thread, from, 2, 2, false);
          values[index(e)] = *from;
        }
        std::memcpy(to + at, values.data(), 16);
        for (Index w = at / 4; w < at / 4 + 4; ++w) m_.shared_shadow_.words()[w] = {when, 0, b.agent, 0};
        m_.in_flight_[index(at / 16)] = 0;
        chunks_[index(at / 16)].layout = static_cast<std::uint8_t>(1 + static_cast<int>(t.from.swizzle));
      }
    }
    m_.order_.add_agent(b.now, b.agent, when);
    b.bytes -= Index{t.from.box_rows} * panel_row_bytes;
    complete(b);
  }

  [[nodiscard]] shadow_state const& past(Index byte) {
    shadow_state const& word = m_.shared_shadow_.words()[byte / 4];
    return word.writer == each_byte ? m_.shared_shadow_.bytes()[byte] : word;
  }
  /// The asynchronous proxy uses a byte: what threads wrote there must have been fenced.
  void check_fence(int thread, Index byte, char const* does) {
    shadow_state const& s = past(byte);
    if (s.written < m_.epochs_.block || s.writer >= first_agent) return;
    if (m_.order_.is_fenced(thread, s.writer, s.written)) return;
    m_.running_.report(thread, does, " byte ", byte, " of shared memory, which thread ", int{s.writer},
                       " has written, with no fence_async between");
  }
  /// A product of a warpgroup reads 16 bytes.
  void read_chunk(int g, Index address, std::vector<std::pair<party, stamp>>& checked) {
    int const first = g * warpgroup_threads;
    if (address + 16 > m_.running_.kernel.shared_bytes) {
      m_.running_.report(first, "multiplies byte ", address, " of shared memory, which has ",
                         m_.running_.kernel.shared_bytes);
    }
    chunk& k = chunks_[index(address / 16)];
    if (m_.in_flight_[index(address / 16)] != 0) {
      m_.running_.report(first, "multiplies byte ", address, " of shared memory while a copy of thread ",
                         m_.in_flight_[index(address / 16)] - 1, " to it is on its way");
    }
    if (k.layout != 0 && k.layout != 1 + static_cast<int>(tile_swizzle::bytes_128)) {
      m_.running_.report(first, "multiplies byte ", address,
                         " of shared memory as part of a tile with 128-byte swizzle; it was copied without");
    }
    for (Index byte = address; byte < address + 16; ++byte) {
      shadow_state const s = past(byte);
      if (s.written < m_.epochs_.block) {
        m_.running_.report(first, "multiplies byte ", byte, " of shared memory, which nobody has written");
      }
      if (std::find(checked.begin(), checked.end(), std::pair(s.writer, s.written)) != checked.end()) continue;
      for (int t = first; t < first + warpgroup_threads; ++t) {
        bool const ordered = (!is_agent(s.writer) && s.written < m_.epochs_.barrier) || s.writer == t ||
                             m_.order_.knows(t, s.writer, s.written);
        if (!ordered && is_agent(s.writer)) {
          m_.running_.report(t, "races: it multiplies byte ", byte,
                             " of shared memory, which a copy of a tile has written; it must wait at that one's "
                             "barrier");
        }
        if (!ordered) {
          m_.running_.report(t, "races: it multiplies byte ", byte, " of shared memory, which thread ", int{s.writer},
                             " has written, with no barrier between");
        }
        check_fence(t, byte, "multiplies");
      }
      checked.emplace_back(s.writer, s.written);
    }
    k.reading = static_cast<std::uint8_t>(k.reading | 1u << g);
    groups_[index(g)].reads.push_back({address / 16, groups_[index(g)].number});
  }
  [[nodiscard]] float number_at(Index address) const {
    std::uint16_t bits;
    std::memcpy(&bits, reinterpret_cast<std::byte const*>(m_.shared_memory_.data()) + address, 2);
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  void check_descriptor(int g, matrix_descriptor d, char const* side) const {
    int const thread = g * warpgroup_threads;
    constexpr std::uint64_t fields = 0xC000'3FFF'3FFF'3FFF, mode = std::uint64_t{3} << 62;
    if ((d.bits & mode) != std::uint64_t{1} << 62) {
      m_.running_.report(thread, "describes its ", side, " operand with swizzle mode ", d.bits >> 62,
                         ", expected 1, 128 bytes");
    }
    if ((d.bits & ~fields) != 0) {
      m_.running_.report(thread, "describes its ", side, " operand with a base offset or with bits that mean nothing");
    }
    if ((d.bits & 0x3FFF) * 16 % panel_alignment >= panel_row_bytes) {
      m_.running_.report(thread, "describes its ", side, " operand from byte ", (d.bits & 0x3FFF) * 16,
                         " of shared memory on, which is inside of eight rows");
    }
  }
  /// 16 columns of `rows` rows that run along the depth; panel by panel, `stride` bytes between eight rows and eight.
  void read_rows(int g, matrix_descriptor d, int rows, float (*to)[16], std::vector<std::pair<party, stamp>>& checked) {
    auto const start = static_cast<std::uint32_t>(d.bits & 0x3FFF) * 16;
    auto const stride = static_cast<std::uint32_t>(d.bits >> 32 & 0x3FFF) * 16;
    for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(rows); ++r) {
      for (std::uint32_t half = 0; half < 2; ++half) {
        Index const at = swizzle_128(start + r / 8 * stride + r % 8 * panel_row_bytes + half * 16);
        read_chunk(g, at, checked);
        for (Index e = 0; e < 8; ++e) to[r][half * 8 + static_cast<std::uint32_t>(e)] = number_at(at + 2 * e);
      }
    }
  }
  /// The 16 rows of `cols` columns that run across the depth.
  void read_columns(int g, matrix_descriptor d, int cols, float (*to)[16],
                    std::vector<std::pair<party, stamp>>& checked) {
    auto const start = static_cast<std::uint32_t>(d.bits & 0x3FFF) * 16;
    auto const leading = static_cast<std::uint32_t>(d.bits >> 16 & 0x3FFF) * 16;
    auto const stride = static_cast<std::uint32_t>(d.bits >> 32 & 0x3FFF) * 16;
    for (std::uint32_t k = 0; k < 16; ++k) {
      for (std::uint32_t c = 0; c < static_cast<std::uint32_t>(cols); c += 8) {
        Index const at = swizzle_128(start + c / panel_columns * leading + k / 8 * stride + k % 8 * panel_row_bytes +
                                     c % panel_columns * 2);
        read_chunk(g, at, checked);
        for (Index e = 0; e < 8; ++e) to[c + static_cast<std::uint32_t>(e)][k] = number_at(at + 2 * e);
      }
    }
  }
  /// Where thread t of a warpgroup has its i-th sum: 16 rows are a warp's, as mma.sync has them.
  struct place_of_sum {
    int row, col;
  };
  static place_of_sum place_of(int t, int i) {
    int const lane = t % 32, half = i / 2 % 2;
    return {t / 32 * 16 + half * 8 + lane / 4, i / 4 * 8 + lane % 4 * 2 + i % 2};
  }
  void check_fenced(int g, void const* first, char const* what) const {
    int const thread = g * warpgroup_threads;
    for (seen_registers const& s : groups_[index(g)].fenced) {
      if (!s.has(first)) continue;
      if (int const t = s.changed(); t >= 0) {
        m_.running_.report(thread + t, "changes ", what, " between fence_products and the product");
      }
      return;
    }
    m_.running_.report(thread, "multiplies with ", what, " that no fence_products has named since they were used");
  }

  void begin_product(int g, group_operands const& all) {
    group& of = groups_[index(g)];
    product const& p = *static_cast<product const*>(all[0]);
    int const thread = g * warpgroup_threads;
    for (std::size_t t = 1; t < warpgroup_threads; ++t) {
      product const& q = *static_cast<product const*>(all[t]);
      if (q.n != p.n || q.left.bits != p.left.bits || q.right.bits != p.right.bits || q.add != p.add) {
        m_.running_.report(thread + static_cast<int>(t), "multiplies otherwise than thread ", thread);
      }
    }
    // Sums that are on their way need no fence.
    auto held = std::find_if(of.sums.begin(), of.sums.end(), [&](held_sums const& h) { return h.at[0] == p.c; });
    if (held == of.sums.end()) check_fenced(g, p.c, "sums");
    if (p.a) check_fenced(g, p.a, "a left operand");

    std::vector<std::pair<party, stamp>> checked;
    float left[64][16], right[256][16];
    if (p.a) {
      seen_registers a;
      a.bytes = sizeof(words<4>);
      for (std::size_t t = 0; t < warpgroup_threads; ++t) {
        words<4> const& own = *static_cast<product const*>(all[t])->a;
        a.at[t] = reinterpret_cast<std::byte*>(const_cast<words<4>*>(&own));
        a.values.insert(a.values.end(), a.at[t], a.at[t] + a.bytes);
        for (int i = 0; i < 8; ++i) {
          // Word 0: row lane / 4; 1: eight rows below; 2 and 3: eight columns to the right.
          int const word = i / 2, lane = static_cast<int>(t % 32);
          int const row = static_cast<int>(t) / 32 * 16 + lane / 4 + word % 2 * 8;
          int const col = lane % 4 * 2 + i % 2 + word / 2 * 8;
          std::uint32_t const both = own.word[word];
          left[row][col] = std::bit_cast<float>(i % 2 == 0 ? both << 16 : both & 0xFFFF0000u);
        }
      }
      of.left.push_back({std::move(a), of.number});
    } else {
      check_descriptor(g, p.left, "left");
      read_rows(g, p.left, 64, left, checked);
    }
    check_descriptor(g, p.right, "right");
    if (p.across) {
      read_columns(g, p.right, p.n, right, checked);
    } else {
      read_rows(g, p.right, p.n, right, checked);
    }

    if (held == of.sums.end()) {
      held_sums h;
      h.n = p.n;
      h.values.resize(index(64 * p.n));
      for (int t = 0; t < warpgroup_threads; ++t) {
        float* const c = static_cast<product const*>(all[index(t)])->c;
        h.at[index(t)] = c;
        for (int i = 0; i < p.n / 2; ++i) {
          auto const [row, col] = place_of(t, i);
          h.values[index(row * p.n + col)] = p.add ? c[i] : 0;
          std::memcpy(&c[i], &poison, sizeof(float));
        }
      }
      of.sums.push_back(std::move(h));
      held = of.sums.end() - 1;
    }
    if (held->n != p.n) m_.running_.report(thread, "multiplies into sums that a product of another width is adding to");
    held->group = of.number;
    for (int row = 0; row < 64; ++row) {
      for (int col = 0; col < p.n; ++col) {
        float sum = p.add ? held->values[index(row * p.n + col)] : 0.f;
        for (int k = 0; k < 16; ++k) sum += left[row][k] * right[col][k];
        held->values[index(row * p.n + col)] = sum;
      }
    }
  }

  void end_products(int g, int latest, group_operands const& all) {
    group& of = groups_[index(g)];
    int const thread = g * warpgroup_threads;
    auto const done = [&](int number) { return number < of.number - latest; };
    for (held_left const& l : of.left) {
      if (int const t = l.a.changed(); t >= 0) {
        m_.running_.report(thread + t, "changes a left operand of a product that is on its way");
      }
    }
    std::erase_if(of.left, [&](held_left const& l) { return done(l.group); });

    stamp const when = ++m_.epochs_.now;
    for (held_read const& r : of.reads) {
      if (!done(r.group)) continue;
      chunk& k = chunks_[index(r.chunk)];
      k.reading = static_cast<std::uint8_t>(k.reading & ~(1u << g));
      k.read[index(g)] = when;
    }
    std::erase_if(of.reads, [&](held_read const& r) { return done(r.group); });
    for (held_read const& r : of.reads) {
      chunk& k = chunks_[index(r.chunk)];
      k.reading = static_cast<std::uint8_t>(k.reading | 1u << g);
    }

    for (held_sums const& h : of.sums) {
      for (int t = 0; t < warpgroup_threads; ++t) {
        for (int i = 0; i < h.n / 2; ++i) {
          if (std::bit_cast<std::uint32_t>(h.at[index(t)][i]) != poison) {
            m_.running_.report(thread + t, "changes sums of a product that is on its way, or that no wait has named");
          }
        }
      }
    }
    for (registers const& named : *static_cast<register_list const*>(all[0])) {
      auto const held = std::find_if(of.sums.begin(), of.sums.end(),
                                     [&](held_sums const& h) { return static_cast<void const*>(h.at[0]) == named.at; });
      if (held == of.sums.end()) continue;
      if (!done(held->group)) m_.running_.report(thread, "waits for sums of a product that may still be on its way");
      for (int t = 0; t < warpgroup_threads; ++t) {
        for (int i = 0; i < held->n / 2; ++i) {
          auto const [row, col] = place_of(t, i);
          held->at[index(t)][i] = held->values[index(row * held->n + col)];
        }
      }
      of.sums.erase(held);
    }
    of.fenced.clear();
  }

  void check_registers(int thread, int n) const {
    if (n < 24 || n > 256 || n % 8 != 0) {
      m_.running_.report(thread, "wants ", n, " registers, expected a multiple of 8 from 24 to 256");
    }
  }

  machine& m_;
  std::map<Index, barrier> barriers_;
  std::array<named_barrier, 16> named_;
  std::vector<tile> tiles_;  // on their way
  std::vector<chunk> chunks_;
  std::array<group, max_groups> groups_;
  std::vector<int> wanting_;
  std::set<std::string> texts_;
};

inline void machine::check_products(int thread, Index offset, int bytes, bool write) {
  warpgroups_->check_access(thread, offset, bytes, write);
}
inline void machine::run_warpgroups() {
  warpgroups state(*this);
  struct guard {
    machine& m;
    guard(machine& of, warpgroups& s) : m(of) {
      m.warpgroups_ = &s;
      m.turns_.watch(
          &s, [](void* context) { return static_cast<warpgroups*>(context)->stalled(); },
          [](void* context) { return static_cast<warpgroups*>(context)->explain(); });
    }
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;
    ~guard() {
      m.turns_.watch(nullptr, nullptr, nullptr);
      m.order_.turn_off();
      m.warpgroups_ = nullptr;
    }
  } const in_use(*this, state);
  state.begin_block();
  order_.begin_block(epochs_, running_.kernel.threads);
  turns_.run(&machine::run_thread, this);
  state.end_block();
}

}  // namespace headmix::gpu::emulator

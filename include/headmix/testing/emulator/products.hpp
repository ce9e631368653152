#pragma once
// SPDX-License-Identifier: MIT
// Emulated warpgroup MMAs (wgmma). Accumulators are NaN from the issue of an MMA until a wait covers it; its operands
// in shared memory and in registers may not change before that. Further errors: a tile whose layout differs from its
// descriptor, registers without a wgmma fence, and a block that ends while MMAs are in flight.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/testing/emulator/machine.hpp"
#include "headmix/testing/emulator/tile_copies.hpp"

namespace headmix::cuda_kernels::emulator {

class products {
 public:
  products(machine& m, tile_copies& copies) : m_(m), copies_(copies) {}

  void begin_block() {
    groups_ = {};
    chunks_.assign(index((m_.running_.shared_end() + 15) / 16), {});
  }
  void end_block() const {
    for (int g = 0; g < max_groups; ++g) {
      if (!groups_[index(g)].sums.empty() || !groups_[index(g)].reads.empty()) {
        m_.running_.report(g * warpgroup_threads, "ends while products of its warpgroup are on their way");
      }
    }
  }

  /// Registers of a thread that MMAs use, and their size in bytes.
  struct registers {
    void* at;
    std::size_t bytes;
  };
  using register_list = std::vector<registers>;

  void fence(int thread, register_list const& used) {
    m_.scheduler_.warpgroup_collective(thread, "wgmma_fence", const_cast<register_list*>(&used),
                                       [&](group_operands const& all) {
                                         group& g = group_of(thread);
                                         g.fenced.clear();
                                         for (std::size_t i = 0; i < used.size(); ++i) {
                                           register_snapshot s;
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
    int n;  // number of columns
    words<4> const* a;
    matrix_descriptor left, right;
    bool add, right_mn_major, left_mn_major = false;
  };
  void multiply(int thread, product const& own) {
    m_.scheduler_.warpgroup_collective(thread, own.name, const_cast<product*>(&own), [&](group_operands const& all) {
      begin_product(thread / warpgroup_threads, all);
    });
  }
  void commit(int thread) {
    m_.scheduler_.warpgroup_collective(thread, "wgmma_commit", nullptr,
                                       [&](group_operands const&) { ++group_of(thread).number; });
  }
  void wait(int thread, int latest, register_list const& used) {
    m_.scheduler_.warpgroup_collective(
        thread, "wgmma_wait", const_cast<register_list*>(&used),
        [&](group_operands const& all) { end_products(thread / warpgroup_threads, latest, all); });
  }

  // ---- for the machine ----

  void check_write(int thread, Index offset, int bytes) const {
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

 private:
  static constexpr int max_groups = machine::max_threads / warpgroup_threads;
  static constexpr std::uint32_t poison = 0x7FA5A5A5;  // a NaN that arithmetic changes

  /// The state of 16 bytes of shared memory.
  struct chunk {
    std::uint8_t reading = 0;  // bit g: an MMA of warpgroup g reads it
    std::array<stamp, max_groups> read{};
  };
  /// Registers of all threads of a warpgroup, and their content at the fence.
  struct register_snapshot {
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
  /// Accumulators of MMAs that no wait has covered yet.
  struct pending_accumulators {
    std::array<float*, warpgroup_threads> at{};
    int n = 0, group = 0;
    std::vector<float> values;  // 64 x n
  };
  struct pending_operand {
    register_snapshot a;
    int group;
  };
  struct pending_read {
    Index chunk;
    int group;
  };
  struct group {
    int number = 0;  // number of the open group of MMAs
    std::vector<register_snapshot> fenced;
    std::vector<pending_accumulators> sums;
    std::vector<pending_operand> left;
    std::vector<pending_read> reads;
  };

  static std::size_t index(Index i) { return static_cast<std::size_t>(i); }
  group& group_of(int thread) { return groups_[index(thread / warpgroup_threads)]; }

  /// A warpgroup MMA reads 16 bytes.
  void read_chunk(int g, Index address, std::vector<std::pair<party, stamp>>& checked) {
    int const first = g * warpgroup_threads;
    Index const of_block = address - m_.shared_begin(m_.rank(first));
    if (of_block + 16 > m_.running_.kernel.shared_bytes) {
      m_.running_.report(first, "multiplies byte ", of_block, " of shared memory, which has ",
                         m_.running_.kernel.shared_bytes);
    }
    if (m_.in_flight_[index(address / 16)] != 0) {
      m_.running_.report(first, "multiplies byte ", address, " of shared memory while a copy of thread ",
                         m_.in_flight_[index(address / 16)] - 1, " to it is on its way");
    }
    if (copies_.is_unswizzled(address)) {
      m_.running_.report(first, "multiplies byte ", address,
                         " of shared memory as part of a tile with 128-byte swizzle; it was copied without");
    }
    for (Index byte = address; byte < address + 16; ++byte) {
      shadow_state const s = copies_.last_access(byte);
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
        copies_.check_fence(t, byte, "multiplies");
      }
      checked.emplace_back(s.writer, s.written);
    }
    chunk& k = chunks_[index(address / 16)];
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
  [[nodiscard]] std::uint32_t start_of(int g, matrix_descriptor d) const {
    Index const begin = m_.shared_begin(m_.rank(g * warpgroup_threads));
    return static_cast<std::uint32_t>(begin) + static_cast<std::uint32_t>(d.bits & 0x3FFF) * 16;
  }
  /// Reads 16 columns of `rows` rows of a K-major operand, panel by panel, `stride` bytes between groups of eight rows.
  void read_rows(int g, matrix_descriptor d, int rows, float (*to)[16], std::vector<std::pair<party, stamp>>& checked) {
    std::uint32_t const start = start_of(g, d);
    auto const stride = static_cast<std::uint32_t>(d.bits >> 32 & 0x3FFF) * 16;
    for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(rows); ++r) {
      for (std::uint32_t half = 0; half < 2; ++half) {
        Index const at = swizzle_128(start + r / 8 * stride + r % 8 * panel_row_bytes + half * 16);
        read_chunk(g, at, checked);
        for (Index e = 0; e < 8; ++e) to[r][half * 8 + static_cast<std::uint32_t>(e)] = number_at(at + 2 * e);
      }
    }
  }
  /// Reads the 16 rows of `cols` columns of an MN-major operand.
  void read_columns(int g, matrix_descriptor d, int cols, float (*to)[16],
                    std::vector<std::pair<party, stamp>>& checked) {
    std::uint32_t const start = start_of(g, d);
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
  /// The place of accumulator i of thread t of a warpgroup: each warp has 16 rows, in the layout of mma.sync.
  struct accumulator_position {
    int row, col;
  };
  static accumulator_position position_of(int t, int i) {
    int const lane = t % 32, half = i / 2 % 2;
    return {t / 32 * 16 + half * 8 + lane / 4, i / 4 * 8 + lane % 4 * 2 + i % 2};
  }
  void check_fenced(int g, void const* first, char const* what) const {
    int const thread = g * warpgroup_threads;
    for (register_snapshot const& s : groups_[index(g)].fenced) {
      if (!s.has(first)) continue;
      if (int const t = s.changed(); t >= 0) {
        m_.running_.report(thread + t, "changes ", what, " between wgmma_fence and the product");
      }
      return;
    }
    m_.running_.report(thread, "multiplies with ", what, " that no wgmma_fence has named since they were used");
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
    // Accumulators of MMAs in flight need no fence.
    auto held =
        std::find_if(of.sums.begin(), of.sums.end(), [&](pending_accumulators const& h) { return h.at[0] == p.c; });
    if (held == of.sums.end()) check_fenced(g, p.c, "sums");
    if (p.a) check_fenced(g, p.a, "a left operand");

    std::vector<std::pair<party, stamp>> checked;
    float left[64][16], right[256][16];
    if (p.a) {
      register_snapshot a;
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
      if (p.left_mn_major) {
        read_columns(g, p.left, 64, left, checked);
      } else {
        read_rows(g, p.left, 64, left, checked);
      }
    }
    check_descriptor(g, p.right, "right");
    if (p.right_mn_major) {
      read_columns(g, p.right, p.n, right, checked);
    } else {
      read_rows(g, p.right, p.n, right, checked);
    }

    if (held == of.sums.end()) {
      pending_accumulators h;
      h.n = p.n;
      h.values.resize(index(64 * p.n));
      for (int t = 0; t < warpgroup_threads; ++t) {
        float* const c = static_cast<product const*>(all[index(t)])->c;
        h.at[index(t)] = c;
        for (int i = 0; i < p.n / 2; ++i) {
          auto const [row, col] = position_of(t, i);
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
    for (pending_operand const& l : of.left) {
      if (int const t = l.a.changed(); t >= 0) {
        m_.running_.report(thread + t, "changes a left operand of a product that is on its way");
      }
    }
    std::erase_if(of.left, [&](pending_operand const& l) { return done(l.group); });

    stamp const when = ++m_.epochs_.now;
    for (pending_read const& r : of.reads) {
      if (!done(r.group)) continue;
      chunk& k = chunks_[index(r.chunk)];
      k.reading = static_cast<std::uint8_t>(k.reading & ~(1u << g));
      k.read[index(g)] = when;
    }
    std::erase_if(of.reads, [&](pending_read const& r) { return done(r.group); });
    for (pending_read const& r : of.reads) {
      chunk& k = chunks_[index(r.chunk)];
      k.reading = static_cast<std::uint8_t>(k.reading | 1u << g);
    }

    for (pending_accumulators const& h : of.sums) {
      for (int t = 0; t < warpgroup_threads; ++t) {
        for (int i = 0; i < h.n / 2; ++i) {
          if (std::bit_cast<std::uint32_t>(h.at[index(t)][i]) != poison) {
            m_.running_.report(thread + t, "changes sums of a product that is on its way, or that no wait has named");
          }
        }
      }
    }
    for (registers const& named : *static_cast<register_list const*>(all[0])) {
      auto const held = std::find_if(of.sums.begin(), of.sums.end(), [&](pending_accumulators const& h) {
        return static_cast<void const*>(h.at[0]) == named.at;
      });
      if (held == of.sums.end()) continue;
      if (!done(held->group)) m_.running_.report(thread, "waits for sums of a product that may still be on its way");
      for (int t = 0; t < warpgroup_threads; ++t) {
        for (int i = 0; i < held->n / 2; ++i) {
          auto const [row, col] = position_of(t, i);
          held->at[index(t)][i] = held->values[index(row * held->n + col)];
        }
      }
      of.sums.erase(held);
    }
    of.fenced.clear();
  }

  machine& m_;
  tile_copies& copies_;
  std::vector<chunk> chunks_;
  std::array<group, max_groups> groups_;
};

}  // namespace headmix::cuda_kernels::emulator

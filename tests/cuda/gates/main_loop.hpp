#pragma once
// SPDX-License-Identifier: MIT
// The main loop of a tensor-core kernel in the machine code of compute capability 8.0 to 9.0, and its cost. NVIDIA does
// not document the encoding: the parts used here were found by comparing cubins with the output of nvdisasm, for all
// branches and loads of the kernels that the gates compile.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

/// The low nine bits of an instruction say what it does, the three above them where its operands come from.
namespace opcode {
constexpr unsigned hmma = 0x03C, hgmma = 0x1F0, utmaldg = 0x1B4, usetmaxreg = 0x1C8, ldsm = 0x03B, ldgsts = 0x1AE,
                   ldl = 0x183, stl = 0x187, lds = 0x184, sts = 0x188, bra = 0x147, exit = 0x14D, ret = 0x150,
                   nop = 0x118, redux = 0x1C4;
}

struct instruction {
  static constexpr int bytes = 16;
  std::uint64_t low, high;

  [[nodiscard]] unsigned operation() const { return low & 0x1FF; }
  /// True for matrix multiply-accumulates, by a warp or by a warpgroup.
  [[nodiscard]] bool is_product() const { return operation() == opcode::hmma || operation() == opcode::hgmma; }
  /// Behind it comes another instruction than the next one, whatever its predicates are.
  [[nodiscard]] bool always_leaves() const {
    if ((low >> 12 & 0xF) != 7) return false;
    return operation() == opcode::exit || operation() == opcode::ret ||
           (operation() == opcode::bra && (high >> 23 & 0x1F) == 7);  // others are BRA.DIV and BRA.CONV
  }
  /// The distance of a branch in instructions, relative to the next one. Bits 32 to 81 have the bytes; from compute
  /// capability 9.0 on bits 34 to 81 have all but the lowest ten bits of them, and bits 16 to 23 the ones below.
  [[nodiscard]] std::int64_t jump(int architecture) const {
    auto const field = static_cast<std::int64_t>((high & 0x3FFFF) << 46 | low >> 34 << 16) >> 16;
    std::int64_t const words = architecture < 90 ? field : field * 256 + static_cast<std::int64_t>(low >> 16 & 0xFF);
    return words * 4 / bytes;
  }
  /// Clocks of the shared memory, 128 bytes a clock, for a warp's access: all lanes load or store, without bank
  /// conflicts and without two lanes on the same word. Matrix loads encode the number of matrices (.x4: 2), others
  /// their width. Instructions that are never executed take none: before asynchronous copies ptxas puts loads with the
  /// predicate !PT.
  [[nodiscard]] int shared_clocks() const {
    if ((low >> 12 & 0xF) == 0xF) return 0;
    switch (operation()) {
      case opcode::ldsm:
        return 1 << (high >> 8 & 3);
      case opcode::lds:
      case opcode::sts:
      case opcode::ldgsts: {
        auto const width = high >> 9 & 7;  // 4: 4 bytes, 5: 8, 6: 16
        return width == 6 ? 4 : width == 5 ? 2 : 1;
      }
      default:
        return 0;
    }
  }
};

/// Counts of one round of a loop.
struct loop_counts {
  int instructions = 0, products = 0, ldsm = 0, shared_clocks = 0;

  void add(instruction const& i) {
    ++instructions;
    products += i.is_product();
    ldsm += i.operation() == opcode::ldsm;
    shared_clocks += i.shared_clocks();
  }
  [[nodiscard]] double per_product(int n) const { return static_cast<double>(n) / products; }
};

/// A graph of instructions. A loop is closed by an edge to an instruction through which every path from the kernel's
/// beginning to that edge goes; its body is what leads to the edge without passing that instruction.
class control_flow {
 public:
  struct loop {
    std::size_t begin;
    std::vector<bool> body;
    loop_counts round;
  };

  control_flow(std::vector<instruction> const& code, int architecture)
      : code_(code), after_(code.size()), before_(code.size()) {
    for (std::size_t i = 0; i < code.size(); ++i) {
      if (!code[i].always_leaves()) connect(i, static_cast<std::int64_t>(i) + 1);
      if (code[i].operation() == opcode::bra) connect(i, static_cast<std::int64_t>(i) + 1 + code[i].jump(architecture));
    }
    for (std::size_t end = 0; end < after_.size(); ++end) {
      for (std::size_t const begin : after_[end]) {
        if (begin <= end && (begin == 0 || !reached(after_, 0, begin)[end])) closing_.insert({end, begin});
      }
    }
  }

  /// The loops whose way round has products.
  [[nodiscard]] std::vector<loop> loops() const {
    std::map<std::size_t, std::vector<bool>> bodies;
    for (auto const& [end, begin] : closing_) {
      std::vector<bool>& body = bodies[begin];
      std::vector<bool> const more = reached(before_, end, begin);
      body.resize(more.size());
      for (std::size_t i = 0; i < more.size(); ++i) body[i] = body[i] || more[i] || i == begin;
    }
    std::vector<loop> found;
    for (auto const& [begin, body] : bodies) {
      loop_counts const round = way_round(begin, body);
      if (round.products > 0) found.push_back({begin, body, round});
    }
    return found;
  }

 private:
  using edges = std::vector<std::vector<std::size_t>>;

  void connect(std::size_t from, std::int64_t to) {
    if (to < 0 || to >= static_cast<std::int64_t>(after_.size())) return;
    after_[from].push_back(static_cast<std::size_t>(to));
    before_[static_cast<std::size_t>(to)].push_back(from);
  }
  /// The instructions reachable from an instruction without passing another one.
  static std::vector<bool> reached(edges const& next, std::size_t from, std::size_t without) {
    std::vector<bool> seen(next.size());
    std::vector<std::size_t> open;
    auto const add = [&](std::size_t i) {
      if (i == without || seen[i]) return;
      seen[i] = true;
      open.push_back(i);
    };
    add(from);
    while (!open.empty()) {
      std::size_t const i = open.back();
      open.pop_back();
      for (std::size_t const to : next[i]) add(to);
    }
    return seen;
  }
  /// The way from `begin` back to it, loops within it once: of those with the most products, and of these with the most
  /// asynchronous copies, the one with the fewest instructions. So tiles that a mask covers in part are no part of it.
  [[nodiscard]] loop_counts way_round(std::size_t begin, std::vector<bool> const& body) const {
    constexpr std::int64_t unknown = std::int64_t{1} << 60, no_way = -(std::int64_t{1} << 50);
    std::vector<std::int64_t> worth(code_.size(), unknown);
    std::vector<std::size_t> next(code_.size(), begin), open{begin};
    auto const may_go = [&](std::size_t i, std::size_t to) { return body[to] && !closing_.contains({i, to}); };
    while (!open.empty()) {
      std::size_t const i = open.back();
      std::size_t const waiting = open.size();
      for (std::size_t const to : after_[i]) {
        if (may_go(i, to) && worth[to] == unknown) open.push_back(to);
      }
      if (open.size() > waiting) continue;
      open.pop_back();
      bool const is_product = code_[i].is_product(), is_copy = code_[i].operation() == opcode::ldgsts;
      std::int64_t best = no_way;
      for (std::size_t const to : after_[i]) {
        bool const closes = to == begin && closing_.contains({i, to});
        std::int64_t const value = closes ? 0 : may_go(i, to) ? worth[to] : no_way;
        if (value > best) best = value, next[i] = to;
      }
      worth[i] = best + (is_product ? std::int64_t{1} << 32 : is_copy ? std::int64_t{1} << 20 : 0) - 1;
    }
    loop_counts round;
    std::size_t i = begin;
    do {
      round.add(code_[i]);
      i = next[i];
    } while (i != begin);
    return round;
  }

  std::vector<instruction> const& code_;
  edges after_, before_;
  std::set<std::pair<std::size_t, std::size_t>> closing_;
};

/// The innermost loop with the most MMAs; empty without MMAs.
inline loop_counts main_loop(std::vector<instruction> const& code, int architecture) {
  if (std::none_of(code.begin(), code.end(), [](instruction const& i) { return i.is_product(); })) {
    return {};
  }
  std::vector<control_flow::loop> const all = control_flow(code, architecture).loops();
  loop_counts best;
  for (control_flow::loop const& mine : all) {
    bool const innermost = std::none_of(all.begin(), all.end(), [&](control_flow::loop const& other) {
      return other.begin != mine.begin && mine.body[other.begin];
    });
    if (innermost && mine.round.products > best.products) best = mine.round;
  }
  return best;
}

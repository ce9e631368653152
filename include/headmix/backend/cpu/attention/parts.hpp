#pragma once
// SPDX-License-Identifier: MIT
// Parts of about equal work of the gradient of attention, cut by its shape and its row lists alone.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "headmix/backend/cpu/attention/rows.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// The parts of all row lists: enough for 16 threads.
class gradient_parts {
 public:
  /// Blocks [first_block, last_block) of the blocks that read a key/value head. The first part of a head sums d_k and
  /// d_v in place, each further part in a copy from element `copy` on.
  struct part {
    Index sequence, kv_head, first_block, last_block;
    Index copy;   ///< -1 for the first part
    double work;  ///< about rows times keys
  };
  static constexpr Index wanted = tuning::gradient_parts;

  [[nodiscard]] static Index size(attention_extents const& x) {
    return (checked(x.queries.count) * x.kv_heads + wanted).value;
  }
  /// The most elements of all copies of d_k, or of d_v, for any lists.
  template <class T, class Map>
  [[nodiscard]] static Index copies(attention_backward<T, Map> const& a) {
    attention_extents const& x = a.extents;
    Index const sequences = (std::max)(Index{1}, x.queries.count), heads = (checked(sequences) * x.kv_heads).value;
    Index const evenly = (checked(heads) + (wanted - 1)).value / heads - 1;  // where all heads have the same work
    if (x.queries.offsets || x.keys.offsets) {
      checked const most = (std::min)(wanted, (std::max)(Index{1}, evenly) * x.kv_heads);
      return (most * x.keys.rows * x.head_dim).value;
    }
    return (checked(x.heads_are_chosen() ? wanted : evenly * heads) * (x.keys.rows / sequences) * x.head_dim).value;
  }
  /// Elements of memory for the copies. A single worker adds each copy at once, so all copies share memory.
  template <class T, class Map>
  [[nodiscard]] static Index copies_memory(attention_backward<T, Map> const& a, Index workers) {
    attention_extents const& x = a.extents;
    Index const most = copies(a);
    if (workers > 1 || most == 0) return most;
    bool const even = !x.queries.offsets && !x.keys.offsets;
    checked const longest = x.keys.rows / (even ? (std::max)(Index{1}, x.queries.count) : 1);
    return (std::min)(most, (longest * x.head_dim).value);
  }

  gradient_parts(attention_extents const& x, part* memory) : x_(x), parts_(memory) {}

  /// @param room  elements of memory for copies
  /// @param order  the numbers of the parts, the most work first
  template <AttentionMask M>
  void cut(Index room, Index* order) {
    // Whole heads are in the memory behind the parts, which overwrite heads that are cut already.
    double total = 0;
    part* const heads = parts_ + wanted;
    for (Index b = 0; b < x_.queries.count; ++b)
      for (Index h = 0; h < x_.kv_heads; ++h) {
        part whole{b, h, 0, x_.queries.rows * x_.rows_per_token * x_.heads + 1, -1, 0};
        Index blocks = 0;
        each_block(whole, [&](row_block const& block) {
          whole.work += work_of<M>(block);
          ++blocks;
        });
        whole.last_block = blocks;
        heads[b * x_.kv_heads + h] = whole;
        total += whole.work;
      }
    Index used = 0;
    for (Index i = 0; i < x_.queries.count * x_.kv_heads; ++i) {
      part const whole = heads[i];
      Index const first = count_, each = x_.keys.length(whole.sequence) * x_.head_dim;
      // A little less than the share: heads of about the work of a part are not cut.
      Index const share = total > 0 ? static_cast<Index>(std::ceil(whole.work / total * wanted - 0.1)) : 1;
      Index const n = (std::max)(Index{1}, (std::min)(share, each > 0 ? (room - used) / each + 1 : 1));
      parts_[count_++] = whole;
      if (n == 1) continue;
      Index block = 0;
      double done = 0;
      parts_[first].last_block = 0;
      parts_[first].work = 0;
      each_block(whole, [&](row_block const& next) {
        // A block goes to the part whose share has the middle of its work.
        double const cost = work_of<M>(next), middle = (done + cost / 2) / whole.work;
        auto const at = (std::min)(n - 1, static_cast<Index>(middle * static_cast<double>(n)));
        if (at > count_ - 1 - first && block > parts_[count_ - 1].first_block) {
          parts_[count_++] = {whole.sequence, whole.kv_head, block, block, used, 0};
          used += each;
        }
        parts_[count_ - 1].last_block = ++block;
        parts_[count_ - 1].work += cost;
        done += cost;
      });
    }
    sort(order);
  }
  [[nodiscard]] Index count() const { return count_; }
  [[nodiscard]] part const& operator[](Index i) const { return parts_[i]; }

  /// f(block) for the blocks of a part.
  template <class F>
  void each_block(part const& p, F f) const {
    Index i = 0;
    for (Index list = p.kv_head * x_.lists_per_kv_head(); list < (p.kv_head + 1) * x_.lists_per_kv_head(); ++list) {
      list_blocks<gradient_tile> const blocks(x_.list_length(p.sequence, list));
      for (Index b = 0; b < blocks.count; ++b, ++i)
        if (i >= p.first_block && i < p.last_block) f(blocks.block(p.sequence, list, b));
    }
  }

 private:
  template <AttentionMask M>
  [[nodiscard]] double work_of(row_block const& block) const {
    Index const keys = x_.keys.length(block.sequence);
    auto const visible = [&](Index i) {
      key_range const range = searched_visible_range<M>(x_.row(block.sequence, block.list, i).position, keys);
      return static_cast<double>(range.end - range.begin);
    };
    // A row costs about 32 keys besides those that it sees.
    return static_cast<double>(block.rows) * (32 + (visible(block.first) + visible(block.first + block.rows - 1)) / 2);
  }
  /// A stable sort by the binary logarithm of the work, descending.
  void sort(Index* order) const {
    Index begins[66] = {};
    auto const bin = [&](Index i) {
      return 64 - static_cast<Index>(std::bit_width(static_cast<std::uint64_t>(parts_[i].work)));
    };
    for (Index i = 0; i < count_; ++i) ++begins[bin(i) + 1];
    for (Index i = 1; i < 66; ++i) begins[i] += begins[i - 1];
    for (Index i = 0; i < count_; ++i) order[begins[bin(i)]++] = i;
  }

  attention_extents x_;
  part* parts_;
  Index count_ = 0;
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail

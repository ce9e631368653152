#pragma once
// SPDX-License-Identifier: MIT
// The gradients of the operands of score maps: a task sums a block of rows for each of its heads, and the sums of all
// tasks are added in order.

#include <span>

#include "headmix/backend/cpu/attention/gradient_rows.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// The most blocks of a block_table.
inline Index most_blocks(attention_extents const& x) {
  auto const rows = checked(x.queries.rows) * x.rows_per_token * (x.heads_are_chosen() ? 1 : x.heads);
  return (rows.value / attention_tile::rows + checked(x.queries.count) * x.heads).value;
}
/// Heads of the rows of a list.
inline Index heads_of_list(attention_extents const& x) { return x.heads_are_chosen() ? 1 : x.group(); }

/// sum_j d[j] by[j] over the part. Terms with d[j] = 0 are 0: at masked scores, by[j] may be anything.
template <class T>
HEADMIX_WHOLE_VECTORS double sum_of_products(T const* d, T const* by, tile_part const& part) {
  vector<T> sum{};
  for (Index j = part.first; j < part.last; j += lanes<T>) {
    vector<T> const a = load(d + j), product = a * load(by + j);
    sum += a == vector<T>{} ? vector<T>{} : product;
  }
  double total = 0;
  for (Index lane = 0; lane < lanes<T>; ++lane) total += static_cast<double>(sum[lane]);
  return total;
}

/// sums[head of the list][operand] += the gradients of a block of rows
template <AttentionMask M, class S, class T, class Map>
void operand_gradient_block(attention_backward<S, Map> const& a, row_block const& block, key_panels<T> const& keys,
                            key_panels<T> const& values, double* sums, scratch_cutter cut) {
  attention_extents const& x = a.extents;
  Index const b = block.sequence, kv_head = x.kv_head_of(block.list), first_head = block.list * heads_of_list(x);
  gradient_rows<M, S, Map> r(a, cut);
  key_range const all = describe_rows<M>(x, block, r.rows);
  r.gather(block.rows);
  constexpr Index step = key_panels<T>::width;
  for (Index begin = all.begin / step * step; begin < all.end; begin += gradient_tile::keys) {
    Index const end = (std::min)(begin + gradient_tile::keys, all.end);
    view<T> const p = r.tile(r.scores, end - begin), d_s = r.tile(r.d_scores, end - begin),
                  unmapped = r.tile(r.map_tile, end - begin);
    r.probabilities(p, keys, b, kv_head, begin, end, [&](T* row, Index i, tile_part const& part) {
      std::copy(row + part.first, row + part.last, unmapped.row(i) + part.first);
      map_scores(row, a.scores, part, r.rows[i].at, begin);
    });
    r.score_gradients(d_s, p, values, b, kv_head, begin, end);
    for (Index i = 0; i < block.rows; ++i) {
      tile_part const part = part_of_tile<T>(r.rows[i].keys, begin, end);
      query_row const& at = r.rows[i].at;
      T by[Map::operands][gradient_tile::keys] = {};
      auto const row = a.scores.row(at.position, at.head);
      each_key_position<Map, T>(part, begin, [&]<class P>(Index j, P const& key_position) {
        auto const mapped = Map::template derivatives<P>(row, get_scores<P>(unmapped.row(i) + j), key_position);
        for (int o = 0; o < Map::operands; ++o) put_scores(by[o] + j, mapped.by_operand[o]);
      });
      double* const of_head = sums + (at.head - first_head) * Map::operands;
      for (int o = 0; o < Map::operands; ++o) of_head[o] += sum_of_products<T>(d_s.row(i), by[o], part);
    }
  }
}

}  // namespace detail

/// Scratch that attention_operand_gradient needs, in bytes.
template <class S, class Map>
[[nodiscard]] Index attention_operand_gradient_scratch_bytes(attention_backward<S, Map> const& a, Index concurrency) {
  using T = accumulator_t<S>;
  attention_extents const& x = a.extents;
  auto const sums = (checked(detail::most_blocks(x)) * detail::heads_of_list(x) + x.heads) * Map::operands;
  return (scratch_begins + scratch_bytes<Index>(detail::block_table::size(x)) +
          checked(2) * scratch_bytes<T>(detail::key_panels<T>::size(x)) + scratch_bytes<double>(sums.value) +
          checked(concurrency) * detail::gradient_worker_bytes<detail::wide_operands<T>, T, Map>(x.head_dim))
      .value;
}

/// Overwrites d.by[i], the gradient of operand i, unless its data is null.
template <AttentionMask M, class S, class Map>
void attention_operand_gradient(mask<M>, executor_ref executor,
                                operand_gradients<accumulator_t<S>, Map::operands> const& d,
                                attention_backward<S, Map> const& a, std::span<std::byte> scratch) {
  using T = accumulator_t<S>;
  static_assert(attention_tile::rows <= gradient_tile::rows,
                "headmix: a tile of attention has no more rows than one of its gradient");
  attention_extents const& x = a.extents;
  Index const in_list = detail::heads_of_list(x), each = in_list * Map::operands;
  scratch_cutter cut(scratch);
  detail::block_table const blocks(x, cut.take<Index>(detail::block_table::size(x)));
  detail::key_panels<T> const keys(x, cut.take<T>(detail::key_panels<T>::size(x)));
  detail::key_panels<T> const values(x, cut.take<T>(detail::key_panels<T>::size(x)));
  double* const sums = cut.take<double>((detail::most_blocks(x) * in_list + x.heads) * Map::operands);
  Index const tasks = x.head_dim == 0 ? 0 : blocks.blocks();
  double* const totals = sums + tasks * each;
  std::fill_n(sums, tasks * each + x.heads * Map::operands, 0.0);
  keys.pack(executor, a.k);
  values.pack(executor, a.v);
  std::byte* const begin = cut.position();
  Index const bytes = detail::gradient_worker_bytes<detail::wide_operands<T>, T, Map>(x.head_dim);
  for_each_task(executor, tasks, [&](Index task, Index worker) {
    detail::operand_gradient_block<M>(a, blocks[task], keys, values, sums + task * each,
                                      scratch_cutter(begin + worker * bytes));
  });
  for (Index task = 0; task < tasks; ++task) {
    double* const to = totals + blocks[task].list * each;
    for (Index i = 0; i < each; ++i) to[i] += sums[task * each + i];
  }
  for (int o = 0; o < Map::operands; ++o) {
    view<T> const& by = d.by[o];
    if (!by.data) continue;
    double all = 0;
    for (Index head = 0; head < x.heads; ++head) {
      double const own = totals[head * Map::operands + o];
      if (by.cols == x.heads) by(0, head) = static_cast<T>(own);
      all += own;
    }
    if (by.cols == 1) by(0, 0) = static_cast<T>(all);
  }
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

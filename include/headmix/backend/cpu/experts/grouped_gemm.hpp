#pragma once
// SPDX-License-Identifier: MIT
// Products with one weight matrix per expert. Rows of slots are read and written in place; rows with other strides and
// narrower numbers are gathered into dense blocks.

#include <algorithm>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/experts/expert.hpp"
#include "headmix/backend/cpu/products/packed_b.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// Scratch that grouped_gemm needs for weights w, in bytes.
template <class S>
[[nodiscard]] constexpr Index grouped_gemm_scratch_bytes(view<S const> w, Index concurrency) {
  using T = accumulator_t<S>;
  return (scratch_begins + checked(concurrency) * (scratch_bytes<T>(tuning::gathered_rows * w.rows) +
                                                   scratch_bytes<T>(tuning::gathered_rows * w.cols)))
      .value;
}

/// For every slot s of every expert e: y.row(s) = x.row(s / slots_per_row) w[e]. Rows of y whose slot has no expert
/// become 0. w is a stack [experts, depth, width], transposed views included; perm and offsets are those of
/// sort_by_expert.
/// @param prepared  the packed w, or null
template <ProductPrecision Products, class S>
void grouped_gemm(Products, executor_ref executor, view<S> y, view<std::type_identity_t<S const>> x,
                  view<std::type_identity_t<S const>> w, view<Int const> perm, view<Int const> offsets,
                  Index slots_per_row, std::span<std::byte> scratch, accumulator_t<S>* prepared = nullptr) {
  using T = accumulator_t<S>;
  detail::packed_b<S> const packed(w, prepared);
  if (offsets(0, w.count) < y.count * y.rows) detail::set_to_zero(executor, y);
  Index tasks = 0, most = 2 * tuning::product_slots;
  while (tasks < tuning::enough_blocks && most > tuning::least_product_slots) {
    most /= 2;
    tasks = 0;
    for (Index e = 0; e < w.count; ++e) tasks += detail::slot_blocks(offsets, e, most);
  }
  // Few blocks of rows: columns are cut, too.
  Index const parts = tasks >= tuning::enough_tasks ? 1 : (std::max)(Index{1}, w.cols / tuning::product_cols);
  constexpr Index panel = register_block<T>::nr;
  Index const part = ((w.cols + parts - 1) / parts + panel - 1) / panel * panel;
  scratch_cutter const begin(scratch);
  Index const bytes =
      scratch_bytes<T>(tuning::gathered_rows * w.rows) + scratch_bytes<T>(tuning::gathered_rows * w.cols);
  for_each_task(executor, tasks * parts, [&](Index task, Index worker) {
    Index e = 0, b = task / parts, blocks;
    for (; b >= (blocks = detail::slot_blocks(offsets, e, most)); ++e) b -= blocks;
    Index const slots = offsets(0, e + 1) - offsets(0, e);
    Index const begin_row = slots * b / blocks, end_row = slots * (b + 1) / blocks;
    Index const col = task % parts * part, cols = (std::min)(part, w.cols - col);
    if (cols <= 0) return;
    view<S const> const weights = w[e].middle_cols(col, cols);
    if constexpr (!detail::widens<S>) {
      // In place, where rows are successive elements.
      if (x.col_stride == 1 && y.col_stride == 1 && w.rows > 0) {
        T const* from[tuning::product_slots];
        T* to[tuning::product_slots];
        for (Index i = 0; i < end_row - begin_row; ++i) {
          Index const slot = perm(0, offsets(0, e) + begin_row + i);
          from[i] = x.row(slot / slots_per_row);
          to[i] = y.row(slot) + col;
        }
        if constexpr (detail::may_round<S, Products>) {
          if (detail::rounds_products<Products>())
            return detail::multiply_rounded<Products>(end_row - begin_row, detail::listed_rows<T>{to},
                                                      detail::listed_rows<T const>{from}, weights, false);
        }
        if (prepared) return packed.multiply(to, from, end_row - begin_row, e, 1, col, cols, false);
        detail::unpacked_a<detail::listed_rows<T const>> const a{{from}};
        auto const prefetch_rows = [&](Index k, Index depth, Index j) {
          return detail::row_prefetch<T>{from, k, depth, j, end_row - begin_row};
        };
        return detail::multiply_panels<T>(end_row - begin_row, detail::listed_rows<T>{to}, a, weights, false,
                                          prefetch_rows);
      }
    }
    if constexpr (detail::may_multiply_pairs<S>) {
      if (detail::multiplies_pairs<S>() && w.rows > 0) {
        // In place; rows with other strides are gathered or scattered.
        bool const gathers = x.col_stride != 1, scatters = y.col_stride != 1;
        Index const most_rows = gathers || scatters ? tuning::gathered_rows : tuning::product_slots;
        scratch_cutter cut(begin.position() + worker * bytes);
        S* const rows = cut.take<S>(tuning::gathered_rows * w.rows);
        S* const products = cut.take<S>(tuning::gathered_rows * w.cols);
        for (Index i = begin_row, n; i < end_row; i += n) {
          n = (std::min)(most_rows, end_row - i);
          Int const* const list = &perm(0, offsets(0, e) + i);
          if (gathers) detail::gather(view<S>(rows, n, w.rows), x, list, perm.col_stride, slots_per_row, 0);
          S const* from[tuning::product_slots];
          S* to[tuning::product_slots];
          for (Index r = 0; r < n; ++r) {
            Index const slot = list[r * perm.col_stride];
            from[r] = gathers ? rows + r * w.rows : x.row(slot / slots_per_row);
            to[r] = scatters ? products + r * cols : y.row(slot) + col;
          }
          detail::pairs_a<detail::listed_rows<S const>> const a{{from}};
          detail::multiply_dots(n, detail::listed_rows<S>{to}, a, w.rows, cols,
                                detail::expert_pairs{packed, e, col, {weights}}, false);
          if (scatters) detail::scatter(y, view<S>(products, n, cols), list, perm.col_stride, col);
        }
        return;
      }
    }
    for (Index i = begin_row; i < end_row; i += tuning::gathered_rows) {
      Index const n = (std::min)(tuning::gathered_rows, end_row - i);
      scratch_cutter cut(begin.position() + worker * bytes);
      view<T> const rows(cut.take<T>(tuning::gathered_rows * w.rows), n, w.rows);
      view<T> const products(cut.take<T>(tuning::gathered_rows * w.cols), n, cols);
      Int const* const list = &perm(0, offsets(0, e) + i);
      detail::gather(rows, x, list, perm.col_stride, slots_per_row, 0);
      if (prepared && w.rows > 0) {
        T const* from[tuning::gathered_rows];
        T* to[tuning::gathered_rows];
        for (Index r = 0; r < n; ++r) {
          from[r] = rows.row(r);
          to[r] = products.row(r);
        }
        packed.multiply(to, from, n, e, 1, col, cols, false);
      } else {
        multiply(products, rows, weights, false);
      }
      detail::scatter(y, products, list, perm.col_stride, col);
    }
  });
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

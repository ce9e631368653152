#pragma once
// SPDX-License-Identifier: MIT
// Kernels that look up rows of tables, and kernels of rows in sequences, against the reference.

#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "headmix/contract/position.hpp"
#include "headmix/testing/conformance/bench.hpp"

namespace headmix::detail::conformance {

/// Rows gathered from a table, and rows added to one.
template <class B>
void check_rows(bench<B>& b) {
  using T = typename B::scalar;
  for (auto const [rows, cols] : odd_extents) {
    for (Index const v : {1, 30}) {
      int_operand<B> index(b, random_choices(rows, v), rows, 1);
      view<Int const> const chosen = index.host();
      b.begin("gather_rows", "[", rows, ", ", cols, "] of ", v);
      operand<B, T> table(b, v, cols, layout::gaps), y(b, rows, cols, layout::transposed);
      b.run([&] { b.backend.gather_rows(y.device(), table.in(), index.in()); });
      b.reference.gather_rows(y.host(), view<double const>(table.host()), chosen);
      y.check_exact("y");
      int_operand<B> numbers(b, v, cols), found(b, rows, cols);
      for (Index i = 0; i < v * cols; ++i)
        numbers.host()(i / cols, i % cols) = static_cast<Int>(2147483646 - i);  // not representable as float
      numbers.send();
      b.run([&] { b.backend.gather_rows(found.device(), numbers.in(), index.in()); });
      b.reference.gather_rows(found.host(), view<Int const>(numbers.host()), chosen);
      found.check("y");
      for (bool const accumulate : {false, true}) {
        b.begin("scatter_rows", "[", rows, ", ", cols, "] to ", v, accumulate ? " added" : "");
        operand<B, T> a(b, rows, cols), sum(b, v, cols, accumulate ? layout::gaps : layout::plain);
        b.run([&] { b.backend.scatter_rows(sum.device(), a.in(), index.in(), accumulate); });
        b.reference.scatter_rows(sum.host(), view<double const>(a.host()), chosen, accumulate);
        sum.check("y");
      }
    }
  }
}

/// Sequence numbers, window means and rotary embedding.
template <class B>
void check_sequences(bench<B>& b) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  operand<B, W> theta(b, std::vector<double>{100}, 1, 1);
  std::vector<std::vector<Int>> all{
      {0, 7, 14, 21}, {0, 0, 3, 3, 10, 21, 21}, {0, 1}, {0, 0}, {0, 0, 3, 70, 70, 201, 201}};
  if (b.options().large) all.push_back({0, 0, 3, 300, 300, 701, 701});
  for (auto const& offsets : all) {
    sequences_of<B> s(b, offsets);
    Index const rows = offsets.back();
    bool const even = &offsets == &all[0];
    segments const host = even ? uniform(3, 7) : s.host(), device = even ? uniform(3, 7) : s.device();
    int_operand<B> numbers(b, rows, 1);
    b.begin("sequence_numbers", rows, " rows of ", offsets.size() - 1, " sequences");
    b.run([&] { b.backend.sequence_numbers(numbers.device(), device); });
    b.reference.sequence_numbers(numbers.host(), host);
    numbers.check("y");
    for (bool const back : {false, true}) {
      for (Index const window : {1, 3, 64, 257, 2147483647}) {
        b.begin("window_mean", rows, " rows, window ", window, back ? ", transposed" : "");
        operand<B, T> a(b, rows, 5, layout::gaps), y(b, rows, 5);
        if (rows > 9) a.set(rows / 3, 2, std::numeric_limits<double>::quiet_NaN());
        if (rows > 9) a.set(rows / 2, 1, std::numeric_limits<double>::infinity());
        b.run([&] { b.backend.window_mean(y.device(), a.in(), device, window, back); });
        b.reference.window_mean(y.host(), view<double const>(a.host()), host, window, back);
        y.check("y");
      }
      std::vector<Int> more = offsets;  // keys of these queries: one for two of them, and three more
      for (std::size_t i = 0; i < more.size(); ++i) more[i] = more[i] / 2 + 3 * static_cast<Int>(i);
      sequences_of<B> keys(b, more);
      for (Index const rows_per_token : {1, 3}) {
        for (Index const heads : {1, 3}) {
          bool const of_keys = rows_per_token == heads;
          row_positions const there = of_keys ? row_positions(device, keys.device()) : row_positions(device),
                              here = of_keys ? row_positions(host, keys.host()) : row_positions(host);
          // Some heads have columns that stay, pairs of neighbours, or changed frequencies.
          rotation const r{.inverse = back,
                           .interleaved = rows_per_token == 3,
                           .dims = heads == 3 ? 6 : 0,
                           .trained = of_keys ? 0 : 40,
                           .factor = 3};
          b.begin("rotary", rows, " tokens, ", rows_per_token, " rows each, ", heads, " heads",
                  of_keys ? ", queries" : "", back ? ", back" : "", r.interleaved ? ", neighbours" : "",
                  r.dims > 0 ? ", some columns" : "", r.trained > 0 ? ", frequencies of Llama 3" : "");
          operand<B, T> a(b, rows * rows_per_token, heads * 10, layout::gaps),
              y(b, rows * rows_per_token, heads * 10, layout::transposed);
          b.run([&] { b.backend.rotary(y.device(), a.in(), theta.in(), there, heads, r); });
          b.reference.rotary(y.host(), view<double const>(a.host()), view<double const>(theta.host()), here, heads, r);
          y.check("y");
        }
      }
    }
  }
  // Far positions, as in a decoder.
  sequences_of<B> s(b, {0, 3, 3, 5});
  int_operand<B> past(b, {131070, 0, 1048574}, 1, 3);
  segments host = s.host(), device = s.device();
  host.past = past.host().data, device.past = past.device().data;
  for (bool const back : {false, true}) {
    b.begin("rotary", "positions up to 2^20", back ? ", back" : "");
    operand<B, T> a(b, 10, 40), y(b, 10, 40);
    rotation const r{.inverse = back};
    b.run([&] { b.backend.rotary(y.device(), a.in(), theta.in(), device, 2, r); });
    b.reference.rotary(y.host(), view<double const>(a.host()), view<double const>(theta.host()), host, 2, r);
    // Angles are off by 2e-16 of their size, and float's cosines by 1e-7.
    y.check("y", std::is_same_v<T, double> ? 100 : std::is_same_v<T, float> ? 0.05 : 1);
  }
}

}  // namespace headmix::detail::conformance

#pragma once
// SPDX-License-Identifier: MIT
// Attention and grouped products at the shapes of the benchmarks (bench/gpu/kernels.cu, heads.cu), which are too large
// for a whole result in double: sampled rows of each result are compared, and the others are checked to be written.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"

namespace headmix::testing {

/// Numbers that look random, in [-amplitude, amplitude), written on the device.
struct pseudo_random {
  bfloat16* to;
  float amplitude;
  std::uint32_t seed;

  [[nodiscard]] static HEADMIX_HD std::uint32_t mixed(std::uint32_t h) {
    h = (h ^ h >> 16) * 0x7FEB352Du;
    h = (h ^ h >> 15) * 0x846CA68Bu;
    return h ^ h >> 16;
  }
  HEADMIX_HD void operator()(Index i) const {
    std::uint32_t const h = mixed(static_cast<std::uint32_t>(i) * 0x9E3779B9u + seed);
    to[i] = static_cast<bfloat16>(amplitude * (static_cast<float>(h >> 8) * 0x1p-23f - 1.0f));
  }
};
/// Slot s of an index chooses one of `choices`, a power of 2; those of a row differ.
struct pseudo_choices {
  Int* to;
  Index choices, per_row;

  HEADMIX_HD void operator()(Index s) const {
    std::uint32_t const h = pseudo_random::mixed(static_cast<std::uint32_t>(s / per_row));
    to[s] = static_cast<Int>((h + s % per_row * (2 * (h >> 8 & 7) + 1)) % choices);
  }
};
/// NaN, which a kernel must overwrite.
struct not_numbers {
  bfloat16* to;
  HEADMIX_HD void operator()(Index i) const { to[i] = static_cast<bfloat16>(std::nanf("")); }
};

/// The elements of a matrix in double.
inline std::vector<double> widened(view<bfloat16 const> m) {
  std::vector<double> values(static_cast<std::size_t>(m.rows * m.cols));
  double* to = values.data();
  for (Index i = 0; i < m.rows; ++i) {
    for (Index j = 0; j < m.cols; ++j) *to++ = static_cast<double>(m(i, j));
  }
  return values;
}

/// A matrix of the device, or a stack of them, and what the host has read of it.
template <class Device>
class large_matrix {
 public:
  using backend_type = Cuda<bfloat16, Device>;
  view<bfloat16> device;  ///< of the device's memory
  view<bfloat16> host;    ///< the same of the host's, from read() on

  /// Pseudorandom numbers, different for each seed; or NaN where the amplitude is 0.
  large_matrix(backend_type& backend, Index count, Index rows, Index cols, float amplitude, std::uint32_t seed = 0)
      : array_(backend.queue(), static_cast<std::size_t>(count * rows * cols)) {
    device = array_.stack(count, rows, cols);
    if (amplitude > 0) {
      backend.for_each(array_.size(), pseudo_random{array_.data(), amplitude, seed * 0x85EBCA6Bu});
    } else {
      backend.for_each(array_.size(), not_numbers{array_.data()});
    }
  }
  /// Copies it to the host.
  void read() {
    values_ = array_.get();
    host = {values_.data(), device.count, device.rows, device.cols};
  }
  /// Row i of a result.
  [[nodiscard]] std::vector<double> row(backend_type& backend, Index i) const {
    std::vector<bfloat16> values(static_cast<std::size_t>(device.cols));
    backend.download(values.data(), array_.data() + i * device.cols, values.size() * sizeof(bfloat16));
    return widened({values.data(), 1, device.cols});
  }
  /// Every row of a result must be numbers.
  void check_written(backend_type& backend) const {
    Index const rows = device.count * device.rows;
    device_array<float, Device> const sums(backend.queue(), static_cast<std::size_t>(rows));
    backend.row_sum(sums.matrix(rows, 1),
                    lazy<tree_leaf<bfloat16, false, false>>{{array_.matrix(rows, device.cols)}, rows, device.cols},
                    false);
    std::vector<float> const found = sums.get();
    CHECK(std::all_of(found.begin(), found.end(), [](float x) { return std::isfinite(x); }));
  }

 private:
  device_array<bfloat16, Device> array_;
  std::vector<bfloat16> values_;
};

/// The first and the last of n numbers, and some between.
inline std::vector<Index> sampled(Index n, Index samples) {
  std::vector<Index> at{0, n - 1};
  for (Index i = 2; i < samples; ++i) {
    at.push_back(static_cast<Index>(pseudo_random::mixed(static_cast<std::uint32_t>(i))) % n);
  }
  return at;
}
/// Rows that were found and those that were to be found.
struct compared_rows {
  std::vector<double> found, expected;

  void add(std::vector<double> const& some, std::vector<double> const& exact) {
    found.insert(found.end(), some.begin(), some.end());
    expected.insert(expected.end(), exact.begin(), exact.end());
  }
  /// Infinite where nothing but zeros is expected, which would say nothing.
  [[nodiscard]] double error() const {
    bool const any = std::any_of(expected.begin(), expected.end(), [](double x) { return x != 0; });
    return any ? relative_error(found, expected) : std::numeric_limits<double>::infinity();
  }
};
/// a b in double.
inline std::vector<double> product(view<bfloat16 const> a, view<bfloat16 const> b) {
  std::vector<double> left = widened(a), right = widened(b), y(static_cast<std::size_t>(a.rows * b.cols));
  Reference<double>{}.gemm(view(y.data(), a.rows, b.cols), view<double const>(left.data(), a.rows, a.cols),
                           view<double const>(right.data(), b.rows, b.cols), false);
  return y;
}

// ---- grouped products ----

/// A layer whose tokens choose `chosen` of `experts` heads.
struct large_products {
  Index tokens, width, head_dim, chosen, experts;
  bool side_by_side;  ///< the heads' weights are columns of one matrix, and rows of the other; or matrices of their own
};

/// The products of the layer and their gradients. The error of a sum of floats is one rounding, at most 2^-8.
template <class Device>
void test_large_products(large_products const& c) {
  using matrix = large_matrix<Device>;
  constexpr double tolerance = 4e-3;
  Cuda<bfloat16, Device> backend;
  Index const slots = c.tokens * c.chosen;
  device_array<Int, Device> const choices(backend.queue(), static_cast<std::size_t>(slots)),
      order(backend.queue(), static_cast<std::size_t>(slots)),
      begins(backend.queue(), static_cast<std::size_t>(c.experts + 1));
  backend.for_each(slots, pseudo_choices{choices.data(), c.experts, c.chosen});
  view<Int const> const index = choices.matrix(c.tokens, c.chosen), perm = order.matrix(1, slots),
                        offsets = begins.matrix(1, c.experts + 1);
  backend.sort_by_expert(order.matrix(1, slots), begins.matrix(1, c.experts + 1), index, uniform(1, c.tokens));
  std::vector<Int> const expert = choices.get();

  float const of_weights = 0.05f;
  matrix x(backend, 1, c.tokens, c.width, 1, 1), o(backend, 1, slots, c.head_dim, 1, 2);
  matrix w_in(backend, c.side_by_side ? 1 : c.experts, c.width, c.side_by_side ? c.experts * c.head_dim : c.head_dim,
              of_weights, 3);
  matrix w_out(backend, c.experts, c.head_dim, c.width, of_weights, 4),
      d_w_in(backend, w_in.device.count, c.width, w_in.device.cols, 0);
  for (matrix* const m : {&x, &o, &w_in, &w_out}) m->read();
  auto const heads = [&](view<bfloat16> m) {  // of w_in
    if (!c.side_by_side) return m;
    m.count = c.experts, m.cols = c.head_dim, m.stack_stride = c.head_dim;
    return m;
  };
  auto const scratch = [](std::size_t bytes) { return typename Device::memory(bytes); };

  auto const check_gemm = [&](char const* name, matrix const& from, view<bfloat16 const> weights,
                              view<bfloat16 const> host_weights, Index per_row) {
    CAPTURE(name);
    matrix y(backend, 1, slots, weights.cols, 0);
    auto const room = scratch(backend.grouped_gemm_scratch(y.device, from.device, weights));
    backend.grouped_gemm(y.device, from.device, weights, perm, offsets, per_row, room.bytes());
    y.check_written(backend);
    compared_rows rows;
    for (Index const s : sampled(slots, 24)) {
      rows.add(y.row(backend, s),
               product(from.host.middle_rows(s / per_row, 1), host_weights[expert[static_cast<std::size_t>(s)]]));
    }
    CHECK(rows.error() <= tolerance);
  };
  check_gemm("queries", x, heads(w_in.device), heads(w_in.host), c.chosen);
  check_gemm("outputs of all slots", o, w_out.device, w_out.host, 1);
  check_gemm("gradient of the heads' outputs", x, w_out.device.transposed(), w_out.host.transposed(), c.chosen);
  check_gemm("gradient of all slots' inputs", o, heads(w_in.device).transposed(), heads(w_in.host).transposed(), 1);

  matrix y(backend, 1, c.tokens, c.width, 0);
  auto const room = scratch(backend.grouped_sum_scratch(y.device, o.device, w_out.device));
  backend.grouped_sum(y.device, o.device, w_out.device, perm, offsets, c.chosen, false, room.bytes());
  y.check_written(backend);
  compared_rows sums;
  for (Index const token : sampled(c.tokens, 12)) {
    std::vector<double> sum(static_cast<std::size_t>(c.width));
    for (Index s = token * c.chosen; s < (token + 1) * c.chosen; ++s) {
      std::vector<double> const part =
          product(o.host.middle_rows(s, 1), w_out.host[expert[static_cast<std::size_t>(s)]]);
      for (std::size_t j = 0; j < part.size(); ++j) sum[j] += part[j];
    }
    sums.add(y.row(backend, token), sum);
  }
  CHECK(sums.error() <= 2 * tolerance);  // what is added is rounded, too

  auto const more = scratch(backend.grouped_outer_scratch(heads(d_w_in.device), x.device, o.device));
  backend.grouped_outer(heads(d_w_in.device), x.device, o.device, perm, offsets, c.chosen, 1, false, more.bytes());
  d_w_in.check_written(backend);
  d_w_in.read();
  compared_rows rows;
  for (Index const e : sampled(c.experts, 4)) {
    for (Index const i : sampled(c.width, 3)) {
      std::vector<double> sum(static_cast<std::size_t>(c.head_dim));
      for (Index s = 0; s < slots; ++s) {
        if (expert[static_cast<std::size_t>(s)] != e) continue;
        auto const factor = static_cast<double>(x.host(s / c.chosen, i));
        for (Index j = 0; j < c.head_dim; ++j) {
          sum[static_cast<std::size_t>(j)] += factor * static_cast<double>(o.host(s, j));
        }
      }
      rows.add(widened(heads(d_w_in.host)[e].middle_rows(i, 1)), sum);
    }
  }
  CHECK(rows.error() <= tolerance);
}

// ---- attention ----

struct large_attention {
  Index sequences, length, rows_per_token, heads, kv_heads, head_dim;
  bool chosen;  ///< a row is of the head that its slot chose; or rows have all heads

  [[nodiscard]] Index tokens() const { return sequences * length; }
  [[nodiscard]] Index rows() const { return tokens() * rows_per_token; }
  [[nodiscard]] Index heads_of_row() const { return chosen ? 1 : heads; }
};

/// Attention and its gradient. Sampled queries are compared in what they give and get, sampled keys in what they get of
/// all rows that see them, by the log-sum-exp and the output that the device found.
template <class Mask, class Device>
void test_large_attention(large_attention const& c) {
  static_assert(std::is_same_v<Mask, full> || std::is_same_v<Mask, causal>);
  constexpr bool all_seen = std::is_same_v<Mask, full>;
  using matrix = large_matrix<Device>;
  constexpr double tolerance = 1e-2;
  Cuda<bfloat16, Device> backend;
  Index const d = c.head_dim, width = c.kv_heads * d, cols = c.heads_of_row() * d;
  // Scores with a deviation of 2.
  matrix q(backend, 1, c.rows(), cols, 6, 1), kv(backend, 1, c.tokens(), 2 * width, 1, 2),
      d_o(backend, 1, c.rows(), cols, 1, 3);
  matrix o(backend, 1, c.rows(), cols, 0), d_q(backend, 1, c.rows(), cols, 0),
      d_kv(backend, 1, c.tokens(), 2 * width, 0);
  device_array<float, Device> const lse(backend.queue(), static_cast<std::size_t>(c.rows() * c.heads_of_row()));
  for (matrix* const m : {&q, &kv, &d_o}) m->read();

  attention_extents extents;
  extents.queries = extents.keys = uniform(c.sequences, c.length);
  extents.rows_per_token = c.rows_per_token;
  extents.heads = c.heads;
  extents.kv_heads = c.kv_heads;
  extents.head_dim = d;
  Index const lists = c.sequences * c.heads + 1;
  auto const if_chosen = [&](Index n) { return static_cast<std::size_t>(c.chosen ? n : 0); };
  device_array<Int, Device> const choices(backend.queue(), if_chosen(c.rows())),
      slots(backend.queue(), if_chosen(c.rows())), offsets(backend.queue(), if_chosen(lists));
  if (c.chosen) {
    backend.for_each(c.rows(), pseudo_choices{choices.data(), c.heads, c.rows_per_token});
    backend.sort_by_expert(slots.matrix(1, c.rows()), offsets.matrix(1, lists),
                           choices.matrix(c.tokens(), c.rows_per_token), extents.queries);
    extents.chosen = {slots.data(), offsets.data()};
  }
  std::vector<Int> const head_of_slot = choices.get();
  attention_scores<bfloat16> scores;
  scores.scale = 1 / std::sqrt(static_cast<double>(d));

  view<bfloat16> const k = kv.device.middle_cols(0, width), v = kv.device.middle_cols(width, width);
  attention_forward<bfloat16> const forward{extents, q.device, k, v, o.device, lse.matrix(c.rows(), c.heads_of_row()),
                                            {},      scores};
  typename Device::memory const room(backend.attention_scratch(forward));
  backend.template attention<Mask>(forward, room.bytes());
  attention_backward<bfloat16> const backward{extents,
                                              q.device,
                                              k,
                                              v,
                                              o.device,
                                              d_o.device,
                                              lse.matrix(c.rows(), c.heads_of_row()),
                                              d_q.device,
                                              d_kv.device.middle_cols(0, width),
                                              d_kv.device.middle_cols(width, width),
                                              {},
                                              scores};
  typename Device::memory const more(backend.template attention_gradient_scratch<Mask>(backward));
  backend.template attention_gradient<Mask>(backward, more.bytes());
  for (matrix* const m : {&o, &d_q, &d_kv}) {
    m->check_written(backend);
    m->read();
  }
  std::vector<float> const found_lse = lse.get();
  auto const lse_of = [&](Index row, Index col) {
    return static_cast<double>(found_lse[static_cast<std::size_t>(row * c.heads_of_row() + col)]);
  };
  /// The gradient's problem of rows of one head and keys that all of them see.
  auto const one_head = [&](Index rows, Index keys, std::vector<double> const& of_q, std::vector<double> const& of_k,
                            std::vector<double> const& of_v, std::vector<double> const& of_o,
                            std::vector<double> const& of_d_o, std::vector<double> const& of_lse) {
    attention_backward<double> p;
    p.extents.queries = uniform(1, rows);
    p.extents.keys = uniform(1, keys);
    p.extents.head_dim = d;
    p.scores.scale = scores.scale;
    p.q = {of_q.data(), rows, d}, p.o = {of_o.data(), rows, d}, p.d_o = {of_d_o.data(), rows, d};
    p.k = {of_k.data(), keys, d}, p.v = {of_v.data(), keys, d};
    p.lse = {of_lse.data(), rows, 1};
    return p;
  };
  auto const append = [](std::vector<double>& to, std::vector<double> const& values) {
    to.insert(to.end(), values.begin(), values.end());
  };

  compared_rows of_o, of_d_q, of_d_k, of_d_v;
  std::vector<double> some_lse, exact_lse;
  Index sample = 0;
  for (Index const t : sampled(c.length, 12)) {
    Index const b = sample % c.sequences, col = sample % c.heads_of_row();
    Index const row = (b * c.length + t) * c.rows_per_token + sample % c.rows_per_token;
    Index const head = c.chosen ? Index{head_of_slot[static_cast<std::size_t>(row)]} : col;
    Index const of_head = head * c.kv_heads / c.heads * d, keys = all_seen ? c.length : t + 1;
    ++sample;
    auto const part = [&](matrix const& m) { return m.host.middle_rows(row, 1).middle_cols(col * d, d); };
    view<bfloat16> const seen = kv.host.middle_rows(b * c.length, keys);
    view<bfloat16> const seen_k = seen.middle_cols(of_head, d), seen_v = seen.middle_cols(width + of_head, d);

    std::vector<double> p = product(part(q), seen_k.transposed()), values = widened(seen_v);
    std::vector<double> exact(static_cast<std::size_t>(d));
    double log_sum = 0;
    for (double& s : p) s *= scores.scale;
    Reference<double> const reference;
    reference.log_sum_exp(view(&log_sum, 1, 1), view<double const>(p.data(), 1, keys));
    for (double& s : p) s = std::exp(s - log_sum);
    reference.gemm(view(exact.data(), 1, d), view<double const>(p.data(), 1, keys),
                   view<double const>(values.data(), keys, d), false);
    of_o.add(widened(part(o)), exact);
    some_lse.push_back(lse_of(row, col));
    exact_lse.push_back(log_sum);

    std::vector<double> const row_q = widened(part(q)), of_keys = widened(seen_k), row_o = widened(part(o)),
                              row_d_o = widened(part(d_o)), row_lse{lse_of(row, col)};
    attention_backward<double> problem = one_head(1, keys, row_q, of_keys, values, row_o, row_d_o, row_lse);
    problem.d_q = {exact.data(), 1, d};
    reference.attention_gradient<full>(problem, {});
    of_d_q.add(widened(part(d_q)), exact);
  }
  CHECK(of_o.error() <= tolerance);
  CHECK(relative_error(some_lse, exact_lse) <= 1e-5);
  CHECK(of_d_q.error() <= tolerance);

  for (Index const s : sampled(c.length, 4)) {
    Index const b = sample % c.sequences, kv_head = sample % c.kv_heads, group = c.heads / c.kv_heads;
    ++sample;
    std::vector<double> all_q, all_o, all_d_o, all_lse;
    for (Index t = all_seen ? 0 : s; t < c.length; ++t) {
      for (Index slot = 0; slot < c.rows_per_token; ++slot) {
        Index const row = (b * c.length + t) * c.rows_per_token + slot;
        for (Index col = 0; col < c.heads_of_row(); ++col) {
          Index const head = c.chosen ? Index{head_of_slot[static_cast<std::size_t>(row)]} : col;
          if (head / group != kv_head) continue;
          append(all_q, widened(q.host.middle_rows(row, 1).middle_cols(col * d, d)));
          append(all_o, widened(o.host.middle_rows(row, 1).middle_cols(col * d, d)));
          append(all_d_o, widened(d_o.host.middle_rows(row, 1).middle_cols(col * d, d)));
          all_lse.push_back(lse_of(row, col));
        }
      }
    }
    auto const part = [&](matrix const& m, Index first) {
      return m.host.middle_rows(b * c.length + s, 1).middle_cols(first + kv_head * d, d);
    };
    std::vector<double> const key = widened(part(kv, 0)), value = widened(part(kv, width));
    std::vector<double> exact_k(static_cast<std::size_t>(d)), exact_v(static_cast<std::size_t>(d));
    attention_backward<double> problem =
        one_head(static_cast<Index>(all_lse.size()), 1, all_q, key, value, all_o, all_d_o, all_lse);
    problem.d_k = {exact_k.data(), 1, d};
    problem.d_v = {exact_v.data(), 1, d};
    Reference<double>{}.attention_gradient<full>(problem, {});
    of_d_k.add(widened(part(d_kv, 0)), exact_k);
    of_d_v.add(widened(part(d_kv, width)), exact_v);
  }
  CHECK(of_d_k.error() <= tolerance);
  CHECK(of_d_v.error() <= tolerance);
}

}  // namespace headmix::testing

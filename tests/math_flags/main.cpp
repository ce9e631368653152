// SPDX-License-Identifier: MIT
// CPU kernels compiled with a flag for inexact arithmetic, against the reference in double: exponentials, roundings,
// and non-finite numbers.

#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/core/aligned_buffer.hpp"

using namespace headmix;

namespace {

int failures = 0;

/// The largest difference over the largest number; infinite unless both are finite in the same places.
template <class T>
double difference(std::vector<T> const& found, std::vector<double> const& expected) {
  double most = 0, scale = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double const a = static_cast<double>(found[i]), b = expected[i];
    if (std::isfinite(a) != std::isfinite(b)) return std::numeric_limits<double>::infinity();
    if (!std::isfinite(a)) continue;
    most = (std::max)(most, std::abs(a - b));
    scale = (std::max)(scale, std::abs(b));
  }
  return most / scale;
}
template <class T>
void expect(char const* what, std::vector<T> const& found, std::vector<double> const& expected) {
  double const error = difference(found, expected), allowed = sizeof(T) == 4 ? 1e-5 : 1e-12;
  if (error <= allowed) return;
  ++failures;
  std::printf("%s, %zu bytes: relative error %g, allowed %g\n", what, sizeof(T), error, allowed);
}

template <class T>
struct numbers {
  std::vector<T> own;
  std::vector<double> wide;

  numbers(Index n, std::uint64_t stream, double scale) : own(static_cast<std::size_t>(n)) {
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<T>(scale * Random(stream).normal(i));
    wide.assign(own.begin(), own.end());
  }
  void set(std::size_t i, double value) { own[i] = static_cast<T>(wide[i] = value); }
};

constexpr Index rows = 70, heads = 2, dim = 8, cols = heads * dim;

template <class T>
void check_attention(bool odd) {
  numbers<T> q(rows * cols, 1, 3), k(rows * cols, 2, 3), v(rows * cols, 3, 1), d_o(rows * cols, 4, 1),
      o(rows * cols, 5, 1), d_q = o, d_k = o, d_v = o, lse(rows * heads, 6, 1);
  if (odd) {
    k.set(60 * cols + 3, std::numeric_limits<double>::quiet_NaN());
    v.set(66 * cols + 1, std::numeric_limits<double>::infinity());
  }
  Int const offsets[] = {0, rows};
  segments const tokens{offsets, 1, rows};
  attention_extents const extents{tokens, tokens, 1, heads, heads, dim, {}};
  auto const run = [&]<class S>(auto backend, std::vector<S> numbers<T>::*in) {
    auto const of = [in](numbers<T>& n, Index width = cols) { return view<S>((n.*in).data(), rows, width); };
    attention_scores<S, no_score_map> scores;
    scores.scale = 1 / std::sqrt(static_cast<double>(dim));
    attention_forward<S> const forward{extents, of(q), of(k), of(v), of(o), of(lse, heads), {}, scores, {}};
    AlignedBuffer room(backend.attention_scratch(forward));
    backend.template attention<causal>(forward, room.bytes());
    attention_backward<S> const backward{extents, of(q),   of(k),   of(v), of(o),  of(d_o), of(lse, heads),
                                         of(d_q), of(d_k), of(d_v), {},    scores, {}};
    AlignedBuffer more(backend.template attention_gradient_scratch<causal>(backward));
    backend.template attention_gradient<causal>(backward, more.bytes());
  };
  run.template operator()<double>(Reference<double>{}, &numbers<T>::wide);
  run.template operator()<T>(Cpu<T>{}, &numbers<T>::own);
  expect("o", o.own, o.wide);
  expect("log-sum-exp", lse.own, lse.wide);
  expect("d_q", d_q.own, d_q.wide);
  expect("d_k", d_k.own, d_k.wide);
  expect("d_v", d_v.own, d_v.wide);
}

template <class T>
void check_rows() {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  numbers<T> a(rows * cols, 7, 20), y(rows * cols, 8, 1), sums(rows, 9, 1);
  for (std::size_t j = 0; j < cols; ++j) a.set(cols + j, -infinity);
  a.set(5 * cols + 2, nan);
  a.set(7 * cols + 3, -infinity);
  view<T const> const from(a.own.data(), rows, cols);
  view<double const> const expected(a.wide.data(), rows, cols);
  Cpu<T> cpu;
  Reference<double> const reference;
  std::vector<Int> best(3 * rows), expected_best(3 * rows);
  cpu.top_k(view<Int>(best.data(), rows, 3), from);
  reference.top_k(view<Int>(expected_best.data(), rows, 3), expected);
  if (best != expected_best) ++failures, std::puts("top_k: other columns");
  view<T> const to(y.own.data(), rows, cols);
  view<double> const wide(y.wide.data(), rows, cols);
  cpu.softmax(to, from);
  reference.softmax(wide, expected);
  expect("softmax", y.own, y.wide);
  cpu.log_sum_exp(view<T>(sums.own.data(), rows, 1), from);
  reference.log_sum_exp(view<double>(sums.wide.data(), rows, 1), expected);
  expect("log_sum_exp", sums.own, sums.wide);
  a.set(cols, 1);
  cpu.absmax_int8(to, from);
  Reference<T>{}.absmax_int8(view<T>(a.own.data(), rows, cols), from);
  std::vector<double> const rounded(a.own.begin(), a.own.end());
  expect("absmax_int8", y.own, rounded);
}

}  // namespace

int main() {
  for (bool const odd : {false, true}) {
    check_attention<float>(odd);
    check_attention<double>(odd);
  }
  check_rows<float>();
  check_rows<double>();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

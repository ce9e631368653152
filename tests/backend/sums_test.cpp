// SPDX-License-Identifier: MIT
// Sums of very many rows are as exact as those of few: on the CPU and the reference, for float and bfloat16, bitwise
// equal on one and two threads. backend_conformance has 2^16 rows for all backends.

#include "headmix/testing/conformance/sums.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/contract/mask.hpp"

namespace sums_test {

namespace {

using namespace headmix;

template <class B>
conformance_result long_sums(B backend, Index rows) {
  conformance_options options;
  options.sum_rows = rows;
  conformance_result result;
  detail::conformance::bench<B> b(backend, options, result);
  detail::conformance::check_long_sums(b);
  return result;
}
template <class B>
void check_long_sums(B backend, Index rows) {
  conformance_result const found = long_sums(backend, rows);
  INFO(found.text());
  CHECK(found.ok());
  CHECK(found.checks == 16);
}

TEST_CASE_TEMPLATE("sums of many rows", T, float, bfloat16, double) {
  check_long_sums(Reference<T>{}, Index{1} << 16);
  check_long_sums(Cpu<T>{}, Index{1} << 16);
  check_long_sums(Cpu<T>{}, 40'001);
  for (Index const rows : {0, 1, 257}) check_long_sums(Cpu<T>{}, rows);
  thread_pool two(2);
  CHECK(long_sums(Cpu<T, thread_pool>(two), 70'001).digest == long_sums(Cpu<T>{}, 70'001).digest);
}
/// y (+)= a b with depths around that of a part, in some tiles, in any layout of y and a.
template <class T>
void check_deep_product(Index rows, Index depth, Index cols, bool of_columns, bool accumulate) {
  CAPTURE(depth);
  CAPTURE(of_columns);
  CAPTURE(accumulate);
  Cpu<T> backend;
  conformance_options const options;
  conformance_result result;
  using namespace detail::conformance;
  {
    bench<Cpu<T>> b(backend, options, result);
    auto const form = of_columns ? layout::transposed : layout::plain;
    b.begin("gemm", rows, " x ", depth, " x ", cols);
    operand<Cpu<T>, T> y(b, rows, cols, form), left(b, rows, depth, form), right(b, depth, cols);
    backend.gemm(y.device(), left.in(), right.in(), accumulate);
    b.reference.gemm(y.host(), view<double const>(left.host()), view<double const>(right.host()), accumulate);
    y.check("y");
  }
  INFO(result.text());
  CHECK(result.ok());
}
TEST_CASE_TEMPLATE("products deeper than a part", T, float, bfloat16, double) {
  for (bool const of_columns : {false, true}) {
    for (bool const accumulate : {false, true}) {
      check_deep_product<T>(2, 32769, 270, of_columns, accumulate);
      check_deep_product<T>(200, 65601, 2, of_columns, accumulate);
    }
  }
}

/// The gradient of a bias of scores, for this number of equal sequences of two queries and two keys.
template <class B>
double error_of_bias_gradient(Index sequences) {
  using T = typename B::scalar;
  Index const rows = 2 * sequences;
  B backend;
  std::vector<T> q(1, static_cast<T>(0.4f)), d_o(1, static_cast<T>(4 / 7.0f)),
      lse(2, static_cast<T>(0.16f + std::log(2.0f))), values{T(0), static_cast<T>(0.7f)};
  std::vector<T> v(static_cast<std::size_t>(rows)), d_bias(4), o(1, static_cast<T>(0.35f)), none(4, T(0));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = values[i % 2];
  auto const repeated = [rows](std::vector<T> const& one) {
    view<T const> all(one.data(), rows, 1);
    all.row_stride = 0;
    return all;
  };
  attention_backward<T> p{};
  p.extents.queries = p.extents.keys = uniform(sequences, 2);
  p.extents.head_dim = 1;
  p.scores.scale = 1;
  p.scores.bias = view<T const>(none.data(), 4, 1);
  p.scores.bias_keys = 2;
  p.q = p.k = repeated(q);
  p.d_o = repeated(d_o);
  p.v = view<T const>(v.data(), rows, 1);
  p.o = repeated(o);
  p.lse = repeated(lse);
  std::vector<std::byte> scratch(backend.attention_bias_gradient_scratch(p));
  view<T> const to(d_bias.data(), 4, 1);
  backend.template attention_bias_gradient<full>(to, p, std::span<std::byte>(scratch));
  double const expected = 0.1 * static_cast<double>(sequences);
  return (std::max)(std::abs(static_cast<double>(d_bias[1]) / expected - 1),
                    std::abs(static_cast<double>(d_bias[0]) / expected + 1));
}
TEST_CASE("the gradient by a bias of many sequences") {
  CHECK(error_of_bias_gradient<Cpu<float>>(1) < 1e-6);
  CHECK(error_of_bias_gradient<Cpu<float>>(257) < 256 * 0x1p-23);
  CHECK(error_of_bias_gradient<Cpu<float>>(Index{1} << 16) < 256 * 0x1p-23);
}
TEST_CASE("the log-sum-exp of many columns") {
  // One score of 0, and 2^20 scores that add 0.1 each.
  std::vector<float> scores((Index{1} << 20) + 1, std::log(0.1f));
  scores.back() = 0;
  float found = 0;
  Cpu<float>{}.log_sum_exp(view<float>(&found, 1, 1), view<float const>(scores.data(), 1, (Index{1} << 20) + 1));
  CHECK(std::abs(static_cast<double>(found) - std::log(1 + 0.1 * 0x1p20)) < 1e-5);
}
TEST_CASE("sums of 2^24 rows of float [slow]") { check_long_sums(Cpu<float>{}, Index{1} << 24); }
TEST_CASE("sums of 2^24 rows of bfloat16 [slow]") { check_long_sums(Cpu<bfloat16>{}, Index{1} << 24); }

}  // namespace

}  // namespace sums_test

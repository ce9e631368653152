#pragma once
// SPDX-License-Identifier: MIT
// Whole programs on the Cuda backend, forward and backward, against Reference<double> on the same numbers. A file that
// includes this names the device by `using test_device = ...;` at global scope.

#include <doctest/doctest.h>

#include "difference.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/expr/drop_path.hpp"
#include "programs.hpp"

namespace programs_test {

using namespace headmix;

using test::programs::x, test::programs::W, test::programs::U, test::programs::V, test::programs::b, test::programs::g,
    test::programs::W_e, test::programs::table, test::programs::id, test::programs::choice, test::programs::positive,
    test::programs::run;

template <class T, Expr Y>
void check(Y y, double tolerance) {
  for (Index const n : {Index{0}, Index{1}, Index{70}}) {
    CAPTURE(n);
    auto const found = run<T>(Cuda<T, test_device>{}, y, n);
    auto const expected = run<T>(Reference<double>{}, y, n);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      CHECK(test::relative_error(found[i], expected[i]) <= tolerance);
    }
  }
}
template <Expr Y>
void check_float(Y y) {
  check<float>(y, 1e-5);
}
template <Expr Y>
void check_bfloat16(Y y, double tolerance = 1e-2) {
  check<bfloat16>(y, tolerance);
}

TEST_CASE("cuda programs: arithmetic") {
  check_float((x{} % W{} + b{}) * g{} - (x{} % U{}) / (square(g{}) + number<1>{}));
}
TEST_CASE("cuda programs: functions of elements") {
  check_float(gelu(x{} % W{}) + tanh(x{} % U{}) * log(exp(x{} % W{}) + number<1>{}));
  check_float(sigmoid(x{} % W{}) * silu(x{} % U{}) + relu(x{} % W{}) + softplus(x{} % U{}));
}
TEST_CASE("cuda programs: gelu_tanh, label smoothing and drop_path") {
  check_float(drop_path<1, 4>(gelu_tanh(x{} % W{})) +
              label_smoothed_cross_entropy<1, 10>(x{} % W{} % t(table{}), id{}));
}
TEST_CASE("cuda programs: a named value") { check_float(positive{} * positive{} + row_sum(positive{})); }
TEST_CASE("cuda programs: transposed products") { check_float(x{} % (t(x{}) % (x{} % W{}) % t(W{})) % U{}); }
TEST_CASE("cuda programs: sums and means") {
  check_float(row_sum(x{} % W{}) * col_mean(x{} % U{}));
  check_float(sum(square(x{} % W{})));
}
TEST_CASE("cuda programs: softmax and log-sum-exp") {
  check_float(softmax(layer_norm(x{} % W{}, g{}, b{}) % t(table{})));
  check_float(log_sum_exp(x{} % W{}));
}
TEST_CASE("cuda programs: RMS norm") { check_float(rms_norm(x{} % W{}, g{})); }
TEST_CASE("cuda programs: an embedding") { check_float(gather_rows(table{}, id{}) * (x{} % W{})); }
TEST_CASE("cuda programs: cross entropy") { check_float(cross_entropy(x{} % W{} % t(table{}), id{})); }
TEST_CASE("cuda programs: choosing the best columns") {
  check_float(scatter_cols(gather_cols(x{} % W{}, arg_top_k<headmix::size<3>>(x{} % U{})),
                           arg_top_k<headmix::size<3>>(x{} % U{})));
}
TEST_CASE("cuda programs: expert products and mixing") {
  check_float(combine(gather_cols(x{} % W{} % t(table{}), choice{}), expert_linear(x{}, W_e{}, choice{})));
}
TEST_CASE("cuda programs: rotary embedding") { check_float(rotary<headmix::size<3>>(x{} % V{}, number<100>{})); }
TEST_CASE("cuda programs: dropout") { check_float(dropout<1, 4>(x{} % W{}) % t(table{})); }
TEST_CASE("cuda programs: causal attention") { check_float(attention<causal>(x{} % V{}, x{} % V{}, tanh(x{} % V{}))); }

TEST_CASE("cuda programs in bfloat16") {
  check_bfloat16(x{} % W{} + b{});
  check_bfloat16(softmax(x{} % W{} % t(table{})));
  check_bfloat16(rms_norm(x{} % W{}, g{}));
  check_bfloat16(combine(gather_cols(x{} % W{} % t(table{}), choice{}), expert_linear(x{}, W_e{}, choice{})));
  check_bfloat16(rotary<headmix::size<3>>(x{} % V{}, number<100>{}));
}

}  // namespace programs_test

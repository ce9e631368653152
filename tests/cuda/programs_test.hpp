#pragma once
// SPDX-License-Identifier: MIT
// Whole programs on the Cuda backend, forward and backward, against Reference<double> on the same numbers. Whoever
// includes this names the device by `using test_device = ...;` at global scope.

#include <doctest/doctest.h>

#include <vector>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/contract/memory.hpp"
#include "headmix/expr/attention.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/expr/rotary.hpp"
#include "headmix/program/program.hpp"

namespace programs_test {

using namespace headmix;

struct D : headmix::size<dynamic> {};
struct H : headmix::size<37> {};
struct E : headmix::size<5> {};
struct K : headmix::size<2> {};
struct x : input<tokens, D> {};
struct W : param<D, H> {};
struct U : param<D, H> {};
struct V : param<D, headmix::size<24>> {};
struct b : param<H> {};
struct g : param<H> {};
struct W_e : param<E, D, H> {};
struct table : param<E, H> {};
struct id : selection<tokens, headmix::size<1>, E> {};
struct choice : selection<tokens, K, E> {};
struct positive : let<decltype(exp(x{} % W{}))> {};

using numbers = std::vector<double>;

/// The result and the gradient of every leaf of y, on leaves whose numbers the type T has exactly.
template <class T, class Backend, Expr Y>
std::vector<numbers> run(Backend backend, Y, Index n, Index width = 7) {
  using scalar = typename Backend::scalar;
  Program<roots<Y>, Backend> program(backend);
  program.set(tokens{}, n);
  program.set(D{}, width);
  std::vector<backend_memory<Backend>> memory;
  std::vector<view<scalar>> gradients;
  auto const fill = [&]<class N>(std::vector<N> const& values) {
    memory.emplace_back(values.size() * sizeof(N));
    upload(backend, memory.back().template as<N>(), values.data(), values.size());
    return memory.back().template as<N>();
  };
  auto const read = [&]<class N>(N const* from, Index size) {
    std::vector<N> values(static_cast<std::size_t>(size));
    download(backend, values.data(), from, values.size());
    return testing::converted<double>(values);
  };
  auto const random = [](Index size, std::uint64_t stream, double shift) {
    std::vector<scalar> values;
    for (Index i = 0; i < size; ++i) {
      T const value = static_cast<T>(Random(3, stream).uniform(static_cast<std::uint64_t>(i)) + shift);
      values.push_back(static_cast<scalar>(static_cast<double>(value)));
    }
    return values;
  };
  for_each(typename decltype(program)::leaves{}, [&]<class L>() {
    Index const c = program.template extent<count<L>>(), r = program.template extent<rows<L>>(),
                w = program.template extent<cols<L>>();
    if constexpr (std::is_same_v<L, random_key>) {
      randomness const key(5, 6, 7, 8);
      program.bind(L{}, {fill(std::vector<Int>(key.word, key.word + 6)), c, r, w});
    } else if constexpr (Selection<L>) {
      std::vector<Int> chosen;
      for (Index i = 0; i < r * w; ++i) {
        chosen.push_back(static_cast<Int>(Random(4, memory.size()).below(static_cast<std::uint64_t>(i), 6)) - 1);
      }
      program.bind(L{}, {fill(chosen), c, r, w});
    } else {
      scalar* const values = fill(random(c * r * w, memory.size(), -0.4));
      memory.emplace_back(static_cast<std::size_t>(c * r * w) * sizeof(scalar));
      gradients.push_back({memory.back().template as<scalar>(), c, r, w});
      program.bind(L{}, {values, c, r, w}, gradients.back());
    }
  });
  backend_memory<Backend> workspace(program.workspace_bytes());
  program.bind_workspace(workspace.bytes());
  auto const y = program.forward();
  using result = std::remove_const_t<std::remove_pointer_t<decltype(y.data)>>;
  auto const dy = testing::converted<result>(testing::converted<double>(random(y.size(), 1000, -0.5)));
  result const* const seed = fill(dy);
  program.backward({seed, y.rows, y.cols});
  std::vector<numbers> all = {read(y.data, y.size())};
  for (auto const& d : gradients) all.push_back(read(static_cast<scalar const*>(d.data), d.size()));
  return all;
}

template <class T, Expr Y>
void check(Y y, double tolerance) {
  for (Index const n : {Index{0}, Index{1}, Index{70}}) {
    CAPTURE(n);
    auto const found = run<T>(Cuda<T, test_device>{}, y, n);
    auto const expected = run<T>(Reference<double>{}, y, n);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      CHECK(testing::relative_error(found[i], expected[i]) <= tolerance);
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

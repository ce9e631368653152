// SPDX-License-Identifier: MIT
// Programs on Reference and on Cpu, forward and backward; Cpu bitwise equal on one and two threads.

#include <doctest/doctest.h>

#include <vector>

#include "../programs.hpp"
#include "against_reference.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/testing/gradcheck.hpp"

namespace backends_test {

namespace {

using namespace headmix;
using test::check_close;

using test::programs::x, test::programs::W, test::programs::U, test::programs::V, test::programs::b, test::programs::g,
    test::programs::W_e, test::programs::table, test::programs::id, test::programs::choice, test::programs::positive,
    test::programs::run;

/// Cpu equals Reference for empty, single and many rows, and two threads equal one.
template <class T, Expr Y>
void check(Y y, std::initializer_list<Index> rows, double tolerance) {
  thread_pool one(1), two(2);
  using Threaded = Cpu<T, thread_pool>;
  for (Index const n : rows) {
    CAPTURE(n);
    auto const serially = run<T>(Threaded{one}, y, n), expected = run<T>(Reference<T>{}, y, n);
    REQUIRE(serially.size() == expected.size());
    for (std::size_t i = 0; i < serially.size(); ++i) check_close(serially[i], expected[i], tolerance);
    CHECK(run<T>(Threaded{two}, y, n) == serially);
  }
}
template <Expr Y>
void check_backends(Y y) {
  check<double>(y, {0, 1, 7, 900}, 1e-11);
}
/// In float, whose vector functions differ from those of double.
template <Expr Y>
void check_float(Y y) {
  check<float>(y, {70}, 2e-4);
}

TEST_CASE("backends agree on arithmetic") {
  check_backends((x{} % W{} + b{}) * g{} - (x{} % U{}) / (square(g{}) + number<1>{}));
}
TEST_CASE("backends agree on exp, log, sqrt and tanh") {
  check_backends(log(exp(x{} % W{}) + number<1>{}) + sqrt(square(x{} % U{}) + number<1>{}) * tanh(x{} % W{}));
}
TEST_CASE("backends agree on sigmoid, silu, gelu and relu") {
  check_backends(sigmoid(x{} % W{}) * silu(x{} % U{}) + gelu(x{} % W{}) * relu(x{} % U{}));
}
TEST_CASE("backends agree on gelu_tanh and label smoothing") {
  check_backends(gelu_tanh(x{} % W{}) + label_smoothed_cross_entropy<1, 10>(x{} % W{} % t(table{}), id{}));
}
TEST_CASE("backends agree on a named value") { check_backends(positive{} * positive{} + row_sum(positive{})); }
TEST_CASE("backends agree on transposed products") { check_backends(x{} % (t(x{}) % (x{} % W{}) % t(W{})) % U{}); }
TEST_CASE("backends agree on row sums and means") { check_backends(row_sum(x{} % W{}) * col_mean(x{} % U{})); }
TEST_CASE("backends agree on the sum of everything") { check_backends(sum(square(x{} % W{}))); }
TEST_CASE("backends agree on softmax") { check_backends(softmax(x{} % W{})); }
TEST_CASE("backends agree on log-sum-exp") { check_backends(log_sum_exp(x{} % W{})); }
TEST_CASE("backends agree on layer norm") { check_backends(layer_norm(x{} % W{}, g{}, b{})); }
TEST_CASE("backends agree on RMS norm") { check_backends(rms_norm(x{} % W{}, g{})); }
TEST_CASE("backends agree on an embedding") { check_backends(gather_rows(table{}, id{}) * (x{} % W{})); }
TEST_CASE("backends agree on cross entropy") { check_backends(cross_entropy(x{} % W{} % t(table{}), id{})); }
TEST_CASE("backends agree on choosing the best columns") {
  check_backends(scatter_cols(gather_cols(x{} % W{}, arg_top_k<headmix::size<3>>(x{} % U{})),
                              arg_top_k<headmix::size<3>>(x{} % U{})));
}
TEST_CASE("backends agree on expert products and mixing") {
  check_backends(combine(gather_cols(x{} % W{} % t(table{}), choice{}), expert_linear(x{}, W_e{}, choice{})));
}
TEST_CASE("backends agree on rotary embedding") { check_backends(rotary<headmix::size<3>>(x{} % V{}, number<100>{})); }

TEST_CASE("backends agree in float on vector functions") {
  check_float(gelu(x{} % W{}) + tanh(x{} % U{}) * log(exp(x{} % W{}) + number<1>{}));
}
TEST_CASE("backends agree in float on a softmax of normalised rows") {
  check_float(softmax(layer_norm(x{} % W{}, g{}, b{}) % t(table{})));
}

template <class L, class Scalar, class Backend, Extent... X>
std::vector<Scalar> run_layer(Backend backend, Index sequences, Index length, std::initializer_list<double> weights,
                              size_value<X>... sizes) {
  Module<L, Backend> m(5, backend, sizes...);
  for (auto const& p : m.parameters()) {
    for (Index i = 0; i < p.value.size(); ++i) {
      p.value.data[i] += static_cast<Scalar>(Random(6).uniform(static_cast<std::uint64_t>(i)) - 0.5);
    }
  }
  Index const width = m.template get<typename L::W_k>().value.rows;
  std::vector<Scalar> in(static_cast<std::size_t>(sequences * length * width)), dy(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<Scalar>(Random(7).uniform(i) - 0.5);
    dy[i] = static_cast<Scalar>(Random(8).uniform(i) - 0.5);
  }
  auto const y = m.forward(view<Scalar const>(in.data(), sequences * length, width), uniform(sequences, length));
  std::vector<Scalar> all(y.data, y.data + y.size());
  m.backward(view<Scalar const>(dy.data(), y.rows, y.cols), weights);
  for (auto const& p : m.parameters()) all.insert(all.end(), p.gradient.data, p.gradient.data + p.gradient.size());
  all.insert(all.end(), m.input_gradient().data, m.input_gradient().data + in.size());
  return all;
}

using MoaLayer = Moa<24, 16, SoftmaxTopK<6, 3>, causal>;
using DenseLayer = MultiHead<24, 4, 16, causal, kv_heads<2>>;
struct learned_slope : score_map {
  template <Extent E>
  struct slope : param<E> {};
  static constexpr auto f(auto s, auto e) {
    return s - square(slope<decltype(e)>{}) * abs(query_position{} - key_position{});
  }
};
using MappedLayer = MultiHead<24, 4, 16, causal, kv_heads<2>, alibi, learned_slope, soft_cap<3>>;

/// A layer equals the reference up to rounding, and has equal bits on one thread, on two, and when repeated; also in
/// float.
template <class L>
void check_layer(std::initializer_list<double> weights = {}) {
  thread_pool single(1), pool(2);
  auto const check_bits = [&]<class T>(T) {
    using Threaded = Cpu<T, thread_pool>;
    auto const one = run_layer<L, T>(Threaded{single}, 5, 150, weights);
    CHECK(run_layer<L, T>(Threaded{pool}, 5, 150, weights) == one);
    CHECK(run_layer<L, T>(Threaded{pool}, 5, 150, weights) == one);
    return one;
  };
  check_close(check_bits(double{}), run_layer<L, double>(Reference<double>{}, 5, 150, weights), 1e-11);
  check_bits(float{});
}
TEST_CASE("backends agree on MoA") { check_layer<MoaLayer>({0.1, 0.2}); }
TEST_CASE("backends agree on grouped-query attention") { check_layer<DenseLayer>(); }
TEST_CASE("backends agree on attention with score maps") { check_layer<MappedLayer>(); }
TEST_CASE("gradients of MoA on the CPU by finite differences") {
  using L = Moa<5, 3, SoftmaxTopK<4, 2, gating::raw>, causal>;
  CHECK(gradcheck_on(Cpu<double>{}, L::y, {}, at<tokens>(11)).ok());
}

struct head : headmix::size<64> {};
struct q : input<tokens, head> {};
struct k : input<tokens, head> {};
struct v : input<tokens, head> {};

/// Bytes of attention with its gradients on the CPU, over n tokens.
template <class... M>
std::size_t attention_workspace(Index n, M...) {
  using Y = decltype(attention<causal>(q{}, k{}, v{}, M{}...));
  thread_pool pool(2);
  Cpu<double, thread_pool> backend(pool);
  Program<roots<Y>, Cpu<double, thread_pool>> program(backend);
  for_each(typename decltype(program)::leaves{}, [&]<class L>() {
    program.bind(L{}, {nullptr, rows<L>::value == 1 ? 1 : n, cols<L>::value});
  });
  return program.workspace_bytes();
}
TEST_CASE("attention on the CPU needs no memory that grows with the square of the tokens") {
  auto const check_growth = [](auto... maps) {
    std::size_t const half = attention_workspace(4096, maps...), all = attention_workspace(8192, maps...);
    CHECK(all <= 2 * half);
    CHECK(all < std::size_t{8192} * 8192 * sizeof(double) / 3);
  };
  check_growth();
  check_growth(learned_slope{}, soft_cap<30>{});
}

/// Bytes of a layer with its gradients on the CPU, over n tokens.
template <LayerPolicy L>
std::size_t layer_workspace(Index n) {
  thread_pool pool(2);
  Module<L, Cpu<double, thread_pool>> m(1, Cpu<double, thread_pool>(pool));
  m.program().bind(typename L::x{}, {nullptr, n, 24}, {nullptr, n, 24});
  m.program().bind_tokens(uniform(1, n));
  return m.program().workspace_bytes();
}
TEST_CASE("layers on the CPU need memory that grows with the tokens, not with their square") {
  CHECK(layer_workspace<MoaLayer>(8192) <= 2 * layer_workspace<MoaLayer>(4096));
  CHECK(layer_workspace<DenseLayer>(8192) <= 2 * layer_workspace<DenseLayer>(4096));
}

}  // namespace

}  // namespace backends_test

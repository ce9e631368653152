// SPDX-License-Identifier: MIT
// Fused kernels: used if a backend has them and the steps are consecutive, with all else unchanged.

#include "headmix/program/lower/fuse.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/layer/feed_forward.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/module.hpp"

namespace fuse_test {

namespace {

using namespace headmix;

/// The reference with a fused router that records its requested outputs.
struct Fusing : Reference<double> {
  struct log {
    int routed = 0;
    bool z = false, log_sum = false, squares = false, p_sum = false, chosen = false, chosen_sum = false, first = false,
         first_sum = false, order = false;
  };
  log* routed = nullptr;
  static std::size_t route_scratch(route_problem<double> const&) { return 8; }
  void route(route_problem<double> const& r, std::span<std::byte> scratch) const {
    CHECK(scratch.size() == 8);
    *routed = {routed->routed + 1,           r.z.data != nullptr,     r.log_sum.data != nullptr,
               r.squares.data != nullptr,    r.p_sum.data != nullptr, r.chosen.data != nullptr,
               r.chosen_sum.data != nullptr, r.first.data != nullptr, r.first_sum.data != nullptr,
               r.order.data != nullptr};
    std::vector<double> products(static_cast<std::size_t>(r.z.size()));
    view<double> const all(r.z.data ? r.z.data : products.data(), r.z.rows, r.z.cols);
    gemm(all, r.x, r.w, false);
    view<double const> const z(all.middle_cols(r.before, r.p.cols)), p(r.p);
    view<Int const> const index(r.index);
    if (r.s.data) map(r.s, tree_leaf<double, false, false>{z}, false);
    softmax(r.p, z);
    top_k(r.index, p);
    using leaf = tree_leaf<double, false, false>;
    std::vector<double> log_sums(static_cast<std::size_t>(z.rows));
    view<double> const log_sum(log_sums.data(), z.rows, 1);
    log_sum_exp(log_sum, z);
    if (r.log_sum.data) log_sum_exp(r.log_sum, z);
    if (r.squares.data) gemm(r.squares, view<double const>(log_sum.transposed()), view<double const>(log_sum), false);
    if (r.p_sum.data) col_sum(r.p_sum, lazy<leaf>{{p}, p.rows, p.cols}, false);
    std::vector<double> chosen(static_cast<std::size_t>(p.size()));
    view<double> const hot(chosen.data(), p.rows, p.cols);
    one_hot(hot, index);
    if (r.chosen.data) one_hot(r.chosen, index);
    if (r.chosen_sum.data) col_sum(r.chosen_sum, lazy<leaf>{{hot}, p.rows, p.cols}, false);
    std::vector<double> firsts(static_cast<std::size_t>(p.size()));
    view<double> const first(firsts.data(), p.rows, p.cols);
    one_hot(first, index.middle_cols(0, 1));
    if (r.first.data) one_hot(r.first, index.middle_cols(0, 1));
    if (r.first_sum.data) col_sum(r.first_sum, lazy<leaf>{{first}, p.rows, p.cols}, false);
    if (r.order.data) sort_by_expert(r.order, r.begins, index, uniform(1, p.rows));
  }
};

/// The result and the gradient of the input of a layer.
template <class L, class Backend>
std::vector<double> run(Backend backend, std::initializer_list<double> weights = {0.1, 0.2}) {
  Module<L, Backend> m(1, backend);
  m.set_randomness(randomness(3));
  std::vector<double> x(7 * 6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(3).uniform(i) - 0.5;
  std::uint64_t stream = 4;
  for (auto const& p : m.parameters()) {
    ++stream;
    for (Index i = 0; i < p.value.size(); ++i) {
      p.value.data[i] = Random(stream).uniform(static_cast<std::uint64_t>(i)) - 0.5;
    }
  }
  auto const y = m.forward(view<double const>(x.data(), 7, 6));
  m.backward(y, weights);
  std::vector<double> all(y.data, y.data + y.size());
  all.insert(all.end(), m.input_gradient().data, m.input_gradient().data + y.size());
  return all;
}

TEST_CASE("fuse: a router's logits, probabilities and choice are one kernel where the backend has it") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  Fusing::log routed;
  Fusing backend;
  backend.routed = &routed;
  CHECK(run<L>(backend) == run<L>(Reference<double>{}));
  CHECK(routed.routed == 1);
  CHECK((routed.log_sum && routed.squares && routed.p_sum && routed.chosen_sum && routed.order));
  CHECK(!(routed.chosen || routed.z));  // only the sum of the choices is read
}
TEST_CASE("fuse: what nobody reads of a router is not wanted") {
  using L = Moh<6, 4, TwoStage<1, 5, 2>, causal>;
  Fusing::log routed;
  Fusing backend;
  backend.routed = &routed;
  CHECK(run<L>(backend, {0.1}) == run<L>(Reference<double>{}, {0.1}));
  CHECK(routed.routed == 1);
  CHECK((routed.p_sum && routed.chosen_sum));
  CHECK(!(routed.log_sum || routed.squares || routed.chosen || routed.order));  // the order includes shared heads
}
TEST_CASE("fuse: first choices are counted with the choices") {
  using L = Smoe<6, SoftmaxTopK<5, 2, loss::first_choice_balance>, FeedForward<4>>;
  Fusing::log routed;
  Fusing backend;
  backend.routed = &routed;
  CHECK(run<L>(backend, {0.1}) == run<L>(Reference<double>{}, {0.1}));
  CHECK(routed.routed == 1);
  CHECK((routed.first_sum && routed.p_sum && routed.order));
  CHECK(!(routed.first || routed.chosen || routed.chosen_sum));
}
TEST_CASE("fuse: logits with noise are not only a product, so they are not fused") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2, noise<>>, causal>;
  Fusing::log routed;
  Fusing backend;
  backend.routed = &routed;
  CHECK(run<L>(backend) == run<L>(Reference<double>{}));
  CHECK(routed.routed == 0);
}
TEST_CASE("fuse: without gradients too") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  Fusing::log routed;
  Fusing backend;
  backend.routed = &routed;
  Module<L, Fusing, inference> m(1, backend);
  std::vector<double> const x(12, 0.5);
  m.forward(view<double const>(x.data(), 2, 6));
  CHECK(routed.routed == 1);
}

struct x : input<tokens, size<6>> {};
struct W : param<size<6>, size<4>> {};

TEST_CASE("fuse: the steps of a program that has no such kernel stay as they are") {
  using Y = decltype(gather_cols(softmax(upcast(x{} % W{})), arg_top_k<size<2>>(softmax(upcast(x{} % W{})))));
  using steps = Program<roots<std::remove_cv_t<Y>>, Reference<double>>::steps;
  CHECK(std::is_same_v<detail::fuse<Reference<double>, steps>, steps>);
  CHECK(detail::fuse<Fusing, steps>::size == steps::size - 2);
}
/// A user's backend with its own kernel, and the pattern that it replaces.
struct BothAtOnce : Reference<double> {
  int* used = nullptr;
  void softmax_of_product(view<double> z, view<double> p, view<double const> a, view<double const> b) const {
    ++*used;
    gemm(z, a, b, false);
    softmax(p, view<double const>(z));
  }
};
struct softmax_of_product : operation {
  static void eval(auto const& run, auto z, auto p, auto a, auto b) { run.backend.softmax_of_product(z, p, a, b); }
};

}  // namespace

}  // namespace fuse_test

namespace headmix {
template <>
inline constexpr bool fuses_steps<fuse_test::BothAtOnce> = true;
namespace detail {
template <class A, class B, class... T>
inline constexpr fused_as<
    fused<fuse_test::softmax_of_product,
          type_list<node<ops::matmul<kind::real>, A, B>, node<ops::softmax, node<ops::matmul<kind::real>, A, B>>>,
          type_list<>, type_list<A, B>>,
    type_list<>, type_list<T...>>
    fusion<fuse_test::BothAtOnce,
           type_list<run_kernel<node<ops::matmul<kind::real>, A, B>>,
                     run_kernel<node<ops::softmax, node<ops::matmul<kind::real>, A, B>>>, T...>>{};
}  // namespace detail
}  // namespace headmix

namespace fuse_test {

namespace {

TEST_CASE("fuse: a pattern of the user's") {
  using Y = std::remove_cv_t<decltype(softmax(x{} % W{}))>;
  int used = 0;
  auto const compute = []<class Backend>(Backend backend) {
    Program<roots<Y>, Backend> program(backend);
    std::vector<double> const rows(12, 0.5),
        weights{1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 1, .5, .1, .2, .3, .4, -1, 1, 2, 2, 1, 0, 1, 0};
    std::vector<double> d_w(24);
    program.bind(x{}, {rows.data(), 2, 6});
    program.bind(W{}, {weights.data(), 6, 4}, {d_w.data(), 6, 4});
    AlignedBuffer workspace(program.workspace_bytes());
    program.bind_workspace(workspace.bytes());
    auto const y = program.forward();
    program.backward({weights.data(), 2, 4});
    d_w.insert(d_w.end(), y.data, y.data + y.size());
    return d_w;
  };
  BothAtOnce backend;
  backend.used = &used;
  CHECK(compute(backend) == compute(Reference<double>{}));
  CHECK(used == 1);
}
TEST_CASE("fuse: what follows from the choices is done with them wherever it stands, and read by whoever does") {
  using z = decltype(upcast(x{} % W{}));
  using p = decltype(softmax(z{}));
  using index = decltype(arg_top_k<size<2>>(p{}));
  // The choices themselves are read, and the sum of the probabilities only by the gradient.
  using Y = decltype(gather_cols(p{}, index{}) * row_sum(one_hot(index{})) * log_sum_exp(z{}) + square(sum(p{})));
  std::vector<double> found[2];
  Fusing::log routed;
  auto const compute = [&]<class Backend>(Backend backend, std::vector<double>& all) {
    Program<roots<std::remove_cv_t<Y>>, Backend> program(backend);
    std::vector<double> const rows = {1, -2, 3, .5, 7, 1, 2, 2, 2, -1, 0, 1},
                              weights = {1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 1, .5, .1, .2, .3, .4, -1, 1, 2, 2, 1, 0, 1, 0};
    std::vector<double> d_x(12), d_w(24);
    program.bind(x{}, {rows.data(), 2, 6}, {d_x.data(), 2, 6});
    program.bind(W{}, {weights.data(), 6, 4}, {d_w.data(), 6, 4});
    AlignedBuffer workspace(program.workspace_bytes());
    program.bind_workspace(workspace.bytes());
    auto const y = program.forward();
    all.assign(y.data, y.data + y.size());
    program.backward({y.data, y.rows, y.cols});
    all.insert(all.end(), d_x.begin(), d_x.end());
    all.insert(all.end(), d_w.begin(), d_w.end());
  };
  Fusing backend;
  backend.routed = &routed;
  compute(backend, found[0]);
  compute(Reference<double>{}, found[1]);
  CHECK(found[0] == found[1]);
  CHECK((routed.log_sum && routed.p_sum && routed.chosen));
  CHECK(!(routed.chosen_sum || routed.order));
}

}  // namespace

}  // namespace fuse_test

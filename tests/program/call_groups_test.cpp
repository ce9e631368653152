// SPDX-License-Identifier: MIT
// Several calls in one kernel: equal to separate calls, for any program. The backend here finishes one row before the
// next, from the last to the first.
#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/headmix.hpp"
#include "headmix/program/listing.hpp"
#include "headmix/testing/conformance/joined.hpp"

namespace call_groups_test {

namespace {

using namespace headmix;

/// A tree that begins at one of its rows.
template <class Tree>
struct tree_from : Tree {
  Index first;
  auto row(Index i) const { return Tree::row(first + i); }
};

struct Log {
  int kernels = 0, steps = 0, stacks = 0, products = 0;
};
struct Joining : Reference<double> {
  Log* log = nullptr;

  template <class T, class A, class B>
  void gemm_stack(view<T> y, view<A const> a, view<B const> b, bool accumulate) {
    ++log->stacks;
    log->products += static_cast<int>(y.count);
    for (Index e = 0; e < y.count; ++e) gemm(y[e], a, b[e], accumulate);
  }

  template <class... S>
  void each_row(Index rows, S const&... step) {
    ++log->kernels;
    log->steps += static_cast<int>(sizeof...(S));
    for (Index i = rows; i-- > 0;) (one(i, step), ...);
  }

 private:
  template <class T>
  static view<T> at(view<T> v, Index i) {
    return v.rows == 1 || v.data == nullptr ? v : v.middle_rows(i, 1);
  }
  template <class T, class Tree>
  void one(Index i, row_step::map<T, Tree> const& s) {
    map(at(s.y, i), tree_from<Tree>{s.tree, i}, s.accumulate);
  }
  template <class T, class Tree>
  void one(Index i, row_step::sum<T, Tree> const& s) {
    row_sum(at(s.y, i), lazy<tree_from<Tree>>{{s.a.tree, i}, 1, s.a.cols}, s.accumulate);
  }
  template <class T, class A>
  void one(Index i, row_step::softmax<T, A> const& s) {
    softmax(at(s.y, i), at(s.a, i));
  }
  template <class T>
  void one(Index i, row_step::gather<T> const& s) {
    gather_cols(at(s.y, i), at(s.a, i), at(s.index, i));
  }
  template <class T>
  void one(Index i, row_step::scatter<T> const& s) {
    if (s.a.data == nullptr) {
      one_hot(at(s.y, i), at(s.index, i));
    } else {
      scatter_cols(at(s.y, i), at(s.a, i), at(s.index, i));
    }
  }
  void one(Index i, row_step::renumber const& s) {
    view<Int const> const none(nullptr, 1, s.y.cols);
    renumber(at(s.y, i), s.a.data == nullptr ? none : at(s.a, i), s.add + i * s.add_per_row, 0, s.divide);
  }
  template <class T, class A, class B>
  void one(Index i, row_step::concat<T, A, B> const& s) {
    auto const y = at(s.y, i);
    map(y.middle_cols(0, s.a.cols), tree_leaf<A, false, false>{at(s.a, i)}, false);
    map(y.middle_cols(s.a.cols, s.b.cols), tree_leaf<B, false, false>{at(s.b, i)}, false);
  }
};
static_assert(FusedRows<Joining> && StackedProducts<Joining> && !detail::groups_calls<Reference<double>>);

/// All results of two passes of a layer over seven tokens.
template <class L, class Backend, class... X>
std::vector<double> numbers_of(Backend backend, X... sizes) {
  Module<L, Backend> m(1, backend, sizes...);
  m.set_randomness(randomness(3));
  std::vector<double> x(7 * 6), dy(7 * 6), all;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(3).normal(i), dy[i] = Random(4).normal(i);
  auto const add = [&](auto v) {
    for (Index e = 0; e < v.count; ++e) {
      for (Index i = 0; i < v.rows; ++i) {
        for (Index j = 0; j < v.cols; ++j) all.push_back(static_cast<double>(v[e](i, j)));
      }
    }
  };
  std::vector<double> const weights(static_cast<std::size_t>(L::losses::size), 0.25);
  for (int pass = 0; pass < 2; ++pass) {
    add(m.forward(view<double const>(x.data(), 7, 6)));
    m.backward({dy.data(), 7, 6}, std::span<double const>(weights));
    add(m.input_gradient());
  }
  for (auto const& p : m.parameters()) add(p.gradient);
  return all;
}
/// The number of fused kernels, and of their steps.
template <class L, class... X>
Log check(X... sizes) {
  Log log;
  Joining backend;
  backend.log = &log;
  CHECK(numbers_of<L>(backend, sizes...) == numbers_of<L>(Reference<double>{}, sizes...));
  return log;
}

TEST_CASE("groups: layers compute the same numbers") {
  Log const moa = check<Moa<6, 4, SoftmaxTopK<5, 2>, causal>>();
  CHECK(moa.kernels < 16);  // of two passes, forward and backward
  CHECK(moa.steps > 4 * moa.kernels);
  Log const moh = check<Moh<6, 4, TwoStage<2, 3, 2>, rope<>>>();
  CHECK(moh.steps > 5 * moh.kernels);
  check<Moa<6, 4, NoisyTopK<5, 3, sampled<1>>, kv_heads<2>, output_dropout<1, 8>>>();
  check<Moh<6, 4, QueryNorm<1, 3, 2>, causal>>();
  check<Mae<6, 4, 3, causal>>();
  check<MhMoe<6, 3, SoftmaxTopK<4, 2, gating::raw, loss::first_choice_balance>, FeedForward<5>, subtoken_residual>>();
  check<Smoe<6, SoftmaxTopK<4, 2>, FeedForward<5, weights::ternary>, capacity<1>>>();
}
TEST_CASE("groups: extents that are known when the program runs are not grouped, and right") {
  using L = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>>;
  check<L>(at<L::model_dim>(6), at<L::head_dim>(4), at<L::experts>(5), at<L::top_k>(2));
}

/// A value of all tokens, computed inside a repeated part that does not change it.
struct Shift {
  struct x : input<tokens, size<6>> {};
  struct gain : param<size<6>> {};
  static constexpr auto mean = row_mean(x{} * gain{});
  static constexpr auto y = softmax(x{} - mean) * row_sum(square(x{})) + mean;
  using losses = type_list<std::remove_cv_t<decltype(load_balance(softmax(x{}), arg_top_k<size<2>>(x{})))>>;
  using observed = type_list<>;
};
template <class... Options>
struct Shifts {
  struct x : input<tokens, size<6>> {};
  static constexpr auto before = softmax(x{});
  static constexpr auto part = repeat<3, Shift, "part", Options...>(before);
  static constexpr auto y = part.y * row_sum(before) + row_mean(part.y);
  using losses = losses_of<part>;
  using observed = type_list<>;
};
TEST_CASE("groups: repeated parts and what is around them stay apart") {
  CHECK(check<Shifts<>>().kernels > 0);
  CHECK(check<Shifts<recompute>>().kernels > 0);
}

struct x : input<tokens, size<4>> {};
struct w : input<tokens, size<4>> {};
struct square_w : input<size<4>, size<4>> {};
template <class Y>
std::vector<double> run(Log& log) {
  auto const compute = [&]<class Backend>(Backend backend) {
    Program<roots<Y>, Backend, inference> program(backend);
    std::vector<double> const a = {3, 1, -2, 5, 2, 2, 7, 1, 0, 1, 9, 4, 1, 6, 5, 8},
                              b = {1, 4, 2, 0, 7, 3, 5, 1, 2, 6, 4, 9, 8, 1, 3, 2};
    using leaves = typename Program<roots<Y>, Backend, inference>::leaves;
    if constexpr (detail::contains<leaves, x>) program.bind(x{}, {a.data(), 4, 4});
    if constexpr (detail::contains<leaves, w>) program.bind(w{}, {b.data(), 4, 4});
    if constexpr (detail::contains<leaves, square_w>) program.bind(square_w{}, {b.data(), 4, 4});
    AlignedBuffer workspace(program.workspace_bytes());
    program.bind_workspace(workspace.bytes());
    auto const y = program.forward();
    return std::vector<double>(y.data, y.data + y.size());
  };
  Joining backend;
  backend.log = &log;
  auto const found = compute(backend);
  CHECK(found == compute(Reference<double>{}));
  return found;
}
TEST_CASE("groups: what reads other rows ends a group") {
  constexpr auto p = softmax(x{} + w{});
  Log transposed, summed, row_local;
  run<std::remove_cv_t<decltype(softmax(p + softmax(x{})))>>(row_local);
  CHECK((row_local.kernels == 1 && row_local.steps >= 3));
  // Row i of a transposed matrix is not a row of the operand, and a column sum depends on all rows.
  run<std::remove_cv_t<decltype(softmax(t(p) + x{}) + p)>>(transposed);
  run<std::remove_cv_t<decltype(softmax(p * col_sum(p)))>>(summed);
  // Also if the matrix is square.
  constexpr auto q = softmax(square_w{});
  run<std::remove_cv_t<decltype(softmax(t(q)) + q)>>(transposed);
}
TEST_CASE("groups: a listing says what a kernel does at once") {
  Joining backend;
  constexpr auto p = softmax(x{} + w{});
  using y = std::remove_cv_t<decltype(softmax(p + softmax(x{})))>;
  Program<roots<y>, Joining, inference> const rows(backend);
  Listing const of_rows = listing(rows);
  REQUIRE(of_rows.calls.size() == 1);
  CHECK(of_rows.calls[0].kernel == "each_row");
  CHECK(of_rows.calls[0].text ==
        "each_row: add(x, w); softmax(add#0); softmax(x); add(softmax#0.1, softmax#0.2); softmax(add#0.3)");
  Module<MultiHead<6, 3, 2>, Joining, inference> m(1, backend);
  Listing const of_products = listing(m);
  CHECK(of_products.calls[0].kernel == "gemm_stack");
  CHECK(of_products.calls[0].text == "gemm_stack: matmul(x, W_q); matmul(x, W_k); matmul(x, W_v)");
}
TEST_CASE("groups: products of one left operand are one, of several weights") {
  Log const three = check<MultiHead<6, 3, 2>>();  // for queries, keys and values, in two passes
  CHECK((three.stacks == 2 && three.products == 6));
  Log const two = check<MultiHead<6, 4, 2, kv_heads<2>, causal>>();
  CHECK((two.stacks == 2 && two.products == 4));
}
struct first : param<size<4>, size<2>> {};
struct second : param<size<4>, size<2>> {};
TEST_CASE("groups: products whose operands do not lie behind each other are made one by one") {
  using Y = std::remove_cv_t<decltype(x{} % first{} + square(x{} % second{}))>;
  Log log;
  auto const compute = [&]<class Backend>(Backend backend, Index distance) {
    Program<roots<Y>, Backend> program(backend);
    std::vector<double> const a = {3, 1, -2, 5, 2, 2, 7, 1};
    std::vector<double> weights(32);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i % 8);
    program.bind(x{}, {a.data(), 2, 4});
    program.bind(first{}, {weights.data() + 8, 4, 2});
    program.bind(second{}, {weights.data() + 8 + distance, 4, 2});
    AlignedBuffer workspace(program.workspace_bytes());
    program.bind_workspace(workspace.bytes());
    auto const y = program.forward();
    return std::vector<double>(y.data, y.data + y.size());
  };
  Joining backend;
  backend.log = &log;
  auto const expected = compute(Reference<double>{}, 8);
  CHECK(compute(backend, 8) == expected);
  CHECK(log.stacks == 1);
  CHECK(compute(backend, 16) == expected);
  CHECK(log.stacks == 2);
  CHECK(compute(backend, 0) == expected);
  CHECK(compute(backend, -8) == expected);
  CHECK(log.stacks == 2);
}
TEST_CASE("groups: the kernels are among those of backend_conformance") {
  Log log;
  Joining backend;
  backend.log = &log;
  conformance_options const options;
  conformance_result result;
  detail::conformance::bench<Joining> b(backend, options, result);
  detail::conformance::check_each_row(b);
  CHECK(result.checks == 7 * 2 * 9);
  CHECK(log.kernels == 7 * 2);
  detail::conformance::check_gemm_stack(b);
  CHECK(log.stacks == 4 * 2 * 2);
  CHECK_MESSAGE(result.ok(), result.text());
}

}  // namespace

}  // namespace call_groups_test

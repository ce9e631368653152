#pragma once
// SPDX-License-Identifier: MIT
// Every kernel of the Cuda backend against the reference, with cases for its own implementation: long sums, sizes that
// are computed in parts, and selection among kernels. A file that includes this names the device by
// `using test_device = ...;` at global scope.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/testing/backend_conformance.hpp"

namespace kernels_test {

using namespace headmix;
using namespace headmix::detail::conformance;
using headmix::testing::device_array;

template <class Device>
constexpr bool checks_accesses = requires {
  typename Device::strict_memory;
};
constexpr bool is_emulated = checks_accesses<test_device>;

using bfloat16_backend = Cuda<bfloat16, test_device>;
using float_backend = Cuda<float, test_device>;
using double_backend = Cuda<double, test_device>;
static_assert(Decodes<bfloat16_backend> && Decodes<float_backend> && Decodes<double_backend>);

TEST_CASE_TEMPLATE("cuda: kernels do what the reference does", B, bfloat16_backend, float_backend, double_backend) {
  B backend;
  conformance_options options;
  // An emulator takes seconds for products of 2^16 rows; sums one after the other are off by 1e-4 at 2^14 rows, too.
  if (is_emulated) options.sum_rows = 1 << 14;
  auto const found = backend_conformance<causal>(backend, options);
  INFO(found.text());
  CHECK(found.ok());
  CHECK(found.checks > 1600);
}

/// A backend whose operands the following tests make; it fails when what they compare differs.
template <class B>
struct kernel_test {
  B backend;
  conformance_options options;
  conformance_result result;
  bench<B> on{backend, options, result};
  ~kernel_test() {
    INFO(result.text());
    CHECK(result.ok());
    CHECK(result.checks > 0);
  }
};

TEST_CASE_TEMPLATE("cuda: column sums of many rows and columns", B, bfloat16_backend, float_backend, double_backend) {
  using W = accumulator_t<typename B::scalar>;
  kernel_test<B> t;
  for (extent const e : {extent{64, 32}, extent{700, 70}, extent{5000, 1}, extent{70, 33000}}) {
    t.on.begin("col_sum", e.rows, " x ", e.cols);
    operand<B, typename B::scalar> a(t.on, e.rows, e.cols);
    operand<B, W> y(t.on, 1, e.cols);
    using leaf = tree_leaf<typename B::scalar, false, false>;
    t.backend.col_sum(y.device(), lazy<leaf>{{a.in()}, e.rows, e.cols}, true);
    t.on.reference.col_sum(y.host(), lazy<tree_leaf<double, false, false>>{{a.host()}, e.rows, e.cols}, true);
    y.check("y");
  }
}

/// Sums in which a thread has 2^14 terms of 0.1, as many as in column sums of 2^23 rows and 512 columns, for which an
/// emulator would take hours. Without blocks they are off by 1e-4 and more.
TEST_CASE("cuda: the terms of a thread are added in blocks") {
  using W = float;
  typename test_device::queue queue;
  constexpr Index terms = 1 << 14;
  constexpr double tenth = 0.1f, most = 256 * 0x1p-23;
  auto const error = [](device_array<W, test_device> const& y, Index n) {
    double worst = 0;
    for (W const found : y.get())
      worst = (std::max)(worst, std::abs(static_cast<double>(found) / (tenth * static_cast<double>(n)) - 1));
    return worst;
  };
  tree_number<W> const tree{0.1f};
  device_array<W, test_device> row(queue, 1), cols(queue, 32);
  cuda_kernels::row_sum<W>(queue, row.matrix(1, 1), lazy<tree_number<W>>{tree, 1, 256 * terms + 1}, false);
  CHECK(error(row, 256 * terms + 1) < most);
  queue.launch(
      cuda_kernels::col_sum_kernel<W, W, tree_number<W>>{
          cols.matrix(32, 1), {tree, 8 * terms, 32}, false, {5}, 1, 8 * terms},
      1);
  CHECK(error(cols, 8 * terms) < most);

  device_array<W, test_device> const parts(queue, std::vector<W>(32 * terms, 0.1f));
  device_array<W, test_device> p_sum(queue, 1), squares(queue, 1);
  cuda_kernels::digit_pass const pass{
      {view<Int const>(nullptr, 0, 1), 1}, {}, {}, 0, 1, 1, 32 * terms, 0, nullptr, nullptr, {}};
  cuda_kernels::route_sums const sums{
      p_sum.matrix(1, 1), {}, {}, squares.matrix(1, 1), {parts.data(), nullptr, nullptr, parts.data()}, pass};
  queue.launch(sums, sums.blocks());
  CHECK(error(p_sum, 32 * terms) < most);
  CHECK(error(squares, 32 * terms) < most);

  device_array<W, test_device> const of_rows(queue, std::vector<W>(256 * terms, 0.1f));
  device_array<W, test_device> by(queue, 1);
  attention_extents x;
  x.queries = uniform(1, 256 * terms);
  cuda_kernels::attention_add_operand_sums<W, 1> const add{x, {of_rows.data(), 1}, {{by.matrix(1, 1)}}};
  queue.launch(add, add.blocks());
  CHECK(error(by, 256 * terms) < most);

  device_array<W, test_device> const one(queue, std::vector<W>{1.0f});
  device_array<W, test_device> product(queue, 1);
  view<W const> left = parts.matrix(1, terms), right = one.matrix(terms, 1);
  right.row_stride = 0;
  queue.launch(cuda_kernels::gemm_kernel<W, W, W, W>{product.matrix(1, 1), left, right, false, terms}, 1);
  CHECK(error(product, terms) < most);

  std::vector<Int> numbers(8 * terms);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<Int>(i);
  device_array<Int, test_device> const order(queue, numbers), short_list(queue, std::vector<Int>{0, terms}),
      long_list(queue, std::vector<Int>{0, 8 * terms});
  view<W const> const column = parts.matrix(8 * terms, 1);
  queue.launch(cuda_kernels::scatter_kernel<W, W>{product.matrix(1, 1), column, order.data(), short_list.data(), false},
               1);
  CHECK(error(product, terms) < most);
  queue.launch(
      cuda_kernels::scatter_long_kernel<W, W>{product.matrix(1, 1), column, order.data(), long_list.data(), false}, 1);
  CHECK(error(product, 8 * terms) < most);

  device_array<W, test_device> mean(queue, static_cast<std::size_t>(terms + 1));
  cuda_kernels::window_mean(queue, mean.matrix(terms + 1, 1), view<W const>(parts.matrix(terms + 1, 1)),
                            uniform(1, terms + 1), terms + 1, false);
  CHECK(std::abs(static_cast<double>(mean.get().back()) / tenth - 1) < most);
}

/// Columns first .. first + cols - 1 of a matrix, or of a stack, that has `gap` more behind them.
template <class B, class T>
struct columns {
  columns(bench<B>& b, Index rows, Index n, Index before, Index gap, Index count = 1)
      : all(b, rows, before + n + gap, layout::plain, count), first(before), cols(n) {}
  [[nodiscard]] view<T> device() { return all.device().middle_cols(first, cols); }
  [[nodiscard]] view<T const> in() { return device(); }
  [[nodiscard]] view<double> host() { return all.host().middle_cols(first, cols); }
  [[nodiscard]] view<double const> read() { return host(); }
  operand<B, T> all;
  Index first, cols;
};

/// silu(a) b + r tanh(c), where r is a row and c a column.
template <class W, class T>
struct gated_tree {
  using leaf = tree_leaf<T, false, false>;
  using type = tree_node<
      W, ops::add,
      tree_node<W, ops::multiply, tree_node<W, ops::multiply, leaf, tree_node<W, ops::sigmoid, leaf>>, leaf>,
      tree_node<W, ops::multiply, tree_leaf<T, true, false>, tree_node<W, ops::tanh, tree_leaf<T, false, true>>>>;
  static type of(view<T const> a, view<T const> b, view<T const> r, view<T const> c) {
    return {{{{a}, {{a}}}, {b}}, {{r}, {{c}}}};
  }
};
/// Where the operands lie: columns before a, r and y, and behind a, b and y; all that is not a multiple of 16 bytes is
/// computed number by number.
struct places {
  Index before_a, before_r, before_y, behind_a, behind_b, behind_y;
};
template <class T>
bool are_aligned(places const& p) {
  constexpr Index n = 16 / sizeof(T);
  return (p.before_a % n | p.before_r % n | p.before_y % n | (p.before_a + p.behind_a) % n | p.behind_b % n |
          (p.before_y + p.behind_y) % n) == 0;
}
constexpr places some_places[] = {{0, 0, 0, 0, 0, 0}, {8, 16, 8, 0, 24, 8}, {4, 4, 4, 4, 4, 4},
                                  {1, 0, 0, 7, 0, 0}, {0, 1, 0, 0, 0, 0},   {0, 0, 1, 0, 0, 7},
                                  {0, 0, 0, 1, 0, 0}, {0, 0, 0, 0, 3, 0},   {0, 0, 0, 0, 0, 5}};
constexpr extent extents_of_vectors[] = {{1, 8}, {3, 16}, {37, 72}, {1, 4104}, {300, 8},
                                         {0, 8}, {5, 0},  {5, 1},   {4, 12},   {9, 63}};

TEST_CASE_TEMPLATE("cuda: maps in vectors of elements", B, bfloat16_backend, float_backend) {
  using T = typename B::scalar;
  kernel_test<B> t;
  for (auto const [rows, cols] : extents_of_vectors) {
    for (places const& p : some_places) {
      for (bool const accumulate : {false, true}) {
        t.on.begin("map", rows, " x ", cols, " before ", p.before_a, " ", p.before_r, " ", p.before_y, " behind ",
                   p.behind_a, " ", p.behind_b, " ", p.behind_y, accumulate ? " added" : "");
        columns<B, T> a(t.on, rows, cols, p.before_a, p.behind_a), b(t.on, rows, cols, 0, p.behind_b),
            r(t.on, 1, cols, p.before_r, 0), c(t.on, rows, 1, 1, 1), y(t.on, rows, cols, p.before_y, p.behind_y);
        auto const tree = gated_tree<float, T>::of(a.in(), b.in(), r.in(), c.in());
        auto const expected = gated_tree<double, double>::of(a.read(), b.read(), r.read(), c.read());
        if (y.device().size() > 0) {
          CHECK(cuda_kernels::map_in_vectors<float>(y.device(), tree) == (cols % 8 == 0 && are_aligned<T>(p)));
        }
        t.backend.map(y.device(), tree, accumulate);
        t.on.reference.map(y.host(), expected, accumulate);
        y.all.check("y");
        columns<B, float> wide(t.on, rows, cols, p.before_y, p.behind_y);
        t.backend.map(wide.device(), tree, accumulate);
        t.on.reference.map(wide.host(), expected, accumulate);
        wide.all.check("y");
      }
    }
  }
}
TEST_CASE_TEMPLATE("cuda: row sums in vectors of elements", B, bfloat16_backend, float_backend) {
  using T = typename B::scalar;
  kernel_test<B> t;
  std::vector<extent> extents(std::begin(extents_of_vectors), std::end(extents_of_vectors));
  for (extent const e : {extent{70, 512}, extent{2, 8200}, extent{33, 32}, extent{9, 264}}) extents.push_back(e);
  for (auto const [rows, cols] : extents) {
    for (places const& p : some_places) {
      bool const accumulate = p.behind_b > 0;
      t.on.begin("row_sum", rows, " x ", cols, " before ", p.before_a, " ", p.before_r, " behind ", p.behind_a, " ",
                 p.behind_b, accumulate ? " added" : "");
      columns<B, T> a(t.on, rows, cols, p.before_a, p.behind_a), b(t.on, rows, cols, 0, p.behind_b),
          r(t.on, 1, cols, p.before_r, 0), c(t.on, rows, 1, 1, 1);
      columns<B, float> y(t.on, rows, 1, p.before_y, p.behind_y);
      auto const tree = gated_tree<float, T>::of(a.in(), b.in(), r.in(), c.in());
      auto const expected = gated_tree<double, double>::of(a.read(), b.read(), r.read(), c.read());
      places of_tree = p;
      of_tree.before_y = of_tree.behind_y = 0;
      if (rows * cols > 0) {
        CHECK(cuda_kernels::rows_are_vectors<float>(tree, cols) == (cols % 8 == 0 && are_aligned<T>(of_tree)));
      }
      t.backend.row_sum(y.device(), lazy<decltype(gated_tree<float, T>::of({}, {}, {}, {}))>{tree, rows, cols},
                        accumulate);
      t.on.reference.row_sum(
          y.host(), lazy<decltype(gated_tree<double, double>::of({}, {}, {}, {}))>{expected, rows, cols}, accumulate);
      y.all.check("y");
    }
  }
}
TEST_CASE_TEMPLATE("cuda: maps of stacks, repeated rows and numbers in vectors", B, bfloat16_backend, float_backend) {
  using T = typename B::scalar;
  kernel_test<B> t;
  auto const tree_of = []<class V, class L>(std::type_identity<V>, view<L const> a, view<L const> r) {
    using leaf = tree_leaf<L, false, false>;
    return tree_node<V, ops::subtract, tree_node<V, ops::absolute, leaf>,
                     tree_node<V, ops::divide, tree_repeat<leaf>, tree_number<V>>>{{{a}}, {{{r}, 3}, {V(4)}}};
  };
  for (Index const gap : {0, 1, 8}) {
    for (Index const count : {1, 5}) {
      t.on.begin("map", count, " matrices, gap ", gap);
      columns<B, T> y(t.on, 6, 24, 0, gap, count), a(t.on, 6, 24, 0, 8 - gap, count), r(t.on, 2 * count, 24, 8, 0);
      auto const tree = tree_of(std::type_identity<float>{}, a.in(), r.in());
      CHECK(cuda_kernels::map_in_vectors<float>(y.device(), tree) == (gap != 1));
      t.backend.map(y.device(), tree, true);
      t.on.reference.map(y.host(), tree_of(std::type_identity<double>{}, a.read(), r.read()), true);
      y.all.check("y");
      t.backend.map(y.device(), tree_number<float>{0.0f}, false);
      t.on.reference.map(y.host(), tree_number<double>{0.0}, false);
      y.all.check_exact("zeros");
    }
  }
  // Matrices that begin where no vector may, though their rows are a multiple apart; and neighbours in a column.
  columns<B, T> all(t.on, 1, 200, 0, 0), from(t.on, 4, 16, 0, 0);
  view<T> y = all.device();
  y.count = 2, y.rows = 2, y.cols = 16, y.row_stride = 32, y.stack_stride = 81;
  tree_leaf<T, false, false> const leaf{from.in()};
  CHECK(!cuda_kernels::map_in_vectors<float>(y, leaf));
  y.stack_stride = 80;
  CHECK(cuda_kernels::map_in_vectors<float>(y, leaf));
  CHECK(!cuda_kernels::map_in_vectors<float>(y.transposed(), leaf));
  CHECK(!cuda_kernels::map_in_vectors<float>(y, tree_leaf<T, false, false>{from.in().transposed()}));
  t.on.begin("map", "a stack with gaps");
  view<double> expected = all.host();
  expected.count = 2, expected.rows = 2, expected.cols = 16, expected.row_stride = 32, expected.stack_stride = 80;
  t.backend.map(y, leaf, true);
  t.on.reference.map(expected, tree_leaf<double, false, false>{from.read()}, true);
  all.all.check("y");
}

/// y (+)= a b in the types Y, A, C by our own kernel, which is not always the one that the backend chooses.
template <class B, class Y, class A, class C>
void check_own_gemm(Index m, Index n, Index k, layout of_y, layout of_a, layout of_b, bool accumulate) {
  kernel_test<B> t;
  t.on.begin("gemm", m, " x ", n, " x ", k);
  operand<B, Y> y(t.on, m, n, of_y);
  operand<B, A> a(t.on, m, k, of_a);
  operand<B, C> b(t.on, k, n, of_b);
  cuda_kernels::gemm<accumulator_t<typename B::scalar>>(t.backend.queue(), y.device(), a.in(), b.in(), accumulate);
  t.on.reference.gemm(y.host(), view<double const>(a.host()), view<double const>(b.host()), accumulate);
  y.check("y");
}
TEST_CASE("cuda: dense products by our own kernel") {
  constexpr layout plain = layout::plain, gaps = layout::gaps, transposed = layout::transposed;
  for (layout const of_a : all_layouts) {
    for (layout const of_b : all_layouts) {
      check_own_gemm<bfloat16_backend, bfloat16, bfloat16, bfloat16>(65, 130, 33, plain, of_a, of_b, of_a == gaps);
      check_own_gemm<double_backend, double, double, double>(5, 7, 100, of_a, of_a, of_b, of_b == gaps);
    }
  }
  check_own_gemm<bfloat16_backend, float, bfloat16, bfloat16>(20, 70, 9, plain, plain, plain, false);
  check_own_gemm<bfloat16_backend, bfloat16, float, bfloat16>(20, 70, 9, plain, gaps, transposed, true);
  check_own_gemm<bfloat16_backend, float, float, bfloat16>(70, 3, 19, transposed, plain, plain, true);
  check_own_gemm<bfloat16_backend, bfloat16, bfloat16, float>(7, 66, 19, plain, transposed, plain, false);
  // Long sums of few elements are made in parts.
  check_own_gemm<bfloat16_backend, float, bfloat16, float>(20, 70, 3001, plain, transposed, plain, false);
  check_own_gemm<double_backend, double, double, double>(3, 5, 1100, gaps, plain, transposed, true);
}

/// A queue with less scratch memory.
struct narrow_queue {
  typename test_device::queue queue;
  std::size_t bytes;
  template <class K>
  void launch(K const& kernel, Index blocks) {
    queue.launch(kernel, blocks);
  }
  [[nodiscard]] std::span<std::byte> workspace() { return queue.workspace().first(bytes); }
};

template <class T, class Queue>
void check_scatter(kernel_test<Cuda<T, test_device>>& t, Queue& launcher, std::vector<Int> const& chosen, Index v,
                   Index cols, layout form, bool accumulate) {
  using B = Cuda<T, test_device>;
  auto const rows = static_cast<Index>(chosen.size());
  t.on.begin("scatter_rows", rows, " x ", cols, " to ", v);
  operand<B, T> a(t.on, rows, cols, form), y(t.on, v, cols, form);
  int_operand<B> index(t.on, chosen, rows, 1);
  cuda_kernels::scatter_rows<accumulator_t<T>>(launcher, y.device(), a.in(), index.in(), accumulate);
  t.on.reference.scatter_rows(y.host(), view<double const>(a.host()), view<Int const>(index.host()), accumulate);
  y.check("y");
}
TEST_CASE_TEMPLATE("cuda: many rows that are added to a table", T, bfloat16, float) {
  kernel_test<Cuda<T, test_device>> t;
  auto& q = t.backend.queue();
  for (Index const rows : {0, 1, 7, 600}) {
    for (Index const v : {1, 5, 900, 2500}) {
      for (layout const form : all_layouts) {
        if (v > 5 && form == layout::gaps) continue;
        check_scatter<T>(t, q, random_choices(rows, v), v, v == 5 ? 150 : 3, form, form == layout::gaps);
        check_scatter<T>(t, q, random_choices(rows, v), v, 1, form, form != layout::gaps);
      }
      check_scatter<T>(t, q, std::vector<Int>(static_cast<std::size_t>(rows), static_cast<Int>(v - 1)), v, 40,
                       layout::plain, v == 5);
      check_scatter<T>(t, q, std::vector<Int>(static_cast<std::size_t>(rows), -1), v, 4, layout::plain, v == 900);
    }
  }
  check_scatter<T>(t, q, {}, 0, 4, layout::plain, false);
  check_scatter<T>(t, q, {0, 0, 0}, 1, 0, layout::plain, false);
}
TEST_CASE("cuda: rows that are added to a table in parts") {
  kernel_test<float_backend> t;
  for (Index const v : {5, 1500}) {
    std::size_t const fixed = cuda_kernels::digit_plan(static_cast<Int>(v)).bytes(0);
    narrow_queue few{t.backend.queue(), fixed + 4 * static_cast<std::size_t>(v + 1) + 2000};
    check_scatter<float>(t, few, random_choices(700, v), v, 5, layout::plain, false);
    check_scatter<float>(t, few, random_choices(700, v), v, 5, layout::plain, true);
  }
}

TEST_CASE("cuda: slots by many experts, in more than one digit") {
  kernel_test<float_backend> t;
  for (Index const experts : {300, 1023, 1024, 3000}) {
    for (Index const rows : {1, 777}) {
      check_order(t.on, random_choices(rows * 3, experts), rows, 3, experts, layout::plain,
                  {0, static_cast<Int>(rows)});
      check_order(t.on, random_choices(rows * 3, (experts + 2) / 3), rows, 3, experts, layout::transposed,
                  {0, static_cast<Int>(rows)});
    }
  }
  check_order(t.on, random_choices(212 * 3, 300), 212, 3, 300, layout::plain, {0, 53, 106, 159, 212});
}
TEST_CASE("cuda: slots by expert, more than one step of a warp and more than one part of the scan") {
  kernel_test<float_backend> t;
  check_order(t.on, random_choices(20000 * 4, 33), 20000, 4, 33, layout::plain, {0, 20000});
}
TEST_CASE("cuda: no sequences at all") {
  kernel_test<float_backend> t;
  check_order(t.on, {}, 0, 2, 5, layout::plain, {0});
}

struct turn_all {
  float const* angle;
  float *cosine, *sine;
  HEADMIX_DEVICE void operator()(Index i) const {
    auto const by = cuda_kernels::cosine_and_sine_of(angle[i]);
    cosine[i] = by.cosine, sine[i] = by.sine;
  }
};
TEST_CASE("cuda: cosine and sine of all angles that positions have") {
  float_backend backend;
  auto& q = backend.queue();
  constexpr Index n = 20000;
  std::vector<float> angle, cosine, sine;
  for (Index i = 0; i < n; ++i) {
    double const range = std::exp2(static_cast<double>(i % 40) - 20);
    angle.push_back(static_cast<float>((Random(31).uniform(static_cast<std::uint64_t>(i)) * 2 - 1) * range));
  }
  device_array<float, test_device> in(q, angle), c(q, n), s(q, n);
  backend.for_each(n, turn_all{in.data(), c.data(), s.data()});
  cosine = c.get(), sine = s.get();
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    worst = std::fmax(worst, std::abs(cosine[i] - std::cos(static_cast<double>(angle[i]))));
    worst = std::fmax(worst, std::abs(sine[i] - std::sin(static_cast<double>(angle[i]))));
  }
  CHECK(worst <= 1.5e-7);
}

struct add_index {
  Int* data;
  HEADMIX_HD void operator()(Index i) const { data[i] += static_cast<Int>(i); }
};
TEST_CASE("cuda: a function of every number") {
  kernel_test<float_backend> t;
  for (Index const n : {0, 1, 1000}) {
    t.on.begin("for_each", n);
    int_operand<float_backend> a(t.on, std::vector<Int>(static_cast<std::size_t>(n) + 1, 5), 1, n + 1);
    t.backend.for_each(n, add_index{a.device().data});
    for (Index i = 0; i < n; ++i) a.host()(0, i) += static_cast<Int>(i);
    a.check("a");
  }
}

static_assert(BackendPolicy<float_backend> && BackendPolicy<double_backend> && BackendPolicy<bfloat16_backend>);
static_assert(MapsScores<bfloat16_backend> && FusedRoute<bfloat16_backend> && FusedGatedAttention<bfloat16_backend> &&
              ForEach<bfloat16_backend>);
static_assert(!StoresProbabilities<bfloat16_backend> && !PackedGemm<bfloat16_backend>);

}  // namespace kernels_test

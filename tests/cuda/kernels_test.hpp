#pragma once
// SPDX-License-Identifier: MIT
// Every kernel of the Cuda backend, except grouped products and attention, against Reference<double> on the same
// numbers. Whoever includes this names the device by `using test_device = ...;` at global scope.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/expr/random.hpp"

namespace kernels_test {

using namespace headmix;
using headmix::testing::device_array;

using bfloat16_backend = Cuda<bfloat16, test_device>;
using float_backend = Cuda<float, test_device>;
using double_backend = Cuda<double, test_device>;

template <class T>
inline constexpr double tolerance = 1e-12;
template <>
inline constexpr double tolerance<float> = 1e-5;
template <>
inline constexpr double tolerance<bfloat16> = 1e-2;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

enum class layout { plain, gaps, transposed };
constexpr layout all_layouts[] = {layout::plain, layout::gaps, layout::transposed};

/// A matrix, or a stack of them, on the device in T and on the host in H, with the same numbers and the same strides.
template <class T, class H = double>
class operand {
 public:
  template <class Queue>
  operand(Queue queue, Index rows, Index cols, layout form = layout::plain, Index count = 1)
      : operand(queue, numbers(rows, cols, form, count), rows, cols, form, count) {}
  template <class Queue>
  operand(Queue queue, std::vector<H> const& values, Index rows, Index cols, layout form = layout::plain,
          Index count = 1)
      : values_(values), device_(queue, testing::converted<T>(values)) {
    host_ = view<H>(values_.data(), count, rows, cols);
    if (form == layout::gaps) {
      host_.col_stride = 2, host_.row_stride = 2 * cols + 3, host_.stack_stride = rows * host_.row_stride + 5;
    }
    if (form == layout::transposed) host_.col_stride = rows, host_.row_stride = 1;
  }

  [[nodiscard]] view<H> host() const { return host_; }
  [[nodiscard]] view<T> device() const { return device_.like(host_, static_cast<H const*>(values_.data())); }
  void set(Index i, Index j, H value) {
    host_(i, j) = value;
    device_.set(testing::converted<T>(values_));
  }

  /// What the device has equals what the host has, and what lies between the elements is as it was.
  void check(double allowed = tolerance<T>) const {
    auto const found = device_.get();
    std::vector<bool> element(values_.size());
    std::vector<H> mine, expected;
    for (Index e = 0; e < host_.count; ++e) {
      for (Index i = 0; i < host_.rows; ++i) {
        for (Index j = 0; j < host_.cols; ++j) {
          auto const at =
              static_cast<std::size_t>(e * host_.stack_stride + i * host_.row_stride + j * host_.col_stride);
          element[at] = true;
          mine.push_back(static_cast<H>(found[at]));
          expected.push_back(values_[at]);
        }
      }
    }
    double const error = testing::relative_error(mine, expected);
    CHECK(error <= (std::is_same_v<T, Int> ? 0 : allowed));
    Index touched = 0;
    for (std::size_t at = 0; at < values_.size(); ++at) {
      if (!element[at] && static_cast<H>(found[at]) != values_[at]) ++touched;
    }
    CHECK(touched == 0);
  }

 private:
  static std::vector<H> numbers(Index rows, Index cols, layout form, Index count) {
    Index const n = form == layout::gaps ? count * (rows * (2 * cols + 3) + 5) : count * rows * cols;
    static std::uint64_t stream = 0;
    return testing::converted<H>(testing::random_numbers<T>(n, ++stream));
  }

  std::vector<H> values_;
  device_array<T, test_device> device_;
  view<H> host_;
};
using int_operand = operand<Int, Int>;

/// Choices of {-1, 0, ..., n - 1}, every fourth of them nothing.
inline std::vector<Int> random_choices(Index size, Index n, std::uint64_t stream = 1) {
  std::vector<Int> chosen(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    bool const nothing = n == 0 || Random(21, stream).below(i, 4) == 0;
    chosen[i] = nothing ? -1 : static_cast<Int>(Random(22, stream).below(i, static_cast<std::uint64_t>(n)));
  }
  return chosen;
}
/// Distinct choices in each row, some of them nothing.
inline std::vector<Int> distinct_choices(Index rows, Index cols, Index n) {
  std::vector<Int> chosen;
  for (Index i = 0; i < rows; ++i) {
    for (Index k = 0; k < cols; ++k) {
      chosen.push_back((i + k) % 5 == 0 ? -1 : static_cast<Int>((7 * i + k) % n));
    }
  }
  return chosen;
}

/// a * b + exp(c) with a matrix (or stack), a row and a column.
template <class W, class T>
using tree_of_three =
    tree_node<W, ops::add, tree_node<W, ops::multiply, tree_leaf<T, false, false>, tree_leaf<T, true, false>>,
              tree_node<W, ops::exp, tree_leaf<T, false, true>>>;

struct extent {
  Index rows, cols;
};
constexpr extent few_extents[] = {{0, 5}, {5, 0}, {1, 1}, {1, 37}, {33, 1}, {7, 13}, {150, 41}, {3, 1500}};

TEST_CASE_TEMPLATE("cuda: map", B, bfloat16_backend, float_backend, double_backend) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  B backend;
  auto& q = backend.queue();
  for (extent const e : few_extents) {
    Index const rows = e.rows, cols = e.cols;
    for (layout const form : all_layouts) {
      for (bool const accumulate : {false, true}) {
        CAPTURE(rows);
        CAPTURE(cols);
        operand<T> y(q, rows, cols, form), a(q, rows, cols, layout::gaps), b(q, 1, cols), c(q, rows, 1);
        operand<W> wide_y(q, rows, cols, form);
        tree_of_three<W, T> const tree = {{{a.device()}, {b.device()}}, {{c.device()}}};
        tree_of_three<double, double> const expected = {{{a.host()}, {b.host()}}, {{c.host()}}};
        backend.map(y.device(), tree, accumulate);
        Reference<double>{}.map(y.host(), expected, accumulate);
        y.check();
        backend.map(wide_y.device(), tree, accumulate);
        Reference<double>{}.map(wide_y.host(), expected, accumulate);
        wide_y.check();
      }
    }
  }
}
TEST_CASE_TEMPLATE("cuda: map over stacks, repeated rows and numbers", B, bfloat16_backend, float_backend) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  B backend;
  auto& q = backend.queue();
  for (layout const form : {layout::plain, layout::gaps}) {
    operand<T> y(q, 6, 11, form, 5), a(q, 6, 11, layout::gaps, 5), r(q, 10, 11);
    auto const tree = []<class V, class L>(std::type_identity<V>, view<L const> of_a, view<L const> of_r) {
      using leaf = tree_leaf<L, false, false>;
      return tree_node<V, ops::subtract, leaf, tree_node<V, ops::divide, tree_repeat<leaf>, tree_number<V>>>{
          {of_a}, {{{of_r}, 3}, {V(4)}}};
    };
    backend.map(y.device(), tree(std::type_identity<W>{}, view<T const>(a.device()), view<T const>(r.device())), true);
    Reference<double>{}.map(
        y.host(), tree(std::type_identity<double>{}, view<double const>(a.host()), view<double const>(r.host())), true);
    y.check();
  }
}
TEST_CASE_TEMPLATE("cuda: random values are those of the host", B, float_backend) {
  B backend;
  auto& q = backend.queue();
  randomness const seed(5, 6, 7, 8);
  int_operand key(q, std::vector<Int>(seed.word, seed.word + 6), 1, 6);
  operand<float> y(q, 40, 17), z(q, 40, 17);
  backend.map(y.device(), tree_random<draws::normal, 2>{key.device().data, 17, 4}, false);
  Reference<double>{}.map(y.host(), tree_random<draws::normal, 2>{key.host().data, 17, 4}, false);
  y.check();
  backend.map(z.device(), tree_random<draws::keep<1, 3>, 3>{key.device().data, 17, 4}, false);
  Reference<double>{}.map(z.host(), tree_random<draws::keep<1, 3>, 3>{key.host().data, 17, 4}, false);
  z.check(1e-7);
}

TEST_CASE_TEMPLATE("cuda: row sums", B, bfloat16_backend, float_backend, double_backend) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  B backend;
  auto& q = backend.queue();
  for (Index const rows : {0, 1, 9, 70}) {
    for (Index const cols : {0, 1, 4, 5, 40, 300, 1500}) {
      for (layout const form : all_layouts) {
        CAPTURE(rows);
        CAPTURE(cols);
        operand<T> a(q, rows, cols, form), b(q, 1, cols), c(q, rows, 1);
        operand<W> y(q, rows, 1, layout::gaps);
        bool const accumulate = cols % 2 == 0;
        backend.row_sum(y.device(),
                        lazy<tree_of_three<W, T>>{{{{a.device()}, {b.device()}}, {{c.device()}}}, rows, cols},
                        accumulate);
        Reference<double>{}.row_sum(
            y.host(), lazy<tree_of_three<double, double>>{{{{a.host()}, {b.host()}}, {{c.host()}}}, rows, cols},
            accumulate);
        y.check();
      }
    }
  }
}

TEST_CASE_TEMPLATE("cuda: column sums", B, bfloat16_backend, float_backend, double_backend) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  B backend;
  auto& q = backend.queue();
  for (extent const e : {extent{0, 5}, extent{5, 0}, extent{1, 1}, extent{3, 7}, extent{64, 32}, extent{700, 70},
                         extent{2001, 3}, extent{5000, 1}, extent{70, 33000}}) {
    Index const rows = e.rows, cols = e.cols;
    for (layout const form : all_layouts) {
      if (rows * cols > 100000 && form != layout::plain) continue;
      CAPTURE(rows);
      CAPTURE(cols);
      operand<T> a(q, rows, cols, form), b(q, 1, cols), c(q, rows, 1);
      operand<W> y(q, 1, cols, form);
      bool const accumulate = rows % 2 == 0;
      backend.col_sum(y.device(), lazy<tree_of_three<W, T>>{{{{a.device()}, {b.device()}}, {{c.device()}}}, rows, cols},
                      accumulate);
      Reference<double>{}.col_sum(
          y.host(), lazy<tree_of_three<double, double>>{{{{a.host()}, {b.host()}}, {{c.host()}}}, rows, cols},
          accumulate);
      y.check();
    }
  }
}

TEST_CASE_TEMPLATE("cuda: sums of groups of rows", B, bfloat16_backend, float_backend) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  B backend;
  auto& q = backend.queue();
  for (Index const n : {1, 3, 8}) {
    for (extent const e : few_extents) {
      Index const rows = e.rows, cols = e.cols;
      operand<T> a(q, rows * n, cols, layout::gaps), b(q, 1, cols), c(q, rows * n, 1), y(q, rows, cols);
      bool const accumulate = n == 3;
      backend.group_sum(y.device(),
                        lazy<tree_of_three<W, T>>{{{{a.device()}, {b.device()}}, {{c.device()}}}, rows * n, cols}, n,
                        accumulate);
      Reference<double>{}.group_sum(
          y.host(), lazy<tree_of_three<double, double>>{{{{a.host()}, {b.host()}}, {{c.host()}}}, rows * n, cols}, n,
          accumulate);
      y.check();
    }
  }
}

/// y (+)= a b in the types Y, A, B of a backend for Scalar, by our own kernel and by whatever the backend chooses.
template <class Scalar, class Y, class A, class C>
void check_gemm(Index m, Index n, Index k, layout of_y, layout of_a, layout of_b, bool accumulate) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  Cuda<Scalar, test_device> backend;
  auto& q = backend.queue();
  operand<Y> y(q, m, n, of_y), z(q, m, n, of_y);
  operand<A> a(q, m, k, of_a);
  operand<C> b(q, k, n, of_b);
  view<A const> const left = a.device();
  view<C const> const right = b.device();
  cuda::gemm<accumulator_t<Scalar>>(q, y.device(), left, right, accumulate);
  Reference<double>{}.gemm(y.host(), view<double const>(a.host()), view<double const>(b.host()), accumulate);
  y.check();
  backend.gemm(z.device(), left, right, accumulate);
  Reference<double>{}.gemm(z.host(), view<double const>(a.host()), view<double const>(b.host()), accumulate);
  z.check();
}
TEST_CASE_TEMPLATE("cuda: dense products", T, bfloat16, float, double) {
  struct extents {
    Index m, n, k;
  };
  for (auto const [m, n, k] : {extents{0, 3, 4}, extents{3, 0, 4}, extents{3, 4, 0}, extents{1, 1, 1},
                               extents{5, 7, 100}, extents{64, 64, 16}, extents{65, 130, 33}}) {
    for (layout const of_a : all_layouts) {
      for (layout const of_b : all_layouts) {
        check_gemm<T, T, T, T>(m, n, k, of_a == of_b ? of_a : layout::plain, of_a, of_b, of_a == layout::gaps);
      }
    }
  }
}
TEST_CASE("cuda: dense products of mixed types") {
  check_gemm<bfloat16, float, bfloat16, bfloat16>(20, 70, 9, layout::plain, layout::plain, layout::plain, false);
  check_gemm<bfloat16, bfloat16, float, bfloat16>(20, 70, 9, layout::plain, layout::gaps, layout::transposed, true);
  check_gemm<bfloat16, float, float, bfloat16>(70, 3, 19, layout::transposed, layout::plain, layout::plain, true);
  check_gemm<bfloat16, bfloat16, bfloat16, float>(7, 66, 19, layout::plain, layout::transposed, layout::plain, false);
  check_gemm<double, double, double, double>(7, 66, 300, layout::gaps, layout::transposed, layout::gaps, false);
  // Long sums of few elements are made in parts.
  check_gemm<bfloat16, float, bfloat16, float>(20, 70, 3001, layout::plain, layout::transposed, layout::plain, false);
  check_gemm<double, double, double, double>(3, 5, 1100, layout::gaps, layout::plain, layout::transposed, true);
}

/// Rows that are easily wrong: nothing but minus infinities, some of them, infinity, some or nothing but not a number.
template <class T>
void set_odd_rows(operand<T>& a) {
  view<double> const v = a.host();
  for (Index j = 0; j < v.cols; ++j) {
    if (v.rows > 1) v(1, j) = -infinity;
    if (v.rows > 2 && j % 3 == 0) v(2, j) = -infinity;
    if (v.rows > 6) v(6, j) = not_a_number;
    if (v.rows > 7) v(7, j) *= 64;
  }
  if (v.rows > 3 && v.cols > 2) v(3, v.cols / 2) = infinity;
  if (v.rows > 4 && v.cols > 2) v(4, v.cols / 2) = not_a_number;
  if (v.rows > 5 && v.cols > 2) v(5, 0) = not_a_number, v(5, v.cols - 1) = -infinity;
  if (v.rows > 0 && v.cols > 0) a.set(0, 0, v(0, 0));
}
TEST_CASE_TEMPLATE("cuda: softmax and log-sum-exp", B, bfloat16_backend, float_backend, double_backend) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  B backend;
  auto& q = backend.queue();
  for (Index const rows : {0, 1, 9, 40}) {
    for (Index const cols : {0, 1, 3, 8, 33, 300, 1024, 1025, 2500}) {
      if (rows * cols > 15000) continue;
      for (layout const form : all_layouts) {
        CAPTURE(rows);
        CAPTURE(cols);
        operand<T> a(q, rows, cols, form), y(q, rows, cols, form);
        operand<W> wide_y(q, rows, cols), lse(q, rows, 1, layout::gaps);
        set_odd_rows(a);
        view<T const> const in = a.device();
        backend.softmax(y.device(), in);
        backend.softmax(wide_y.device(), in);
        backend.log_sum_exp(lse.device(), in);
        Reference<double>{}.softmax(y.host(), view<double const>(a.host()));
        Reference<double>{}.softmax(wide_y.host(), view<double const>(a.host()));
        Reference<double>{}.log_sum_exp(lse.host(), view<double const>(a.host()));
        y.check();
        wide_y.check();
        lse.check();
      }
    }
  }
}

TEST_CASE_TEMPLATE("cuda: the best columns", B, bfloat16_backend, float_backend) {
  using T = typename B::scalar;
  B backend;
  auto& q = backend.queue();
  for (Index const rows : {0, 1, 9, 70}) {
    for (Index const cols : {1, 2, 7, 32, 33, 300}) {
      for (Index const k : {1, 2, 8, 32}) {
        if (k > cols || rows * cols * k > 50000) continue;
        for (layout const form : all_layouts) {
          CAPTURE(rows);
          CAPTURE(cols);
          CAPTURE(k);
          operand<T> a(q, rows, cols, form);
          set_odd_rows(a);
          for (Index j = 0; rows > 8 && j < cols; ++j) {
            a.host()(6, j) = j % 3 == 0 ? 0.0 : -0.0;  // equal to each other
            a.host()(8, j) = j % 2 == 0 ? not_a_number : static_cast<double>(j / 4);
          }
          if (rows > 0) a.set(0, 0, a.host()(0, 0));
          int_operand y(q, std::vector<Int>(static_cast<std::size_t>(rows * k), -7), rows, k);
          backend.top_k(y.device(), view<T const>(a.device()));
          Reference<double>{}.top_k(y.host(), view<double const>(a.host()));
          y.check();
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("cuda: values at chosen columns", B, bfloat16_backend, float_backend) {
  using T = typename B::scalar;
  B backend;
  auto& q = backend.queue();
  for (Index const rows : {0, 1, 9, 300}) {
    for (Index const cols : {1, 5, 40}) {
      for (Index const k : {1, 3}) {
        if (k > cols) continue;
        for (bool const distinct : {true, false}) {
          auto const chosen = distinct ? distinct_choices(rows, k, cols) : random_choices(rows * k, cols);
          int_operand index(q, chosen, rows, k), copied(q, std::vector<Int>(chosen.size() * 2, 3), rows, 2 * k);
          operand<T> a(q, rows, cols, layout::gaps), taken(q, rows, k), put(q, rows, cols, layout::transposed);
          operand<T> few(q, rows, k, layout::transposed);
          operand<accumulator_t<T>> hot(q, rows, cols);
          view<Int const> const in = index.device(), host_in = index.host();
          Reference<double> const reference;
          backend.gather_cols(taken.device(), view<T const>(a.device()), in);
          reference.gather_cols(taken.host(), view<double const>(a.host()), host_in);
          taken.check(0);
          backend.scatter_cols(put.device(), view<T const>(few.device()), in);
          reference.scatter_cols(put.host(), view<double const>(few.host()), host_in);
          put.check();
          backend.one_hot(hot.device(), in);
          reference.one_hot(hot.host(), host_in);
          hot.check(0);
          view<Int const> const none(nullptr, rows, k);
          backend.renumber(copied.device().middle_cols(0, k), none, 5, 2);
          reference.renumber(copied.host().middle_cols(0, k), none, 5, 2);
          backend.renumber(copied.device().middle_cols(k, k), in, 7, cols);
          reference.renumber(copied.host().middle_cols(k, k), host_in, 7, cols);
          copied.check();
        }
      }
    }
  }
}
TEST_CASE("cuda: large choices") {
  float_backend backend;
  int_operand a(backend.queue(), {2147483647, -2147483647, 16777217, -1}, 2, 2), y(backend.queue(), {0, 0, 0, 0}, 2, 2);
  for (Int const add : {0, -1}) {
    backend.renumber(y.device(), view<Int const>(a.device()), add, 0);
    Reference<double>{}.renumber(y.host(), view<Int const>(a.host()), add, 0);
    y.check();
  }
}

TEST_CASE_TEMPLATE("cuda: rows of a table", B, bfloat16_backend, float_backend) {
  using T = typename B::scalar;
  B backend;
  auto& q = backend.queue();
  for (extent const e : few_extents) {
    Index const rows = e.rows, cols = e.cols;
    for (Index const v : {1, 30}) {
      operand<T> table(q, v, cols, layout::gaps), y(q, rows, cols, layout::transposed);
      int_operand index(q, random_choices(rows, v), rows, 1);
      backend.gather_rows(y.device(), view<T const>(table.device()), view<Int const>(index.device()));
      Reference<double>{}.gather_rows(y.host(), view<double const>(table.host()), view<Int const>(index.host()));
      y.check(0);
    }
  }
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
void check_scatter(Queue& launcher, typename test_device::queue q, std::vector<Int> const& chosen, Index v, Index cols,
                   layout form, bool accumulate) {
  auto const rows = static_cast<Index>(chosen.size());
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(v);
  operand<T> a(q, rows, cols, form), y(q, v, cols, form);
  int_operand index(q, chosen, rows, 1);
  cuda::scatter_rows<accumulator_t<T>>(launcher, y.device(), view<T const>(a.device()), view<Int const>(index.device()),
                                       accumulate);
  Reference<double>{}.scatter_rows(y.host(), view<double const>(a.host()), view<Int const>(index.host()), accumulate);
  y.check();
}
TEST_CASE_TEMPLATE("cuda: rows that are added to a table", B, bfloat16_backend, float_backend) {
  using T = typename B::scalar;
  B backend;
  auto& q = backend.queue();
  for (Index const rows : {0, 1, 7, 600}) {
    for (Index const v : {1, 5, 900, 2500}) {
      for (layout const form : all_layouts) {
        if (v > 5 && form == layout::gaps) continue;
        check_scatter<T>(q, q, random_choices(rows, v), v, v == 5 ? 150 : 3, form, form == layout::gaps);
        check_scatter<T>(q, q, random_choices(rows, v), v, 1, form, form != layout::gaps);
      }
      check_scatter<T>(q, q, std::vector<Int>(static_cast<std::size_t>(rows), static_cast<Int>(v - 1)), v, 40,
                       layout::plain, v == 5);
      check_scatter<T>(q, q, std::vector<Int>(static_cast<std::size_t>(rows), -1), v, 4, layout::plain, v == 900);
    }
  }
  check_scatter<T>(q, q, {}, 0, 4, layout::plain, false);
  check_scatter<T>(q, q, {0, 0, 0}, 1, 0, layout::plain, false);
}
TEST_CASE("cuda: rows that are added to a table in parts") {
  float_backend backend;
  for (Index const v : {5, 1500}) {
    std::size_t const fixed = cuda::digit_plan(static_cast<Int>(v)).bytes(0);
    narrow_queue few{backend.queue(), fixed + 4 * static_cast<std::size_t>(v + 1) + 2000};
    check_scatter<float>(few, backend.queue(), random_choices(700, v), v, 5, layout::plain, false);
    check_scatter<float>(few, backend.queue(), random_choices(700, v), v, 5, layout::plain, true);
  }
}

/// Slots by sequence and expert, ascending in each, those without an expert last, and offsets. `sequences` of equal
/// lengths, or as the offsets say.
template <class B>
void check_expert_order(B& backend, std::vector<Int> const& chosen, Index rows, Index cols, Index experts,
                        layout form = layout::plain, Index sequences = 1, std::vector<Int> const& begins = {}) {
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(experts);
  CAPTURE(sequences);
  auto& q = backend.queue();
  int_operand index(q, chosen, rows, cols, form);
  device_array<Int, test_device> const on_device(q, begins);
  Index const n = rows * cols, groups = sequences * experts;
  int_operand perm(q, std::vector<Int>(static_cast<std::size_t>(n), -5), 1, n);
  int_operand offsets(q, std::vector<Int>(static_cast<std::size_t>(groups + 1), -5), 1, groups + 1);
  backend.sort_by_expert(perm.device(), offsets.device(), view<Int const>(index.device()),
                         segments{on_device.data(), sequences, rows});
  Reference<double>{}.sort_by_expert(perm.host(), offsets.host(), view<Int const>(index.host()),
                                     segments{begins.empty() ? nullptr : begins.data(), sequences, rows});
  perm.check();
  offsets.check();
}
TEST_CASE("cuda: slots by expert") {
  float_backend backend;
  for (Index const experts : {1, 2, 5, 32, 300, 1023, 1024, 3000}) {
    for (Index const rows : {0, 1, 40, 777}) {
      for (Index const cols : {1, 3}) {
        if (experts > 300 && (rows == 40 || cols == 1)) continue;
        Index const n = rows * cols;
        check_expert_order(backend, random_choices(n, experts), rows, cols, experts);
        if (rows == 777 && experts > 32) continue;
        auto const size = static_cast<std::size_t>(n);
        check_expert_order(backend, random_choices(n, experts), rows, cols, experts, layout::transposed);
        check_expert_order(backend, std::vector<Int>(size, static_cast<Int>(experts / 2)), rows, cols, experts);
        check_expert_order(backend, std::vector<Int>(size, -1), rows, cols, experts);
        check_expert_order(backend, random_choices(n, (experts + 2) / 3), rows, cols, experts);
      }
    }
  }
}
TEST_CASE("cuda: slots by sequence and expert") {
  float_backend backend;
  for (Index const experts : {1, 4, 37, 300}) {  // 4 sequences of 300 take more than one digit
    for (Index const length : {0, 1, 53}) {
      Index const rows = 4 * length, cols = 3;
      check_expert_order(backend, random_choices(rows * cols, experts), rows, cols, experts, layout::plain, 4);
      check_expert_order(backend, random_choices(rows * cols, experts), rows, cols, experts, layout::transposed, 4);
    }
    std::vector<Int> const begins{0, 0, 1, 40, 40, 47, 60, 60};
    check_expert_order(backend, random_choices(60 * 2, experts), 60, 2, experts, layout::plain, 7, begins);
    check_expert_order(backend, std::vector<Int>(60, -1), 60, 1, experts, layout::transposed, 7, begins);
    check_expert_order(backend, {}, 0, 2, experts, layout::plain, 0);
  }
}
TEST_CASE("cuda: slots by expert, more than one step of a warp and more than one part of the scan") {
  float_backend backend;
  check_expert_order(backend, random_choices(20000 * 4, 33), 20000, 4, 33);
}

TEST_CASE_TEMPLATE("cuda: rotary embedding", B, bfloat16_backend, float_backend, double_backend) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  B backend;
  auto& q = backend.queue();
  operand<W> theta(q, std::vector<double>{100}, 1, 1);
  int_operand offsets(q, {0, 0, 3, 3, 10, 21, 21}, 1, 7);
  for (bool const inverse : {false, true}) {
    for (Index const rows_per_token : {1, 3}) {
      for (Index const heads : {1, 3}) {
        for (bool const is_ragged : {false, true}) {
          operand<T> a(q, 21 * rows_per_token, heads * 10, layout::gaps),
              y(q, 21 * rows_per_token, heads * 10, layout::transposed);
          segments const on_device = is_ragged ? segments{offsets.device().data, 6, 21} : uniform(3, 7);
          segments const on_host = is_ragged ? segments{offsets.host().data, 6, 21} : uniform(3, 7);
          backend.rotary(y.device(), a.device(), theta.device(), on_device, heads, inverse);
          Reference<double>{}.rotary(y.host(), view<double const>(a.host()), view<double const>(theta.host()), on_host,
                                     heads, inverse);
          y.check();
        }
      }
    }
  }
  operand<T> nothing(q, 0, 10);
  backend.rotary(nothing.device(), nothing.device(), theta.device(), segments{}, 1, false);
}

struct turn_all {
  float const* angle;
  float *cosine, *sine;
  HEADMIX_DEVICE void operator()(Index i) const {
    auto const by = cuda::turned_by(angle[i]);
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
  float_backend backend;
  for (Index const n : {0, 1, 1000}) {
    int_operand a(backend.queue(), std::vector<Int>(static_cast<std::size_t>(n) + 1, 5), 1, n + 1);
    backend.for_each(n, add_index{a.device().data});
    for (Index i = 0; i < n; ++i) a.host()(0, i) += static_cast<Int>(i);
    a.check();
  }
}

static_assert(BackendPolicy<float_backend> && BackendPolicy<double_backend> && BackendPolicy<bfloat16_backend>);
static_assert(FusedRoute<bfloat16_backend> && FusedGatedAttention<bfloat16_backend> && ForEach<bfloat16_backend>);
static_assert(!StoresProbabilities<bfloat16_backend> && !PackedGemm<bfloat16_backend>);

}  // namespace kernels_test

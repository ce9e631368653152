// SPDX-License-Identifier: MIT
// The dense product in the three forms of a linear layer, compared with a plain Eigen product of the same operands.
#include <type_traits>
#include <utility>

#include "../common.hpp"

namespace {

using namespace bench;

enum form { forward, by_input, by_weight };  // y = x w, dx = dy w^T, dw = x^T dy

/// c = a b in one of the forms, over x [t, d], w [d, n] and y [t, n].
template <class T>
struct Operands {
  Matrix<T> x, w, y;
  view<T> c;
  view<T const> a, b;

  Operands(form f, Index t, Index d, Index n) : x(t, d), w(d, n), y(t, n) {
    view<T const> const read_x = x.get(), read_w = w.get(), read_y = y.get();
    if (f == forward) {
      c = y.get(), a = read_x, b = read_w;
    } else if (f == by_input) {
      c = x.get(), a = read_y, b = read_w.transposed();
    } else {
      c = w.get(), a = read_x.transposed(), b = read_y;
    }
  }
  /// The first and the last rows against plain loops.
  void check() {
    for (Index const i : {Index{0}, c.rows - 2}) {
      Matrix<T> expected(2, c.cols);
      headmix::Reference<T>{}.gemm(expected.get(), a.middle_rows(i, 2), b, false);
      check_equal<T>("gemm", c.middle_rows(i, 2), expected.get(), 1e-4);
    }
  }
};

template <class T>
auto gemm(form f) {
  return [f](benchmark::State& state) {
    Index const t = state.range(0), d = state.range(1), n = state.range(2), threads = state.range(3);
    Operands<T> o(f, t, d, n);
    Cpu<T> cpu(pool(threads));
    time_calls(state, [&] { cpu.gemm(o.c, o.a, o.b, false); });
    o.check();
    count_flops<T>(state, threads, 2.0 * static_cast<double>(t * d * n));
  };
}

auto eigen(form f) {
  return [f](benchmark::State& state) {
    Index const t = state.range(0), d = state.range(1), n = state.range(2);
    Operands<float> o(f, t, d, n);
    using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using operand = Eigen::Map<matrix const>;
    Eigen::Map<matrix> c(o.c.data, o.c.rows, o.c.cols);
    view<float const> const x = o.x.get(), w = o.w.get(), y = o.y.get();
    time_calls(state, [&] {
      if (f == forward) {
        c.noalias() = operand(x.data, t, d) * operand(w.data, d, n);
      } else if (f == by_input) {
        c.noalias() = operand(y.data, t, n) * operand(w.data, d, n).transpose();
      } else {
        c.noalias() = operand(x.data, t, d).transpose() * operand(y.data, t, n);
      }
    });
    o.check();
    count_flops(state, 1, 2.0 * static_cast<double>(t * d * n));
  };
}

int const registered = [] {
  std::vector<std::string> const sizes = {"T", "D", "N"};
  std::vector<std::vector<std::int64_t>> const shapes = {{768, 128, 512}, {1024, 512, 512}};
  for (auto const& [name, f] : {std::pair{"forward", forward}, {"by_input", by_input}, {"by_weight", by_weight}}) {
    std::string const op = std::string("gemm_") + name;
    add(op + "/cpu/float", sizes, shapes, {1, 2}, gemm<float>(f));
    add(op + "/eigen/float", sizes, shapes, {1}, eigen(f));
  }
  add("gemm_forward/cpu/double", sizes, shapes, {1}, gemm<double>(forward));
  return 0;
}();

}  // namespace

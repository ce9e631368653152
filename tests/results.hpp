#pragma once
// SPDX-License-Identifier: MIT
// Results in memory of the caller, for any backend: the same bits as in the workspace, and nothing written beside them.

#include <doctest/doctest.h>

#include <vector>

#include "headmix/contract/memory.hpp"
#include "headmix/core/random.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/program/program.hpp"

namespace headmix::test::results {

/// A program whose leaves are bound by their names to random numbers.
template <class Backend, class Roots, class Mode = training>
class Filled {
 public:
  using scalar = typename Backend::scalar;
  using program_type = Program<Roots, Backend, Mode>;
  using result = typename program_type::template type<typename program_type::result>;
  using numbers = std::vector<double>;

  /// @param set  sizes of leaves, set(program)
  template <class F>
  Filled(Backend b, F const& set) : backend(b), program(backend) {
    set(program);
    for (named_leaf const& l : program.named_leaves()) {
      auto const n = static_cast<std::size_t>(l.count * l.rows * l.cols);
      if (l.kind == leaf_kind::random_key) {
        randomness const key(5, 6, 7, 8);
        std::vector<Int> const words(key.word, key.word + 6);
        program.bind(l.name, view<Int const>(fill(words), l.rows, l.cols));
      } else if (l.kind == leaf_kind::selection) {
        program.bind(l.name, view<Int const>(fill(std::vector<Int>(n, 1)), l.rows, l.cols));
      } else {
        scalar* const value = fill(random(n, memory_.size()));
        names.push_back(l.name);
        values.push_back({value, l.count, l.rows, l.cols});
        gradients.push_back({l.has_gradient ? fill(std::vector<scalar>(n, scalar(0))) : nullptr,
                             l.has_gradient ? l.count : 0, l.rows, l.cols});
        program.bind(l.name, values.back(), gradients.back());
      }
    }
  }
  /// Memory with these numbers.
  template <class N>
  N* fill(std::vector<N> const& from) {
    memory_.emplace_back(from.size() * sizeof(N));
    upload(backend, memory_.back().template as<N>(), from.data(), from.size());
    return memory_.back().template as<N>();
  }
  template <class T = scalar>
  static std::vector<T> random(std::size_t n, std::uint64_t stream) {
    std::vector<T> all;
    for (std::size_t i = 0; i < n; ++i) {
      all.push_back(static_cast<T>(static_cast<float>(Random(3, stream).uniform(i) - 0.4)));
    }
    return all;
  }
  template <class N>
  numbers read(view<N> const& v) {
    std::vector<std::remove_const_t<N>> row(static_cast<std::size_t>(v.cols));
    numbers all;
    for (Index i = 0; i < v.count * v.rows; ++i) {
      if (v.size() > 0) download(backend, row.data(), v.row(i), row.size());
      for (auto const& v_ij : row) all.push_back(static_cast<double>(v_ij));
    }
    return all;
  }
  view<result const> forward() {
    bytes = program.workspace_bytes();
    if (bytes > workspace_.bytes().size()) workspace_ = backend_memory<Backend>(bytes);
    program.bind_workspace(workspace_.bytes());
    return program.forward();
  }
  /// The gradients of all leaves.
  numbers backward(Index rows, Index cols) {
    std::vector<double> const weights(program_type::objective::size - 1, 0.25);
    auto const dy = fill(random<result>(static_cast<std::size_t>(rows * cols), 1000));
    program.backward({dy, rows, cols}, std::span<double const>(weights));
    numbers all;
    for (auto const& g : gradients) {
      auto const one = read(view<scalar const>(g));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  view<scalar>& value(std::string_view name) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return values[i];
    }
    REQUIRE(false);
    return values[0];
  }

  Backend backend;
  program_type program;
  std::size_t bytes = 0;
  std::vector<std::string_view> names;
  std::vector<view<scalar>> values, gradients;

 private:
  std::vector<backend_memory<Backend>> memory_;
  backend_memory<Backend> workspace_;
};

inline constexpr auto tokens_only = [](Index n) { return [n](auto& program) { program.bind_tokens(uniform(1, n)); }; };

/// Checks the result and all gradients in memory of the caller: contiguous, and between other numbers.
/// @return bytes of workspace that the result took
template <class Roots, class Backend, class Mode = training>
std::size_t check(Backend backend, Index n, bool strided = true) {
  using filled = Filled<Backend, Roots, Mode>;
  using result = typename filled::result;
  constexpr bool trains = !std::is_same_v<Mode, inference>;
  filled plain(backend, tokens_only(n)), bound(backend, tokens_only(n));
  auto const y = plain.forward();
  auto const expected = plain.read(y);
  std::vector<double> expected_gradients;
  if constexpr (trains) expected_gradients = plain.backward(y.rows, y.cols);
  for (bool const apart : {false, true}) {
    if (apart && !strided) continue;
    CAPTURE(apart);
    Index const width = apart ? y.cols + 5 : y.cols, beside = apart ? 3 : 0;
    result const untouched = result(7);
    result* const memory = bound.fill(std::vector<result>(static_cast<std::size_t>(y.rows * width), untouched));
    view<result> const all(memory, y.rows, width), to = all.middle_cols(beside, y.cols);
    bound.program.bind_result(to);
    for (int pass = 0; pass < 2; ++pass) {
      auto const found = bound.forward();
      if (n > 0) CHECK((found.data == to.data && found.row_stride == to.row_stride));
      CHECK(bound.read(view<result const>(to)) == expected);
    }
    bool same = true;
    for (double const v : bound.read(view<result const>(all.middle_cols(0, beside)))) same = same && v == 7;
    for (double const v : bound.read(view<result const>(all.middle_cols(beside + y.cols, width - beside - y.cols))))
      same = same && v == 7;
    CHECK(same);
    if constexpr (trains) {
      for (auto const& g : bound.gradients) {
        std::vector<typename Backend::scalar> const zeros(static_cast<std::size_t>(g.size()));
        if (g.size() > 0) upload(bound.backend, g.data, zeros.data(), zeros.size());
      }
      CHECK(bound.backward(y.rows, y.cols) == expected_gradients);
    }
  }
  CHECK(bound.bytes <= plain.bytes);
  std::size_t const saved = plain.bytes - bound.bytes;
  bound.program.bind_result({});
  CHECK(bound.read(bound.forward()) == expected);
  CHECK(bound.bytes == plain.bytes);
  return saved;
}

/// Checks y += the result against the sum of both.
template <class Roots, class Backend>
void check_sum(Backend backend, Index n, double tolerance) {
  using filled = Filled<Backend, Roots, training>;
  using result = typename filled::result;
  filled plain(backend, tokens_only(n)), bound(backend, tokens_only(n));
  auto const y = plain.forward();
  auto const expected = plain.read(y), expected_gradients = plain.backward(y.rows, y.cols);
  auto const before = filled::template random<result>(static_cast<std::size_t>(y.size()), 2000);
  view<result> const to(bound.fill(before), y.rows, y.cols);
  bound.program.bind_result(to, result_write::add);
  bound.forward();
  auto const found = bound.read(view<result const>(to));
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    worst = (std::max)(worst, std::abs(found[i] - (expected[i] + static_cast<double>(before[i]))));
  }
  CHECK(worst <= tolerance);
  CHECK(bound.backward(y.rows, y.cols) == expected_gradients);
}

}  // namespace headmix::test::results

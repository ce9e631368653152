#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the tests of MoA: the program of the published numbers, comparisons, ragged sequences.

#include <array>
#include <numeric>

#include "../test_program.hpp"
#include "headmix/layer/moa.hpp"

namespace headmix::test {

/// The roots of a mixture of attention heads that the tests use.
template <class L>
using moa_roots = roots<type_of<decltype(L::y)>, type_of<decltype(L::r::load)>, type_of<decltype(L::r::z_2)>,
                        type_of<decltype(L::r::index)>>;

/// S(s)[i] = sin(s (i + 1))
inline double S(double s, Index i) { return std::sin(s * static_cast<double>(i + 1)); }
inline double total(std::vector<double> const& v) { return std::accumulate(v.begin(), v.end(), 0.0); }
inline double squares(std::vector<double> const& v) { return std::inner_product(v.begin(), v.end(), v.begin(), 0.0); }
inline bool golden(double found, double expected, double tolerance = 2e-10) {
  return std::abs(found - expected) < tolerance;
}

/// The program of the published numbers: B = 2 sequences of T = 5, where the published x is [T, B, d].
template <class L>
void fill_as_published(auto& p) {
  auto const fill = [](auto v, double scale, double s) {
    for (Index i = 0; i < v.size(); ++i) v.data[i] = scale * S(s, i);
  };
  auto const transposed = [](auto v, double scale, double s) {
    for (Index i = 0; i < v.rows; ++i) {
      for (Index j = 0; j < v.cols; ++j) v(i, j) = scale * S(s, j * v.rows + i);
    }
  };
  fill(p.in(typename L::r::W_g{}), 1, 0.7);
  fill(p.in(typename L::W_q{}), 0.5, 1.1);
  fill(p.in(typename L::W_o{}), 0.5, 1.3);
  transposed(p.in(typename L::W_k{}), 0.5, 1.7);
  transposed(p.in(typename L::W_v{}), 0.5, 1.9);
  p.forward();
  for (Index b = 0; b < 2; ++b) {
    for (Index t = 0; t < 5; ++t) {
      for (Index j = 0; j < 8; ++j) {
        p.in(typename L::x{})(b * 5 + t, j) = S(2.3, (t * 2 + b) * 8 + j);
        p.dy_values[static_cast<std::size_t>((b * 5 + t) * 8 + j)] = S(2.9, (t * 2 + b) * 8 + j);
      }
    }
  }
}

/// The program of the published numbers: B = 2 sequences of T = 5, where the published x is [T, B, d].
template <class G>
struct Golden {
  using layer = Moa<8, 4, SoftmaxTopK<6, 2, G>, causal>;
  static gradcheck_options options() {
    gradcheck_options o;
    o.token_sequences = uniform(2, 5);
    return o;
  }
  TestProgram<moa_roots<layer>> p{options()};
  view<double const> y;
  std::vector<double> y_values;

  explicit Golden() {
    fill_as_published<layer>(p);
    y = p.forward();
    y_values.assign(y.data, y.data + y.size());
    p.backward({0, 0});
  }
};

inline constexpr std::array<Int, 4> ragged_offsets{0, 2, 2, 7};
/// Three sequences, one of them empty.
inline gradcheck_options ragged_options() {
  gradcheck_options o;
  o.token_sequences = ragged(ragged_offsets.data(), 3);
  return o;
}

}  // namespace headmix::test

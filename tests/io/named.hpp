#pragma once
// SPDX-License-Identifier: MIT
// Files of published models, in memory, for tests of names.

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/io/published.hpp"
#include "headmix/program/module.hpp"

namespace headmix::test {

/// Tensors of numbers that this object owns.
struct NamedFile {
  std::map<std::string, std::vector<double>> values;
  TensorMap tensors;

  std::vector<double> const& add(std::string const& name, std::vector<Index> shape, std::vector<double> numbers) {
    auto const& v = values[name] = std::move(numbers);
    tensors[name] = {dtype::f64, std::move(shape), std::as_bytes(std::span(v))};
    return v;
  }
  /// Element i is scale * sin(s (i + 1)).
  std::vector<double> const& add(std::string const& name, std::vector<Index> shape, double scale, double s) {
    std::size_t n = 1;
    for (Index const extent : shape) n *= static_cast<std::size_t>(extent);
    std::vector<double> numbers(n);
    for (std::size_t i = 0; i < n; ++i) numbers[i] = scale * std::sin(s * static_cast<double>(i + 1));
    return add(name, std::move(shape), std::move(numbers));
  }
};

template <class L>
using Loaded = Module<L, Reference<double>, inference>;

inline std::vector<double> sines(std::size_t n, double s) {
  std::vector<double> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = std::sin(s * static_cast<double>(i + 1));
  return v;
}
inline bool golden(double found, double expected, double tolerance = 2e-10) {
  return std::abs(found - expected) < tolerance;
}
/// Checks the first numbers of y, their sum, and the sum of squares.
inline void is_published(view<double const> y, std::initializer_list<double> first, double sum, double squares) {
  double s = 0, s_2 = 0;
  Index j = 0;
  for (double const e : first) CHECK(golden(y.data[j++], e));
  for (Index i = 0; i < y.size(); ++i) s += y.data[i], s_2 += y.data[i] * y.data[i];
  CHECK(golden(s, sum));
  CHECK(golden(s_2, squares));
}

/// y = x W^T + b of torch.nn.Linear: x [n, in], W [out, in].
inline std::vector<double> linear(std::vector<double> const& x, double const* w, std::size_t out, std::size_t in,
                                  double const* b = nullptr) {
  std::size_t const n = x.size() / in;
  std::vector<double> y(n * out);
  for (std::size_t t = 0; t < n; ++t) {
    for (std::size_t o = 0; o < out; ++o) {
      double sum = b ? b[o] : 0;
      for (std::size_t i = 0; i < in; ++i) sum += x[t * in + i] * w[o * in + i];
      y[t * out + o] = sum;
    }
  }
  return y;
}
/// RMSNorm of the rows of x, which are as wide as the gain.
inline std::vector<double> rms(std::vector<double> x, std::vector<double> const& gain) {
  std::size_t const width = gain.size();
  for (std::size_t t = 0; t < x.size(); t += width) {
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += x[t + i] * x[t + i];
    for (std::size_t i = 0; i < width; ++i) x[t + i] *= gain[i] / std::sqrt(sum / static_cast<double>(width) + 1e-5);
  }
  return x;
}
/// Rotates the pairs (i, i + d / 2) of every head of width d of row t, by angles times `factor`.
inline void rotate_half(std::vector<double>& q, std::size_t width, std::size_t d, double theta = 10000,
                        double factor = 1) {
  for (std::size_t at = 0; at < q.size(); at += d) {
    auto const t = static_cast<double>(at / width);
    for (std::size_t i = 0; i < d / 2; ++i) {
      double const a = t * factor * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      double const u = q[at + i], v = q[at + i + d / 2];
      q[at + i] = u * std::cos(a) - v * std::sin(a);
      q[at + i + d / 2] = v * std::cos(a) + u * std::sin(a);
    }
  }
}
/// softmax(q k^T / sqrt(d)) v of one causal sequence; head i of `heads` reads key head of(i).
template <class Of>
std::vector<double> causal_attention(std::vector<double> const& q, std::vector<double> const& k,
                                     std::vector<double> const& v, std::size_t heads, std::size_t kv, std::size_t d,
                                     Of of) {
  std::size_t const n = q.size() / (heads * d);
  std::vector<double> o(q.size(), 0);
  for (std::size_t t = 0; t < n; ++t) {
    for (std::size_t h = 0; h < heads; ++h) {
      std::vector<double> p(t + 1);
      double sum = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double dot = 0;
        for (std::size_t i = 0; i < d; ++i) dot += q[(t * heads + h) * d + i] * k[(s * kv + of(h)) * d + i];
        sum += p[s] = std::exp(dot / std::sqrt(static_cast<double>(d)));
      }
      for (std::size_t s = 0; s <= t; ++s) {
        for (std::size_t i = 0; i < d; ++i) o[(t * heads + h) * d + i] += p[s] / sum * v[(s * kv + of(h)) * d + i];
      }
    }
  }
  return o;
}
inline void agree(view<double const> y, std::vector<double> const& expected) {
  REQUIRE(y.size() == static_cast<Index>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(golden(y.data[i], expected[i], 1e-12));
}

}  // namespace headmix::test

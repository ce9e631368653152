#pragma once
// SPDX-License-Identifier: MIT
// A layer over whole sequences, and a decoder with equal weights; weights and tokens are random.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/decode/decoder.hpp"

namespace headmix::test {

/// Row `token` of an endless sequence.
template <class T = float>
std::vector<T> token_row(std::uint64_t token, Index width) {
  Random const random(17, token);
  std::vector<T> row;
  for (Index j = 0; j < width; ++j) row.push_back(static_cast<T>(random.normal(static_cast<std::uint64_t>(j))));
  return row;
}

template <class L, class Executor = serial, class T = float>
struct Decoding {
  using backend = Cpu<T, Executor>;
  static constexpr Index width = cols<typename L::x>::value;
  using rows = std::vector<T>;

  template <class... Sizes>
  explicit Decoding(cache_size const& size, backend on = {}, Sizes... sizes)
      : whole(3, on, sizes...), decoder(size, share_parameters{}, whole, sizes...) {
    std::uint64_t stream = 0;
    for (auto const& p : whole.parameters()) {
      Random const random(29, stream++);
      double const scale = p.value.rows == 1 ? 0.5 : 1 / std::sqrt(static_cast<double>(p.value.rows));
      for (Index i = 0; i < p.value.size(); ++i)
        p.value.data[i] = static_cast<T>(scale * random.normal(static_cast<std::uint64_t>(i)));
    }
  }
  /// y of a whole sequence.
  rows of_whole(rows const& x) {
    auto const y = whole.forward({x.data(), static_cast<Index>(x.size()) / width, width});
    return rows(y.data, y.data + y.size());
  }
  /// y of further rows of the sequences s.
  rows prefill(rows const& x, segments s) {
    auto const y = decoder.prefill({x.data(), s.rows, width}, s);
    return rows(y.data, y.data + y.size());
  }
  /// y of a single sequence, in chunks.
  rows in_chunks(rows const& x, Index chunk) {
    rows y;
    auto const n = static_cast<Index>(x.size()) / width;
    for (Index t = 0; t < n; t += chunk) {
      Index const some = (std::min)(chunk, n - t);
      rows const part = prefill(rows(x.begin() + t * width, x.begin() + (t + some) * width), uniform(1, some));
      y.insert(y.end(), part.begin(), part.end());
    }
    return y;
  }

  Module<L, backend, inference> whole;
  Decoder<L, backend> decoder;
};

template <class T = float>
std::vector<T> text_of(std::uint64_t first, Index n, Index width) {
  std::vector<T> x;
  for (Index t = 0; t < n; ++t) {
    auto const row = token_row<T>(first + static_cast<std::uint64_t>(t), width);
    x.insert(x.end(), row.begin(), row.end());
  }
  return x;
}
/// The largest difference, relative to the largest number; a large number if the lengths differ.
template <class T>
double difference(std::vector<T> const& a, std::vector<T> const& b) {
  if (a.size() != b.size()) return 1e9;
  double worst = 0, most = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = d <= worst ? worst : d;
    most = (std::max)(most, std::abs(static_cast<double>(b[i])));
  }
  return worst / most;
}

}  // namespace headmix::test

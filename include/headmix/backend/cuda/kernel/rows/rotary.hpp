#pragma once
// SPDX-License-Identifier: MIT
// Rotary position embedding: a thread rotates one pair of columns of a token, in all heads of all its rows.

#include <cmath>
#include <type_traits>

#include "headmix/backend/cuda/kernel/rows/sequence.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/position.hpp"
#include "headmix/core/math.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

template <class W>
struct cosine_and_sine {
  W cosine, sine;
};
[[nodiscard]] HEADMIX_DEVICE inline cosine_and_sine<double> cosine_and_sine_of(double angle) {
  return {std::cos(angle), std::sin(angle)};
}
/// Cosine and sine for angles below 2^22. The library's functions support larger angles, at the price of local memory.
[[nodiscard]] HEADMIX_DEVICE inline cosine_and_sine<float> cosine_and_sine_of(float angle) {
  // angle = quarters * pi / 2 + r, pi / 2 in three parts
  float const quarters = std::floor(angle * 0.636619772f + 0.5f);
  float r = std::fma(quarters, -1.57079637e+00f, angle);
  r = std::fma(quarters, 4.37113883e-08f, r);
  r = std::fma(quarters, 1.71512451e-15f, r);
  // The polynomials of the Cephes library for |r| <= pi / 4.
  float const s = r * r;
  float const cosine = 1 - s / 2 + s * s * (4.166664568e-2f + s * (-1.388731625e-3f + s * 2.443315711e-5f));
  float const sine = r + r * s * (-1.6666654611e-1f + s * (8.3321608736e-3f + s * -1.9515295891e-4f));
  int const n = static_cast<int>(quarters) & 3;
  float const along = n % 2 == 0 ? cosine : sine, across = n % 2 == 0 ? sine : cosine;
  return {n == 1 || n == 2 ? -along : along, n >= 2 ? -across : across};
}

/// theta^(-2 c / d). On a GPU the pow of doubles is not inlined; exp2 is, with an error of 2e-15, below float
/// resolution at 2^20 positions.
template <class W>
HEADMIX_DEVICE double rotary_frequency(double theta, Index c, Index d) {
  double const exponent = -2 * static_cast<double>(c) / static_cast<double>(d);
  if constexpr (std::is_same_v<W, double>) {
    return std::pow(theta, exponent);
  } else {
    return std::exp2(exponent * std::log2(theta));
  }
}

template <class W, class T>
struct rotary_kernel {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = threads * static_cast<int>(sizeof(double));

  view<T> y;
  view<T const> a;
  view<W const> theta;
  row_positions tokens;
  Index heads;
  rotation r;

  /// Columns of a head that have a thread: one of each pair, and those that stay.
  [[nodiscard]] HEADMIX_HD Index columns() const {
    Index const d = a.cols / heads;
    return d - r.turned(d) / 2;
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const d = a.cols / heads, turned = r.turned(d), half = turned / 2, rows_per_token = a.rows / tokens.rows;
    Index const each = columns(), e = device.block() * threads + device.thread();
    Index const t = e / each, c = e % each;
    // Pairs of the same column have equal angles: the first threads of a block compute one each.
    auto const frequencies = device.template shared<double>(0);
    if (device.thread() < each && c < half) {
      double const f = rotary_frequency<W>(static_cast<double>(device.load(theta.data)), c, turned);
      frequencies[device.thread()] = r.frequency(f);
    }
    device.sync();
    if (e >= tokens.rows * each) return;
    Index const n = rows_per_token * heads;
    if (c >= half) {
      for (Index h = 0; h < n; ++h) {
        Index const i = t * rows_per_token + h / heads, j = h % heads * d + turned + c - half;
        device.store(&y(i, j), device.load(&a(i, j)));
      }
      return;
    }
    double const frequency = frequencies[static_cast<int>(device.thread() % each)];
    Index const b = sequence_of(tokens, t);
    double const angle = static_cast<double>(tokens.first_position(b) + t - tokens.begin(b)) * frequency;
    auto const turn = cosine_and_sine_of(static_cast<W>(within_a_turn(angle)));
    W const cosine = turn.cosine, sine = r.inverse ? -turn.sine : turn.sine;
    Index const first = r.first(c), apart = r.second(c, d) - first;
    // The heads of all rows of the token, several at a time: all loads of a step before its stores.
    constexpr int step = tuning::rotary_heads;
    for (Index h = 0; h < n; h += step) {
      W u[step], v[step];
      for (int k = 0; k < step; ++k) {
        Index const i = t * rows_per_token + (h + k) / heads, j = first + (h + k) % heads * d;
        u[k] = h + k < n ? static_cast<W>(device.load(&a(i, j))) : W(0);
        v[k] = h + k < n ? static_cast<W>(device.load(&a(i, j + apart))) : W(0);
      }
      for (int k = 0; k < step; ++k) {
        if (h + k >= n) break;
        Index const i = t * rows_per_token + (h + k) / heads, j = first + (h + k) % heads * d;
        device.store(&y(i, j), static_cast<T>(u[k] * cosine - v[k] * sine));
        device.store(&y(i, j + apart), static_cast<T>(v[k] * cosine + u[k] * sine));
      }
    }
  }
};

}  // namespace headmix::cuda_kernels

// SPDX-License-Identifier: MIT
#include "noise.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace diffusion {

double kept_variance(Index t) {
  static auto const all = [] {
    std::array<double, noise_steps> a;
    double product = 1;
    for (Index i = 0; i < noise_steps; ++i) {
      double const beta = 1e-4 + (0.02 - 1e-4) * static_cast<double>(i) / static_cast<double>(noise_steps - 1);
      a[static_cast<std::size_t>(i)] = product *= 1 - beta;
    }
    return a;
  }();
  return t < 0 ? 1 : all[static_cast<std::size_t>(t)];
}

void describe_time(Index t, std::span<float> features) {
  std::size_t const half = features.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    double const angle =
        static_cast<double>(t) * std::pow(10'000., -static_cast<double>(i) / static_cast<double>(half));
    features[i] = static_cast<float>(std::cos(angle));
    features[half + i] = static_cast<float>(std::sin(angle));
  }
}

void add_noise(std::span<float const> image, std::span<float const> noise, Index t, std::span<float> x) {
  double const a = kept_variance(t);
  auto const of_image = static_cast<float>(std::sqrt(a)), of_noise = static_cast<float>(std::sqrt(1 - a));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = of_image * image[i] + of_noise * noise[i];
}

void step_back(std::span<float> x, std::span<float const> noise, Index t, Index s) {
  double const a = kept_variance(t), b = kept_variance(s);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const image = std::clamp((x[i] - std::sqrt(1 - a) * noise[i]) / std::sqrt(a), -1., 1.);
    // The noise that belongs to the clamped image.
    double const e = (x[i] - std::sqrt(a) * image) / std::sqrt(1 - a);
    x[i] = static_cast<float>(std::sqrt(b) * image + std::sqrt(1 - b) * e);
  }
}

}  // namespace diffusion

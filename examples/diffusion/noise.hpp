#pragma once
// SPDX-License-Identifier: MIT
// The noise of diffusion: x_t = sqrt(a_t) x_0 + sqrt(1 - a_t) e with the linear schedule of Ho et al. 2020 (DDPM), and
// the deterministic steps back of Song et al. 2021 (DDIM).

#include <span>

#include "headmix/core/scalar.hpp"

namespace diffusion {

using headmix::Index;

/// Noise steps t = 0 .. noise_steps - 1; the last one is almost noise alone.
constexpr Index noise_steps = 1000;
/// Numbers that describe a noise step to the network.
constexpr Index time_features = 64;

/// a_t: the share of the image's variance after noise step t; 1 for t = -1, the image.
[[nodiscard]] double kept_variance(Index t);

/// The sines and cosines of t, [time_features].
void describe_time(Index t, std::span<float> features);

/// x_t from the image x_0 and the noise.
void add_noise(std::span<float const> image, std::span<float const> noise, Index t, std::span<float> x);

/// x_t becomes x_s, s < t (-1: the image), by the predicted noise; the predicted image is clamped to [-1, 1].
void step_back(std::span<float> x, std::span<float const> noise, Index t, Index s);

}  // namespace diffusion

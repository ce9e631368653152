#pragma once
// SPDX-License-Identifier: MIT
// How near generated images are to drawn ones, in pixels.

#include <span>

#include "headmix/core/scalar.hpp"

namespace diffusion {

using headmix::Index;
using headmix::Int;

/// The Fréchet distance of two sets of points as normal distributions,
/// |m_1 - m_2|^2 + tr(C_1 + C_2 - 2 (C_1 C_2)^(1/2)) (Dowson and Landau 1982), which FID applies to features.
[[nodiscard]] double frechet_distance(std::span<float const> a, std::span<float const> b, Index dimensions);

/// The share of points whose nearest point of `known` has the same label.
[[nodiscard]] double nearest_agreement(std::span<float const> points, std::span<Int const> labels,
                                       std::span<float const> known, std::span<Int const> known_labels);

}  // namespace diffusion

#pragma once
// SPDX-License-Identifier: MIT
// The images of the diffusion example: grey shapes of random place, size, angle and brightness, drawn as often as
// needed, so that no image is seen twice.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "headmix/core/random.hpp"

namespace diffusion {

using headmix::Index;
using headmix::Int;

constexpr Index side = 16, pixels = side * side;
constexpr std::array<std::string_view, 8> shape_names = {"disc", "ring",     "square", "frame",
                                                         "bar",  "triangle", "cross",  "moon"};
constexpr Index classes = static_cast<Index>(shape_names.size());

/// Draws image `number` of a stream, of a shape: pixels from -1 (background) to 1, averages of 16 points.
void draw(headmix::Random const& random, std::uint64_t number, Int shape, std::span<float> image);

/// Images `first` .. `first + n - 1` of a stream, [n, pixels], of classes in turn.
[[nodiscard]] std::vector<float> drawn_images(std::uint64_t stream, Index first, Index n);

}  // namespace diffusion

// SPDX-License-Identifier: MIT
#include "shapes.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace diffusion {
namespace {

/// True inside a shape of radius 1 around the origin.
bool inside(Int shape, double x, double y) {
  double const r = std::hypot(x, y), most = std::max(std::abs(x), std::abs(y));
  switch (shape) {
    case 0:
      return r < 1;
    case 1:
      return r < 1 && r > 0.55;
    case 2:
      return most < 0.85;
    case 3:
      return most < 0.9 && most > 0.5;
    case 4:
      return std::abs(x) < 1.1 && std::abs(y) < 0.3;
    case 5:
      return y > -0.5 && y + std::numbers::sqrt3 * std::abs(x) < 1;
    case 6:
      return most < 1 && std::min(std::abs(x), std::abs(y)) < 0.25;
    default:
      return r < 1 && std::hypot(x - 0.55, y) > 0.75;
  }
}

}  // namespace

void draw(headmix::Random const& random, std::uint64_t number, Int shape, std::span<float> image) {
  auto const uniform = [&](std::uint64_t i, double low, double high) {
    return low + (high - low) * random.uniform(5 * number + i);
  };
  double const radius = uniform(0, 4, 6.5), room = static_cast<double>(side) / 2 - radius - 0.5;
  double const centre_x = uniform(1, -room, room), centre_y = uniform(2, -room, room);
  double const angle = uniform(3, -0.3, 0.3), brightness = uniform(4, 0.7, 1);
  double const c = std::cos(angle) / radius, s = std::sin(angle) / radius;
  constexpr int points = 4;
  for (Index row = 0; row < side; ++row) {
    for (Index column = 0; column < side; ++column) {
      int covered = 0;
      for (int p = 0; p < points * points; ++p) {
        double const x = static_cast<double>(column - side / 2) + (p % points + 0.5) / points - centre_x;
        double const y = static_cast<double>(row - side / 2) + (p / points + 0.5) / points - centre_y;
        if (inside(shape, c * x + s * y, c * y - s * x)) ++covered;
      }
      image[static_cast<std::size_t>(row * side + column)] =
          static_cast<float>(2 * brightness * covered / (points * points) - 1);
    }
  }
}

std::vector<float> drawn_images(std::uint64_t stream, Index first, Index n) {
  std::vector<float> all(static_cast<std::size_t>(n * pixels));
  headmix::Random const random(/*seed*/ 0, stream);
  for (Index i = 0; i < n; ++i) {
    draw(random, static_cast<std::uint64_t>(first + i), static_cast<Int>((first + i) % classes),
         std::span(all).subspan(static_cast<std::size_t>(i * pixels), pixels));
  }
  return all;
}

}  // namespace diffusion

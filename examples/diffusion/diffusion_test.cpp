// SPDX-License-Identifier: MIT
// The parts of the diffusion example against their definitions, and short trainings.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "noise.hpp"
#include "quality.hpp"
#include "shapes.hpp"
#include "training.hpp"

namespace diffusion_test {

using namespace diffusion;

TEST_CASE("shapes: the same image for the same number, each within its frame") {
  auto const a = drawn_images(1, 0, 40), again = drawn_images(1, 8, 32), other = drawn_images(2, 0, 40);
  CHECK(std::equal(again.begin(), again.end(), a.begin() + 8 * pixels));
  CHECK(a != other);
  for (Index i = 0; i < 40; ++i) {
    auto const image = std::span(a).subspan(static_cast<std::size_t>(i * pixels), pixels);
    CAPTURE(i);
    CHECK(*std::min_element(image.begin(), image.end()) == -1);
    CHECK(*std::max_element(image.begin(), image.end()) > -0.5f);
    CHECK(*std::max_element(image.begin(), image.end()) <= 1);
  }
}
TEST_CASE("noise: the share of the image falls from one to almost nothing") {
  CHECK(kept_variance(-1) == 1);
  CHECK(kept_variance(0) == doctest::Approx(1 - 1e-4));
  CHECK(kept_variance(1) == doctest::Approx((1 - 1e-4) * (1 - 1e-4 - 0.0199 / 999)));
  CHECK(kept_variance(noise_steps - 1) < 1e-4);
  for (Index t = 1; t < noise_steps; ++t) CHECK(kept_variance(t) < kept_variance(t - 1));
}
TEST_CASE("noise: steps back with the noise that was added return the image") {
  auto const image = drawn_images(3, 5, 1);
  headmix::Random const random(1);
  std::vector<float> noise(image.size()), x(image.size());
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<float>(random.normal(i));
  add_noise(image, noise, 799, x);
  for (Index t = 799; t >= 0; t -= 100) step_back(x, noise, t, t - 100 < 0 ? -1 : t - 100);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(x[i] == doctest::Approx(image[i]).epsilon(1e-4));
  // Without noise the prediction is the noise of the image clamped to [-1, 1].
  std::vector<float> bright(4, 3), none(4);
  step_back(bright, none, 0, -1);
  CHECK(bright == std::vector<float>(4, 1));
}
TEST_CASE("Fréchet distance of points with known means and covariances") {
  // The corners of a square and of a rectangle: independent coordinates, so (m - m')^2 + (s - s')^2 of each.
  std::vector<float> const a = {1, 1, 1, -1, -1, 1, -1, -1}, b = {5, 0, 5, 2, -1, 0, -1, 2};
  double const s = std::sqrt(4. / 3), wide = 3 * s, even = s;
  CHECK(frechet_distance(a, a, 2) == doctest::Approx(0).epsilon(1e-9));
  CHECK(frechet_distance(a, b, 2) ==
        doctest::Approx(4 + 1 + (wide - s) * (wide - s) + (even - s) * (even - s)).epsilon(1e-9));
  CHECK(frechet_distance(b, a, 2) == doctest::Approx(frechet_distance(a, b, 2)).epsilon(1e-9));
}
TEST_CASE("nearest points of the same label") {
  std::vector<float> const known = {0, 0, 10, 0, 0, 10}, points = {1, 1, 9, 2, 1, 8, 6, 0};
  std::vector<headmix::Int> const known_labels = {0, 1, 2}, labels = {0, 1, 1, 1};
  CHECK(nearest_agreement(points, labels, known, known_labels) == 0.75);
}
TEST_CASE("a short training learns most of the noise, and repeats itself to the bit on more threads") {
  Options o{.blocks = 1, .steps = 80, .batch = 16, .warmup = 10, .average = 0.9, .samples = 3, .sampling_steps = 3};
  auto const dense = train_dense(o), mixed = train_moh(o);
  CHECK(dense.loss < 0.5);
  CHECK(mixed.loss < 0.5);
  CHECK(mixed.parameters > dense.parameters);
  CHECK(mixed.samples.size() == 3 * pixels);
  o.threads = 2;
  auto const again = train_moh(o);
  CHECK(again.loss == mixed.loss);
  CHECK(again.samples == mixed.samples);
}

}  // namespace diffusion_test

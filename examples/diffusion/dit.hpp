#pragma once
// SPDX-License-Identifier: MIT
// A training and its samples, for one kind of attention.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/program/module.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/parameter_average.hpp"
#include "headmix/train/schedule.hpp"
#include "model.hpp"
#include "training.hpp"

namespace diffusion {

/// Streams of random numbers.
enum class stream : std::uint64_t { training_images = 1, training_noise, times, labels, validation, sampling };

[[nodiscard]] inline Random random_of(std::uint64_t seed, stream of) {
  return Random(seed, static_cast<std::uint64_t>(of));
}

/// n images from rows of pixels to rows of patches, or back.
template <bool ToPatches>
void rearrange(std::span<float const> from, std::span<float> to) {
  constexpr Index across = side / patch;
  for (std::size_t image = 0; image < from.size(); image += pixels) {
    for (Index i = 0; i < pixels; ++i) {
      Index const row = i / side, column = i % side;
      Index const in_patches =
          (row / patch * across + column / patch) * patch_values + row % patch * patch + column % patch;
      auto const pixel = image + static_cast<std::size_t>(i), value = image + static_cast<std::size_t>(in_patches);
      to[ToPatches ? value : pixel] = from[ToPatches ? pixel : value];
    }
  }
}

/// A module with the memory of its inputs, in rows of patches.
template <class Attention, class Mode>
class Network {
 public:
  using L = Dit<Attention>;
  using M = Module<L, Cpu<float, thread_pool>, Mode>;

  Network(Options const& o, thread_pool& pool) : module_(o.seed, Cpu<float, thread_pool>(pool), at<depth>(o.blocks)) {}

  [[nodiscard]] M& module() { return module_; }
  /// The predicted noise of images x [n, pixels] at the noise steps `times`.
  std::span<float const> predict(std::span<float const> x, std::span<Index const> times, std::span<Int const> labels) {
    auto const n = static_cast<Index>(times.size());
    places_.resize(static_cast<std::size_t>(n * places));
    for (std::size_t i = 0; i < places_.size(); ++i) places_[i] = static_cast<Int>(i % places);
    features_.resize(static_cast<std::size_t>(n * time_features));
    for (std::size_t b = 0; b < times.size(); ++b) {
      describe_time(times[b], std::span(features_).subspan(b * time_features, time_features));
    }
    auto& program = module_.program();
    program.bind(typename L::place{}, {places_.data(), n * places, 1});
    program.bind(typename L::time{}, {features_.data(), n, time_features});
    program.bind(typename L::label{}, {labels.data(), n, 1});
    auto const y = module_.forward({x.data(), n * places, patch_values}, uniform(n, places));
    return {y.data, x.size()};
  }

 private:
  M module_;
  std::vector<Int> places_;
  std::vector<float> features_;
};

/// A batch of noisy images, in rows of patches.
struct Batch {
  std::vector<float> x, noise;
  std::vector<Index> times;
  std::vector<Int> labels;

  Batch(std::uint64_t seed, stream images, std::uint64_t first, Index n)
      : x(static_cast<std::size_t>(n * pixels)), noise(x.size()) {
    auto const image_stream = random_of(seed, images), noise_stream = random_of(seed, stream::training_noise);
    std::vector<float> drawn(x.size()), patches(x.size());
    std::uint64_t const of_images = images == stream::validation ? 1ULL << 40 : 0;  // other noise, other times
    for (std::size_t b = 0; b < static_cast<std::size_t>(n); ++b) {
      std::uint64_t const number = of_images + first + b;
      labels.push_back(static_cast<Int>(number % classes));
      draw(image_stream, number, labels.back(), std::span(drawn).subspan(b * pixels, pixels));
      times.push_back(static_cast<Index>(random_of(seed, stream::times).below(number, noise_steps)));
      for (std::size_t i = 0; i < pixels; ++i) {
        noise[b * pixels + i] = static_cast<float>(noise_stream.normal(number * pixels + i));
      }
    }
    rearrange<true>(drawn, patches);
    for (std::size_t b = 0; b < times.size(); ++b) {
      add_noise(std::span(patches).subspan(b * pixels, pixels), std::span(noise).subspan(b * pixels, pixels), times[b],
                std::span(x).subspan(b * pixels, pixels));
    }
  }
};

[[nodiscard]] inline double mean_squared_error(std::span<float const> a, std::span<float const> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum / static_cast<double>(a.size());
}

/// Images by DDIM with classifier-free guidance: noise = (1 - g) noise(any class) + g noise(class).
template <class N>
std::vector<float> sample(N& network, Options const& o) {
  constexpr Index most = 32;  // images at a time
  auto const random = random_of(o.seed, stream::sampling);
  bool const guided = o.guidance != 1;
  std::vector<float> all;
  for (Index first = 0; first < o.samples; first += most) {
    Index const n = std::min(most, o.samples - first);
    auto const values = static_cast<std::size_t>(n * pixels);
    std::vector<float> x(values), noise(values), image(values);
    for (std::size_t i = 0; i < values; ++i) {
      x[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(first * pixels) + i));
    }
    std::vector<Int> labels;
    for (Index b = 0; b < n; ++b) labels.push_back(static_cast<Int>((first + b) % classes));
    if (guided) labels.resize(static_cast<std::size_t>(2 * n), static_cast<Int>(classes));
    for (Index k = o.sampling_steps; k > 0; --k) {
      Index const t = k * noise_steps / o.sampling_steps - 1, s = (k - 1) * noise_steps / o.sampling_steps - 1;
      std::vector<float> both = x;
      if (guided) both.insert(both.end(), x.begin(), x.end());
      std::vector<Index> const times(labels.size(), t);
      auto const found = network.predict(both, times, labels);
      for (std::size_t i = 0; i < values; ++i) {
        float const any = guided ? found[values + i] : 0;
        noise[i] = guided ? any + static_cast<float>(o.guidance) * (found[i] - any) : found[i];
      }
      step_back(x, noise, t, s);
    }
    rearrange<false>(x, image);
    all.insert(all.end(), image.begin(), image.end());
  }
  return all;
}

template <class Attention>
Results train(Options const& o) {
  thread_pool pool(static_cast<int>(o.threads));
  Network<Attention, training> network(o, pool);
  Network<Attention, inference> averaged(o, pool);
  auto& m = network.module();
  AdamW<float, Cpu<float, thread_pool>> optimiser(m.parameters(), {.weight_decay = 0}, m.backend());
  ParameterAverage<float> average(m.parameters(), o.average);
  Results results;
  for (auto const& p : m.parameters()) results.parameters += p.value.size();
  auto const any_class = random_of(o.seed, stream::labels);
  auto const begin = std::chrono::steady_clock::now();
  for (Index step = 0; step < o.steps; ++step) {
    Batch batch(o.seed, stream::training_images, static_cast<std::uint64_t>(step * o.batch), o.batch);
    for (std::size_t b = 0; b < batch.labels.size(); ++b) {  // one in ten is of any class
      auto const number = static_cast<std::uint64_t>(step * o.batch) + b;
      if (any_class.below(number, 10) == 0) batch.labels[b] = static_cast<Int>(classes);
    }
    auto const y = network.predict(batch.x, batch.times, batch.labels);
    double const loss = mean_squared_error(y, batch.noise);
    if (!std::isfinite(loss)) fail("the loss is ", loss, " in step ", step + 1);
    std::vector<float> dy(y.size());
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = 2 * (y[i] - batch.noise[i]) / static_cast<float>(dy.size());
    view<float const> const gradient(dy.data(), o.batch * places, patch_values);
    m.zero_gradients();
    if constexpr (Dit<Attention>::losses::size > 0) {
      m.backward(gradient, {{"head_balance", o.balance}});
    } else {
      m.backward(gradient);
    }
    optimiser.step(warmup_cosine(step, o.warmup, o.steps, o.lr, o.lr / 20), optimiser.clip_scale(1.0));
    average.update();
    if ((step + 1) % std::max<Index>(1, o.steps / 10) == 0) {
      std::fprintf(stderr, "step %td of %td: loss %.4f\n", step + 1, o.steps, loss);
    }
  }
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
  results.images_per_s = static_cast<double>(o.steps * o.batch) / seconds.count();
  average.copy_to(averaged.module());
  constexpr Index validation = 1024, at_a_time = 64;
  for (Index first = 0; first < validation; first += at_a_time) {
    Batch const batch(/*seed*/ 0, stream::validation, static_cast<std::uint64_t>(first), at_a_time);
    results.loss += mean_squared_error(averaged.predict(batch.x, batch.times, batch.labels), batch.noise) *
                    static_cast<double>(at_a_time) / static_cast<double>(validation);
  }
  results.samples = sample(averaged, o);
  return results;
}

}  // namespace diffusion

#pragma once
// SPDX-License-Identifier: MIT
// Training and sampling of a diffusion transformer on drawn shapes.

#include <vector>

#include "shapes.hpp"

namespace diffusion {

enum class Attention { dense, moh };

struct Options {
  Attention attention = Attention::moh;
  Index blocks = 6, steps = 2000, batch = 32, warmup = 100, threads = 1;
  double lr = 1e-3, average = 0.995, guidance = 1.5, balance = 0.01;
  Index samples = 64, sampling_steps = 50;
  std::uint64_t seed = 1;
};

struct Results {
  Index parameters = 0;
  double loss = 0;  ///< mean squared error of the noise on images that no training saw, by averaged parameters
  double images_per_s = 0;
  std::vector<float> samples;  ///< [samples, pixels], of classes in turn
};

/// Trains and samples with the attention of the options; see dit.hpp for the definition of both.
Results train_dense(Options const& o);
Results train_moh(Options const& o);

}  // namespace diffusion

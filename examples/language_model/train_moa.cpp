// SPDX-License-Identifier: MIT
#include "train.hpp"
#include "training.hpp"

int lm::train_moa(Options const& options, Text const& text) {
  return train<LanguageModel<MixtureOfHeads>>(options, text);
}

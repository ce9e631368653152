// SPDX-License-Identifier: MIT
#include "train.hpp"
#include "training.hpp"

int lm::train_dense(Options const& options, Text const& text) { return train<LanguageModel<Dense>>(options, text); }
